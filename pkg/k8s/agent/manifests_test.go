package agent_test

import (
	"bytes"
	"context"
	stderrors "errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/NVIDIA/aicr/internal/devcluster/devtest"
	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/k8s/agent"
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

func TestC14_AppliedManifestsLetARunThroughTheGateAndRevokedOnesDoNot(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, func(c *agent.Config) { c.ServiceAccountName = "robot" })
	_, err := s.admin.CoreV1().ServiceAccounts(s.namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{})
	s.must(err)
	manifests, err := agent.BuildServiceAccountRoleManifests(agent.ManifestOptions{Namespace: s.namespace, ServiceAccountName: "robot"})
	s.must(err)
	var all [][]byte
	for _, m := range manifests {
		all = append(all, m.Content)
	}
	kubectl := func(verb string) {
		t.Helper()
		cmd := devtest.Cluster(t).Kubectl(t.Context(), verb, "-f", "-")
		cmd.Stdin = bytes.NewReader(bytes.Join(all, []byte("---\n")))
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("kubectl %s: %v\n%s", verb, err, out)
		}
	}
	if err := s.CheckPermissions(t.Context()); !stderrors.Is(err, errors.Unauthorized) {
		t.Errorf("before: %v", err)
	}
	// The API server's authorizer hears of both a moment later.
	kubectl("apply")
	devtest.Eventually(t, "the gate opens", time.Minute, s.CheckPermissions)
	kubectl("delete")
	devtest.Eventually(t, "the gate closes", time.Minute, func(ctx context.Context) error {
		if err := s.CheckPermissions(ctx); !stderrors.Is(err, errors.Unauthorized) {
			return fmt.Errorf("want UNAUTHORIZED: %w", err)
		}
		return nil
	})
}
