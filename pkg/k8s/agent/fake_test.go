package agent_test

import (
	"context"
	stderrors "errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/k8s/agent"
	"github.com/NVIDIA/aicr/pkg/k8s/agent/agenttest"
)

func TestC9_EveryObjectCarriesTheRunsLabels(t *testing.T) {
	ctx := context.Background()
	seen := map[string]bool{}
	for range 2 {
		client := fake.NewClientset()
		agenttest.AllowAccessReviews(client)
		if err := agent.NewDeployer(client, validConfig()).Deploy(ctx); err != nil {
			t.Fatal(err)
		}
		kinds := map[string]map[string]string{}
		for _, a := range client.Actions() {
			c, ok := a.(clienttesting.CreateAction)
			if !ok || a.GetResource().Group == "authorization.k8s.io" || a.GetResource().Resource == "namespaces" {
				continue
			}
			kinds[a.GetResource().Resource] = c.GetObject().(metav1.Object).GetLabels()
			if job, ok := c.GetObject().(*batchv1.Job); ok {
				kinds["pod template"] = job.Spec.Template.Labels
			}
		}
		if len(kinds) != 7 {
			t.Errorf("labels of %d kinds, want six and the pod template: %v", len(kinds), kinds)
		}
		var invocation string
		for kind, got := range kinds {
			invocation = got["aicr.run/invocation-id"]
			if diff := cmp.Diff(map[string]string{
				"app.kubernetes.io/name":       "aicr",
				"app.kubernetes.io/managed-by": "aicr",
				"app.kubernetes.io/component":  "snapshot-agent",
				"aicr.run/run-id":              testRunID,
				"aicr.run/invocation-id":       invocation,
			}, got); diff != "" || invocation == "" {
				t.Errorf("%s: %s", kind, diff)
			}
		}
		seen[invocation] = true
	}
	if len(seen) != 2 {
		t.Error("two Deployers share an invocation ID")
	}
}

func TestC35_FakesWorkThroughAWholeRun(t *testing.T) {
	ctx := context.Background()
	client := fake.NewClientset()
	agenttest.AllowAccessReviews(client)
	d := agent.NewDeployer(client, validConfig())
	if err := d.Deploy(ctx); err != nil {
		t.Fatal(err)
	}
	job, err := client.BatchV1().Jobs("test").Get(ctx, d.JobName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	if _, err := client.BatchV1().Jobs("test").UpdateStatus(ctx, job, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := d.WaitForCompletion(ctx, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "test", Name: agent.StagingConfigMapName(testRunID)},
		Data:       map[string]string{"format": "yaml", "snapshot.yaml": "kind: Snapshot\n"},
	}
	if _, err := client.CoreV1().ConfigMaps("test").Create(ctx, cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := d.GetSnapshot(ctx)
	if err != nil || string(got) != "kind: Snapshot\n" {
		t.Fatalf("%q, %v", got, err)
	}
	if err := d.Cleanup(ctx, agent.CleanupOptions{Enabled: true}); err != nil {
		t.Fatal(err)
	}
	if left := fakeObjects(t, client); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// fakeObjects lists what a run could have left in a fake.
func fakeObjects(t *testing.T, client *fake.Clientset) []string {
	t.Helper()
	var out []string
	add := func(list runtime.Object, err error) {
		if err != nil {
			t.Fatal(err)
		}
		objects, err := metaList(list)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, objects...)
	}
	ctx, o := context.Background(), metav1.ListOptions{}
	jobs, err := client.BatchV1().Jobs("").List(ctx, o)
	add(jobs, err)
	accounts, err := client.CoreV1().ServiceAccounts("").List(ctx, o)
	add(accounts, err)
	roles, err := client.RbacV1().Roles("").List(ctx, o)
	add(roles, err)
	bindings, err := client.RbacV1().RoleBindings("").List(ctx, o)
	add(bindings, err)
	clusterRoles, err := client.RbacV1().ClusterRoles().List(ctx, o)
	add(clusterRoles, err)
	clusterBindings, err := client.RbacV1().ClusterRoleBindings().List(ctx, o)
	add(clusterBindings, err)
	maps, err := client.CoreV1().ConfigMaps("").List(ctx, o)
	add(maps, err)
	return out
}

func TestC19_AnAmbiguousCreateStaysRecordedAndAConflictDoesNot(t *testing.T) {
	ctx := context.Background()
	jobs := schema.GroupResource{Group: "batch", Resource: "jobs"}
	t.Run("other errors keep the record", func(t *testing.T) {
		client := fake.NewClientset()
		agenttest.AllowAccessReviews(client)
		client.PrependReactor("create", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewInternalError(stderrors.New("lost"))
		})
		d := agent.NewDeployer(client, validConfig())
		if err := d.Deploy(ctx); !stderrors.Is(err, errors.Internal) {
			t.Fatalf("%v, want INTERNAL", err)
		}
		client.ClearActions()
		if err := d.Cleanup(ctx, agent.CleanupOptions{Enabled: true}); err != nil {
			t.Fatal(err)
		}
		if !asked(client, "get", "jobs") {
			t.Error("Cleanup did not look for the Job whose creation was never confirmed")
		}
	})
	t.Run("a conflict removes the record", func(t *testing.T) {
		client := fake.NewClientset()
		agenttest.AllowAccessReviews(client)
		client.PrependReactor("create", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewAlreadyExists(jobs, "x")
		})
		d := agent.NewDeployer(client, validConfig())
		if err := d.Deploy(ctx); !stderrors.Is(err, errors.Conflict) {
			t.Fatalf("%v, want CONFLICT", err)
		}
		client.ClearActions()
		if err := d.Cleanup(ctx, agent.CleanupOptions{Enabled: true}); err != nil {
			t.Fatal(err)
		}
		if asked(client, "get", "jobs") || asked(client, "delete", "jobs") {
			t.Errorf("Cleanup touched a Job that is somebody else's: %v", client.Actions())
		}
	})
}

func TestC22_CleanupDisabledDeletesNothing(t *testing.T) {
	ctx := context.Background()
	client := fake.NewClientset()
	agenttest.AllowAccessReviews(client)
	d := agent.NewDeployer(client, validConfig())
	if err := d.Deploy(ctx); err != nil {
		t.Fatal(err)
	}
	client.ClearActions()
	if err := d.Cleanup(ctx, agent.CleanupOptions{}); err != nil || len(client.Actions()) > 0 {
		t.Errorf("%v, %v", err, client.Actions())
	}
}

func asked(client *fake.Clientset, verb, resource string) bool {
	for _, a := range client.Actions() {
		if a.Matches(verb, resource) {
			return true
		}
	}
	return false
}
