package faults

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/NVIDIA/aicr/internal/devcluster/devtest"
	"github.com/NVIDIA/aicr/pkg/k8s/agent"
	"github.com/NVIDIA/aicr/pkg/k8s/client"
	"github.com/NVIDIA/aicr/pkg/k8s/configmap"
	"github.com/NVIDIA/aicr/pkg/k8s/labels"
	"github.com/NVIDIA/aicr/pkg/runid"
	"github.com/NVIDIA/aicr/pkg/serializer"
)

// TestAHundredRunsAtOnceInOneNamespace: a hundred right results, nothing is
// left, and neither the server nor our own client turned a request away.
func TestAHundredRunsAtOnceInOneNamespace(t *testing.T) {
	t.Parallel()
	const runs = 100
	w := newWorld(t, devtest.OwnCluster(t).Config(), false)
	refused := &refusals{}
	config := rest.CopyConfig(w.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		refused.next = next
		return refused
	})
	shared, _, err := client.New(config, "")
	w.must(err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	before := w.inventory(ctx)
	stop := playAgents(ctx, t, w)

	var wg sync.WaitGroup
	for range runs {
		wg.Go(func() {
			id := runid.Generate()
			d := agent.NewDeployer(shared, agent.Config{Namespace: w.namespace, RunID: id, Image: "example.com/aicr:test"})
			if got, err := whole(ctx, d); err != nil || got != documentOf(id) {
				t.Errorf("run %s gave %q, %v", id, got, err)
			}
		})
	}
	wg.Wait()
	stop()
	refused.mu.Lock()
	defer refused.mu.Unlock()
	if len(refused.answers) > 0 {
		t.Errorf("refused:\n%s", lines(refused.answers))
	}
	if left := w.inventory(ctx).Diff(before); len(left) > 0 {
		t.Errorf("left:\n%s", lines(left))
	}
	left, err := w.admin.RbacV1().ClusterRoleBindings().List(ctx, metav1.ListOptions{LabelSelector: labels.Component + "=" + labels.SnapshotAgent})
	w.must(err)
	for _, b := range left.Items {
		if len(b.Subjects) > 0 && b.Subjects[0].Namespace == w.namespace {
			t.Errorf("left: %s", b.Name)
		}
	}
}

// whole is a run from Deploy to Cleanup.
func whole(ctx context.Context, d *agent.Deployer) (snapshot string, err error) {
	defer func() {
		if cerr := d.Cleanup(ctx, agent.CleanupOptions{Enabled: true}); err == nil {
			err = cerr
		}
	}()
	if err := d.Deploy(ctx); err != nil {
		return "", err
	}
	if err := d.WaitForCompletion(ctx, 0); err != nil {
		return "", err
	}
	data, err := d.GetSnapshot(ctx)
	return string(data), err
}

func documentOf(runID string) string { return "kind: Snapshot # " + runID + "\n" }

// playAgents plays Job controller and agent for every Job of a run in the
// namespace, until stop.
func playAgents(ctx context.Context, t *testing.T, w *world) (stop func()) {
	t.Helper()
	jobs := w.admin.BatchV1().Jobs(w.namespace)
	now, err := jobs.List(ctx, metav1.ListOptions{})
	w.must(err)
	// A server with much to do closes watches.
	events, err := watchtools.NewRetryWatcherWithContext(ctx, now.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: jobs.Watch,
	})
	w.must(err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for e := range events.ResultChan() {
			job, ok := e.Object.(*batchv1.Job)
			if !ok || e.Type != watch.Added {
				continue
			}
			wg.Go(func() {
				if err := playAgent(ctx, w.admin, job); err != nil {
					t.Error(err)
				}
			})
		}
	})
	return func() {
		events.Stop()
		wg.Wait()
	}
}

func playAgent(ctx context.Context, admin kubernetes.Interface, job *batchv1.Job) error {
	if err := writeStaging(ctx, admin, job); err != nil {
		return err
	}
	return completeJob(ctx, admin.BatchV1().Jobs(job.Namespace), job)
}

// writeStaging plays the agent of a Job: it writes its ConfigMap.
func writeStaging(ctx context.Context, admin kubernetes.Interface, job *batchv1.Job) error {
	id := job.Labels[labels.RunID]
	dest := serializer.NewConfigMap(serializer.ConfigMapOptions{
		Client: admin, Ref: configmap.Ref{Namespace: job.Namespace, Name: agent.StagingConfigMapName(id)},
		Owner: &serializer.JobRef{Name: job.Name, UID: job.UID},
	})
	err := dest.Write(ctx, serializer.Document{Format: serializer.YAML, Data: []byte(documentOf(id)), Kind: "Snapshot", Version: "test"})
	if err != nil {
		return fmt.Errorf("play the agent of %s: %w", job.Name, err)
	}
	return nil
}

// refusals notes answers that turn a request away for now.
type refusals struct {
	next http.RoundTripper

	mu      sync.Mutex
	answers []string
}

// RoundTrip implements http.RoundTripper.
func (f *refusals) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := f.next.RoundTrip(r)
	answer := ""
	switch {
	case err != nil:
		answer = err.Error()
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= http.StatusInternalServerError:
		answer = resp.Status
	}
	if answer != "" {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.answers = append(f.answers, r.Method+" "+r.URL.Path+": "+answer)
	}
	return resp, err
}
