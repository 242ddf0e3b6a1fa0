package agent_test

import (
	"context"
	stderrors "errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/NVIDIA/aicr/internal/devcluster/devtest"
	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/k8s/agent"
	"github.com/NVIDIA/aicr/pkg/k8s/configmap"
	"github.com/NVIDIA/aicr/pkg/serializer"
)

func TestC14_ManifestsAreNamedAndTheSameEveryTime(t *testing.T) {
	o := agent.ManifestOptions{Namespace: "gpu", ServiceAccountName: "robot"}
	got, err := agent.BuildServiceAccountRoleManifests(o)
	if err != nil {
		t.Fatal(err)
	}
	again, err := agent.BuildServiceAccountRoleManifests(o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, again); diff != "" {
		t.Error(diff)
	}
	var names []string
	for _, m := range got {
		names = append(names, m.FileName+" "+m.Kind+" "+m.Name)
		text := string(m.Content)
		for _, want := range []string{"# Apply:  kubectl apply -f " + m.FileName, "# Revoke: kubectl delete -f " + m.FileName, "applied nothing", "component: agent-rbac"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not say %q:\n%s", m.FileName, want, text)
			}
		}
		if !strings.HasPrefix(text, "# G") || strings.Contains(text, "run-id") || strings.Contains(text, "invocation-id") {
			t.Errorf("%s:\n%s", m.FileName, text)
		}
	}
	if diff := cmp.Diff([]string{
		"01-role.yaml Role aicr-agent-robot-rbac",
		"02-rolebinding.yaml RoleBinding aicr-agent-robot-rbac",
		"03-clusterrole.yaml ClusterRole aicr-agent-gpu.robot-rbac",
		"04-clusterrolebinding.yaml ClusterRoleBinding aicr-agent-gpu.robot-rbac",
	}, names); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []agent.ManifestOptions{{}, {Namespace: "a"}, {Namespace: "a", ServiceAccountName: "/"}, {Namespace: "a", ServiceAccountName: "b", DiscoverNetwork: true}} {
		if _, err := agent.BuildServiceAccountRoleManifests(bad); !stderrors.Is(err, errors.InvalidRequest) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// TestC14_AppliedManifestsLetARunThroughTheGateAndRevokedOnesDoNot: kubectl
// applies and deletes the files, and a caller without any right about RBAC runs
// the agent in between.
func TestC14_AppliedManifestsLetARunThroughTheGateAndRevokedOnesDoNot(t *testing.T) {
	t.Parallel()
	inNamespace, inCluster := enoughWithAccount()
	s, w := sceneAs(t, inNamespace, inCluster, func(c *agent.Config) { c.ServiceAccountName = "robot" })
	s.account("robot")
	manifests, err := agent.BuildServiceAccountRoleManifests(agent.ManifestOptions{Namespace: s.namespace, ServiceAccountName: "robot"})
	s.must(err)
	dir := t.TempDir()
	for _, m := range manifests {
		s.must(os.WriteFile(filepath.Join(dir, m.FileName), m.Content, 0o600))
	}
	kubectl := func(ctx context.Context, args ...string) error {
		cmd := devtest.Cluster(t).Kubectl(ctx, append(args, "-f", dir)...)
		cmd.Env = append(os.Environ(), "HOME="+dir)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("kubectl %v: %w: %s", args, err, out)
		}
		return nil
	}
	closed := func(ctx context.Context) error {
		err := s.CheckPermissions(ctx)
		for _, want := range []string{"robot: create configmaps", "robot: patch configmaps", "robot: get nodes"} {
			if !stderrors.Is(err, errors.Unauthorized) || !strings.Contains(err.Error(), want) {
				return fmt.Errorf("want UNAUTHORIZED that tells %q: %w", want, err)
			}
		}
		return nil
	}
	s.must(closed(t.Context()))
	s.must(kubectl(t.Context(), "apply"))
	t.Cleanup(func() { _ = kubectl(context.Background(), "delete", "--ignore-not-found") })
	// The API server's authorizer hears of both a moment later.
	devtest.Eventually(t, "the gate opens", time.Minute, s.CheckPermissions)
	applied := rbacOf(t, s)
	if len(applied) < 4 {
		t.Fatalf("applied: %v", applied)
	}
	s.deploy()
	s.must(s.writeAs("robot"))
	got, err := s.GetSnapshot(t.Context())
	s.must(err)
	if string(got) != "kind: Snapshot\n" {
		t.Errorf("snapshot %q", got)
	}
	s.cleanup()
	s.left()
	if diff := cmp.Diff(applied, rbacOf(t, s)); diff != "" {
		t.Errorf("the run changed RBAC: %s", diff)
	}
	if byUser, ok := requestsOf(t, s); ok {
		for _, e := range byUser[s.user] {
			if e.APIGroup == rbacGroup || e.Resource == "serviceaccounts" && e.Verb != "get" {
				t.Errorf("the run sent %s %s", e.Verb, e.URI)
			}
		}
	}
	if got := w.String(); got != "" {
		t.Errorf("warnings: %s", got)
	}
	s.must(kubectl(t.Context(), "delete"))
	devtest.Eventually(t, "the gate closes", time.Minute, closed)
}

// rbacOf tells the version of each RBAC object in the run's namespace, and of
// those of the cluster that are about it.
func rbacOf(t *testing.T, s *scene) map[string]string {
	t.Helper()
	ctx, o, rbac := t.Context(), metav1.ListOptions{}, s.admin.RbacV1()
	out := map[string]string{}
	add := func(kind string, objects []metav1.Object, err error) {
		s.must(err)
		for _, m := range objects {
			if m.GetNamespace() == s.namespace || strings.Contains(m.GetName(), s.namespace) || strings.Contains(m.GetName(), s.config.RunID) {
				out[kind+" "+m.GetName()] = m.GetResourceVersion()
			}
		}
	}
	roles, err := rbac.Roles(s.namespace).List(ctx, o)
	add("Role", pointers(roles.Items), err)
	bindings, err := rbac.RoleBindings(s.namespace).List(ctx, o)
	add("RoleBinding", pointers(bindings.Items), err)
	clusterRoles, err := rbac.ClusterRoles().List(ctx, o)
	add("ClusterRole", pointers(clusterRoles.Items), err)
	clusterBindings, err := rbac.ClusterRoleBindings().List(ctx, o)
	add("ClusterRoleBinding", pointers(clusterBindings.Items), err)
	return out
}

// writeAs plays the agent's write as that ServiceAccount, with its rights.
func (s *scene) writeAs(account string) error {
	s.t.Helper()
	config := devtest.Cluster(s.t).Config()
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + s.namespace + ":" + account,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + s.namespace, "system:authenticated"},
	}
	job := s.job()
	return serializer.NewConfigMap(serializer.ConfigMapOptions{
		Client: clientOf(s.t, config, nil),
		Ref:    configmap.Ref{Namespace: s.namespace, Name: agent.StagingConfigMapName(s.config.RunID)},
		Owner:  &serializer.JobRef{Name: job.Name, UID: job.UID},
	}).Write(s.t.Context(), serializer.Document{Format: serializer.YAML, Data: []byte("kind: Snapshot\n"), Kind: "Snapshot", Version: "test"})
}
