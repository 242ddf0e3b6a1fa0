package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/NVIDIA/aicr/internal/devcluster/devtest"
	"github.com/NVIDIA/aicr/internal/inventory"
	"github.com/NVIDIA/aicr/pkg/k8s/agent"
	"github.com/NVIDIA/aicr/pkg/k8s/client"
	"github.com/NVIDIA/aicr/pkg/measurement"
	"github.com/NVIDIA/aicr/pkg/runid"
	"github.com/NVIDIA/aicr/pkg/serializer"
	"github.com/NVIDIA/aicr/pkg/snapshotter"
)

const runLimit = 2 * time.Minute

func options(t *testing.T, privileged bool) snapshotter.RunOptions {
	t.Helper()
	devtest.Node(t)
	return snapshotter.RunOptions{
		Client:  devtest.Client(t),
		Timeout: runLimit,
		Agent: agent.Config{
			Namespace:  devtest.Namespace(t),
			RunID:      runid.Generate(),
			Image:      devtest.Image(t),
			Privileged: privileged,
		},
	}
}

func decode(t *testing.T, data []byte) *measurement.Snapshot {
	t.Helper()
	s, err := serializer.Decode(data)
	if err != nil {
		t.Fatalf("%v in:\n%s", err, data)
	}
	return s
}

// reading returns one reading, or fails the test.
func reading(t *testing.T, s *measurement.Snapshot, kind measurement.Type, subtype, key string) string {
	t.Helper()
	for _, m := range s.Measurements {
		for _, sub := range m.Subtypes {
			if m.Type == kind && sub.Name == subtype {
				if r, ok := sub.Data[key]; ok {
					return r.String()
				}
			}
		}
	}
	t.Errorf("the snapshot has no %s/%s/%s", kind, subtype, key)
	return ""
}

func node(t *testing.T) corev1.Node {
	t.Helper()
	list, err := devtest.Client(t).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%d nodes, %v", len(list.Items), err)
	}
	return list.Items[0]
}

// TestReferenceProgramBringsTheNodesRealState makes the calls of the reference
// text's usage example, privileged.
func TestReferenceProgramBringsTheNodesRealState(t *testing.T) {
	t.Parallel()
	devtest.Node(t)
	ctx := t.Context()
	namespace, image := devtest.Namespace(t), devtest.Image(t)
	clientset, _, err := client.BuildKubeClient(devtest.Cluster(t).Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	runID := runid.Generate()
	config := agent.Config{
		Namespace:           namespace,
		RunID:               runID,
		Image:               image,
		Output:              "cm://" + namespace + "/" + agent.StagingConfigMapName(runID),
		OwnsOutputConfigMap: true,
		NodeSelector:        map[string]string{"kubernetes.io/os": "linux"},
		Privileged:          true,
	}
	deployer := agent.NewDeployer(clientset, config)
	defer func() {
		if err := deployer.Cleanup(context.Background(), agent.CleanupOptions{Enabled: true}); err != nil {
			t.Error(err)
		}
	}()
	if err := deployer.Deploy(ctx); err != nil {
		t.Fatal(err)
	}
	if err := deployer.WaitForCompletion(ctx, 5*time.Minute); err != nil {
		t.Fatal(err)
	}
	data, err := deployer.GetSnapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}

	s, n := decode(t, data), node(t)
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		t.Fatal(err)
	}
	for what, pair := range map[string][2]string{
		"source node": {n.Name, s.Metadata.SourceNode},
		"kernel":      {strings.TrimSpace(string(kernel)), reading(t, s, measurement.TypeOS, "kernel", "release")},
		"kubelet":     {n.Status.NodeInfo.KubeletVersion, reading(t, s, measurement.TypeK8s, "node", "kubelet-version")},
		"os-release":  {n.Status.NodeInfo.OSImage, reading(t, s, measurement.TypeOS, "release", "PRETTY_NAME")},
	} {
		if pair[0] != pair[1] || pair[0] == "" {
			t.Errorf("%s: the node has %q, the snapshot %q", what, pair[0], pair[1])
		}
	}
	if logs, err := deployer.GetPodLogs(ctx); err != nil || logs == "" {
		t.Errorf("the agent's log: %q, %v", logs, err)
	}
}

// TestC24_TheStagedConfigMapGoesWithTheJob looks at what the agent of a run
// that is not cleaned up leaves, and at what goes with the Job.
func TestC24_TheStagedConfigMapGoesWithTheJob(t *testing.T) {
	t.Parallel()
	o := options(t, false)
	o.NoCleanup = true
	if _, err := snapshotter.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	ns, name := o.Agent.Namespace, agent.StagingConfigMapName(o.Agent.RunID)
	cm, err := o.Client.CoreV1().ConfigMaps(ns).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	job, err := o.Client.BatchV1().Jobs(ns).Get(t.Context(), "aicr-"+o.Agent.RunID, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(cm.OwnerReferences) != 1 || cm.OwnerReferences[0].UID != job.UID || cm.OwnerReferences[0].Name != job.Name {
		t.Errorf("owners %+v, want Job %s", cm.OwnerReferences, job.UID)
	}
	if len(cm.Labels) != 3 || cm.Labels["app.kubernetes.io/component"] != "snapshot" {
		t.Errorf("labels %v", cm.Labels)
	}
	background := metav1.DeletePropagationBackground
	if err := o.Client.BatchV1().Jobs(ns).Delete(t.Context(), job.Name, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
	devtest.Eventually(t, "the ConfigMap goes", time.Minute, func(ctx context.Context) error {
		if _, err := o.Client.CoreV1().ConfigMaps(ns).Get(ctx, name, metav1.GetOptions{}); err == nil {
			return fmt.Errorf("still there")
		}
		return nil
	})
	for _, err := range []error{
		o.Client.RbacV1().ClusterRoles().Delete(t.Context(), "aicr-node-reader-"+o.Agent.RunID, metav1.DeleteOptions{}),
		o.Client.RbacV1().ClusterRoleBindings().Delete(t.Context(), "aicr-node-reader-"+o.Agent.RunID, metav1.DeleteOptions{}),
	} {
		if err != nil {
			t.Error(err)
		}
	}
}

func TestC11_TheCallersOwnConfigMapHasNoOwnerAndStays(t *testing.T) {
	t.Parallel()
	o := options(t, false)
	o.Agent.Output, o.Agent.Format = "cm://"+o.Agent.Namespace+"/mine", "json"
	res, err := snapshotter.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	cm, err := o.Client.CoreV1().ConfigMaps(o.Agent.Namespace).Get(t.Context(), "mine", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(cm.OwnerReferences) > 0 || cm.Data["format"] != "json" || cm.Data["snapshot.json"] != string(res.Data) {
		t.Errorf("%+v", cm)
	}
}

func TestC27_TheUnprivilegedAgentRunsInARestrictedNamespace(t *testing.T) {
	t.Parallel()
	o := options(t, false)
	_, err := o.Client.CoreV1().Namespaces().Patch(t.Context(), o.Agent.Namespace, "application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	res, err := snapshotter.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	s := decode(t, res.Data)
	reading(t, s, measurement.TypeOS, "kernel", "release")
	for _, m := range s.Measurements {
		for _, sub := range m.Subtypes {
			if m.Type == measurement.TypeOS && sub.Name == "release" {
				t.Errorf("the container's os-release is told as the host's: %v", sub.Data)
			}
		}
	}
}

func TestTwoRunsAtOnceInOneNamespaceEachHaveTheirOwn(t *testing.T) {
	t.Parallel()
	first := options(t, true)
	second := first
	second.Agent.RunID = runid.Generate()
	runs := []snapshotter.RunOptions{first, second}
	logs := make([]bytes.Buffer, len(runs))
	results := make([]*snapshotter.Result, len(runs))
	var wg sync.WaitGroup
	for i := range runs {
		runs[i].LogWriter, runs[i].Agent.Debug = &logs[i], true
		// What tells the runs apart in their snapshots' and logs' own words.
		runs[i].Agent.Format = []string{"yaml", "json"}[i]
		wg.Go(func() {
			var err error
			if results[i], err = snapshotter.Run(t.Context(), runs[i]); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	for i := range runs {
		s := decode(t, results[i].Data)
		reading(t, s, measurement.TypeOS, "release", "ID")
		if isJSON := bytes.HasPrefix(results[i].Data, []byte("{")); isJSON != (runs[i].Agent.Format == "json") {
			t.Errorf("run %d brought the other's snapshot", i)
		}
		own, other := agent.StagingConfigMapName(runs[i].Agent.RunID), agent.StagingConfigMapName(runs[1-i].Agent.RunID)
		if text := logs[i].String(); !strings.Contains(text, own) || strings.Contains(text, other) {
			t.Errorf("run %d has not its own log, and only that:\n%s", i, text)
		}
	}
}

// TestNothingIsLeftOfARun has the cluster for itself: it is not parallel, so
// that the others wait.
func TestNothingIsLeftOfARun(t *testing.T) {
	for _, privileged := range []bool{true, false} {
		o := options(t, privileged)
		taker, err := inventory.NewTaker(devtest.Cluster(t).Config())
		if err != nil {
			t.Fatal(err)
		}
		before := settled(t, taker)
		if _, err := snapshotter.Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		// Ten seconds are allowed for the pod and the garbage collector.
		devtest.Eventually(t, "nothing is left", time.Minute, func(ctx context.Context) error {
			return taker.Unchanged(ctx, before)
		})
	}
}

// settled takes an inventory that has stopped changing: a namespace just made
// still gets its ConfigMap and ServiceAccount, and one that another test is done
// with takes seconds to go.
func settled(t *testing.T, taker *inventory.Taker) inventory.Inventory {
	t.Helper()
	var last inventory.Inventory
	devtest.Eventually(t, "the cluster is quiet", time.Minute, func(ctx context.Context) error {
		namespaces, err := devtest.Client(t).CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, n := range namespaces.Items {
			if n.DeletionTimestamp != nil {
				return fmt.Errorf("namespace %s is going", n.Name)
			}
		}
		now, err := taker.Take(ctx)
		if err != nil {
			return err
		}
		diff := now.Diff(last)
		last = now
		if len(diff) > 0 {
			return fmt.Errorf("%v", diff)
		}
		return nil
	})
	return last
}
