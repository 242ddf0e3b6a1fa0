package snapshotter_test

import (
	"context"
	stderrors "errors"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/NVIDIA/aicr/internal/devcluster/devtest"
	"github.com/NVIDIA/aicr/internal/inventory"
	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/event"
	"github.com/NVIDIA/aicr/pkg/k8s/agent"
	"github.com/NVIDIA/aicr/pkg/runid"
	"github.com/NVIDIA/aicr/pkg/snapshotter"
)

// nothingLeft fails unless the cluster is as before soon after; listing all
// kinds alone takes seconds on a busy machine.
func nothingLeft(t *testing.T, taker *inventory.Taker, before inventory.Inventory) {
	t.Helper()
	devtest.Eventually(t, "nothing is left", time.Minute, func(ctx context.Context) error {
		return taker.Unchanged(ctx, before)
	})
}

func runOptions(t *testing.T) (snapshotter.RunOptions, *inventory.Taker, inventory.Inventory) {
	t.Helper()
	devtest.Controllers(t)
	o := snapshotter.RunOptions{
		Client:  devtest.Client(t),
		Timeout: 3 * time.Second,
		Agent:   agent.Config{Namespace: devtest.Namespace(t), RunID: runid.Generate(), Image: "example.com/aicr:test"},
	}
	taker, err := inventory.NewTaker(devtest.Cluster(t).Config())
	if err != nil {
		t.Fatal(err)
	}
	// What a namespace gets by itself is there when its root CA is.
	devtest.Eventually(t, "the namespace is settled", time.Minute, func(ctx context.Context) error {
		_, err := o.Client.CoreV1().ConfigMaps(o.Agent.Namespace).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return err
	})
	before, err := taker.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return o, taker, before
}

func TestWithoutAKubeletARunEndsAtItsTimeoutTellsWhyAndLeavesNothing(t *testing.T) {
	o, taker, before := runOptions(t)
	start := time.Now()
	_, err := snapshotter.Run(t.Context(), o)
	if !stderrors.Is(err, errors.Timeout) || !strings.Contains(err.Error(), "no nodes available") {
		t.Errorf("%v, want a TIMEOUT that tells what the pod waited for", err)
	}
	if took := time.Since(start); took > o.Timeout+20*time.Second {
		t.Errorf("took %s", took)
	}
	nothingLeft(t, taker, before)
}

func TestACancelledRunLeavesNothing(t *testing.T) {
	o, taker, before := runOptions(t)
	o.Timeout = time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	var created []string
	var mu sync.Mutex
	o.Events = func(e event.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Type == event.Created {
			created = append(created, e.Kind)
			if e.Kind == "Job" {
				cancel()
			}
		}
	}
	_, err := snapshotter.Run(ctx, o)
	if !stderrors.Is(err, context.Canceled) {
		t.Errorf("%v, want the cancellation", err)
	}
	if len(created) == 0 {
		t.Error("the run was cancelled before it created anything: the test shows nothing")
	}
	nothingLeft(t, taker, before)
}

func TestARunWhoseJobCannotStartTellsTheServersReason(t *testing.T) {
	o, taker, before := runOptions(t)
	// A quota that is already used up exists as an event of the Job only.
	cmd := devtest.Cluster(t).Kubectl(t.Context(), "create", "quota", "none", "--hard=pods=0", "-n", o.Agent.Namespace)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	_, err := snapshotter.Run(t.Context(), o)
	if !stderrors.Is(err, errors.Timeout) || !strings.Contains(err.Error(), "exceeded quota") {
		t.Errorf("%v, want a TIMEOUT that tells of the quota", err)
	}
	if err := devtest.Cluster(t).Kubectl(t.Context(), "delete", "quota", "none", "-n", o.Agent.Namespace).Run(); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, taker, before)
}
