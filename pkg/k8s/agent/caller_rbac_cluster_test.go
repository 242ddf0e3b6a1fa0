package agent_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/NVIDIA/aicr/internal/devcluster/devtest"
	"github.com/NVIDIA/aicr/pkg/k8s/agent"
)

// callerManifest is what the README tells administrators to apply.
const callerManifest = "../../../docs/caller-rbac.yaml"

// callerRules reads the rules of the manifest's Role and ClusterRole.
func callerRules(t *testing.T) (inNamespace, inCluster []rbacv1.PolicyRule) {
	t.Helper()
	text, err := os.ReadFile(callerManifest)
	if err != nil {
		t.Fatal(err)
	}
	for doc := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var role rbacv1.ClusterRole // a Role has the same fields
		if err := yaml.Unmarshal(doc, &role); err != nil {
			t.Fatal(err)
		}
		switch role.Kind {
		case "Role":
			inNamespace = role.Rules
		case "ClusterRole":
			inCluster = role.Rules
		}
	}
	return inNamespace, inCluster
}

// rights lists what rules allow, one line each.
func rights(rules ...rbacv1.PolicyRule) []string {
	var out []string
	for _, r := range rules {
		for _, res := range r.Resources {
			for _, verb := range r.Verbs {
				out = append(out, verb+" "+res+" "+strings.Join(r.APIGroups, ","))
			}
		}
	}
	slices.Sort(out)
	return out
}

func TestC16_TheDocumentedRightsAreWhatACallerNeedsAndNoMore(t *testing.T) {
	inNamespace, inCluster := callerRules(t)
	if diff := cmp.Diff(rights(enoughInNamespace()...), rights(inNamespace...)); diff != "" {
		t.Error(diff)
	}
	// With the two that only some runs use.
	want := append(enoughInCluster(), rule(nodev1.GroupName, "runtimeclasses", "get"), rule("authorization.k8s.io", "subjectaccessreviews", "create"))
	if diff := cmp.Diff(rights(want...), rights(inCluster...)); diff != "" {
		t.Error(diff)
	}
}

func TestC16_ACallerWithTheDocumentedRightsRunsInEveryMode(t *testing.T) {
	devtest.OwnCluster(t) // on another, its names are not a test's to take
	namespace := devtest.Namespace(t)
	kubectl := func(ctx context.Context, args ...string) {
		t.Helper()
		if out, err := devtest.Cluster(t).Kubectl(ctx, append(args, "-n", namespace, "-f", callerManifest)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	kubectl(t.Context(), "apply")
	t.Cleanup(func() { kubectl(context.Background(), "delete") })
	groups := []string{"aicr-callers", "system:authenticated"}
	config, err := devtest.Cluster(t).UserConfig("ann", groups...)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	inNamespace, inCluster := callerRules(t)
	awaitRights(t, "ann", groups, namespace, inNamespace)
	awaitRights(t, "ann", groups, "", inCluster)

	for name, change := range map[string]func(*testing.T, *scene){
		"an identity of the run's own": func(*testing.T, *scene) {},
		"a ConfigMap of the caller's":  func(_ *testing.T, s *scene) { s.config.Output = "cm://" + namespace + "/mine" },
		"a runtime class": func(t *testing.T, s *scene) {
			class := "class-" + s.config.RunID
			_, err := s.admin.NodeV1().RuntimeClasses().Create(t.Context(), &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: class}, Handler: "x"}, metav1.CreateOptions{})
			s.must(err)
			t.Cleanup(func() {
				_ = s.admin.NodeV1().RuntimeClasses().Delete(context.Background(), class, metav1.DeleteOptions{})
			})
			s.config.RuntimeClassName = class
		},
		"an existing ServiceAccount": func(t *testing.T, s *scene) {
			_, err := s.admin.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{})
			s.must(err)
			grant(t, s, "robot")
			s.config.ServiceAccountName = "robot"
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, w := newScene(t, client, nil), &warnings{}
			s.namespace, s.config.Namespace, s.config.Logger = namespace, namespace, slog.New(w)
			change(t, s)
			s.Deployer = agent.NewDeployer(client, s.config)
			t.Cleanup(func() { _ = s.Cleanup(context.Background(), agent.CleanupOptions{Enabled: true}) })
			s.must(s.CheckPermissions(t.Context()))
			s.deploy()
			if got := w.String(); got != "" {
				t.Errorf("warnings: %s", got)
			}
			s.cleanup()
			s.left()
		})
	}
}
