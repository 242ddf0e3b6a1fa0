package faults

import (
	"context"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/NVIDIA/aicr/internal/devcluster/devtest"
	"github.com/NVIDIA/aicr/pkg/k8s/agent"
	"github.com/NVIDIA/aicr/pkg/k8s/client"
)

// TestC25_OwnerReferencesAreAdmittedWhereTheyAreEnforced: under the admission
// plugin OwnerReferencesPermissionEnforcement, which the package's cluster has,
// a caller and an agent with just their documented rights set every owner
// reference that a kill relies on.
func TestC25_OwnerReferencesAreAdmittedWhereTheyAreEnforced(t *testing.T) {
	t.Parallel()
	cluster := devtest.OwnCluster(t)
	w := newWorld(t, cluster.Config(), false)
	user := "user-" + w.runID
	config, err := cluster.UserConfig(user, "system:authenticated")
	w.must(err)
	w.allow(user)
	caller, _, err := client.New(config, "")
	w.must(err)

	d := agent.NewDeployer(caller, agent.Config{Namespace: w.namespace, RunID: w.runID, Image: "example.com/aicr:test"})
	t.Cleanup(func() { _ = d.Cleanup(context.Background(), agent.CleanupOptions{Enabled: true}) })
	w.must(d.Deploy(t.Context()))
	job, err := w.admin.BatchV1().Jobs(w.namespace).Get(t.Context(), d.JobName(), metav1.GetOptions{})
	w.must(err)
	// The agent's own rights, as the run has just granted them; the write waits for them.
	account := rest.CopyConfig(w.config)
	account.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + w.namespace + ":" + job.Spec.Template.Spec.ServiceAccountName,
		Groups:   []string{"system:serviceaccounts:" + w.namespace, "system:authenticated"},
	}
	pod, err := kubernetes.NewForConfig(account)
	w.must(err)
	w.must(writeStaging(t.Context(), pod, job))

	var owned []string
	for key, o := range w.list(t.Context()) {
		if len(o.OwnerReferences) == 1 && o.OwnerReferences[0].UID == job.UID {
			owned = append(owned, key.Resource)
		}
	}
	slices.Sort(owned)
	if got, want := strings.Join(owned, " "), "configmaps rolebindings roles serviceaccounts"; got != want {
		t.Errorf("owned by the Job: %s, want %s", got, want)
	}
	w.must(d.Cleanup(t.Context(), agent.CleanupOptions{Enabled: true}))
}
