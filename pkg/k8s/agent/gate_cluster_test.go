package agent_test

import (
	"context"
	stderrors "errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/NVIDIA/aicr/internal/devcluster/devtest"
	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/k8s/agent"
	"github.com/NVIDIA/aicr/pkg/runid"
)

func rule(group, resources, verbs string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: strings.Split(resources, ","), Verbs: strings.Split(verbs, ",")}
}

const rbacGroup = rbacv1.GroupName

// enoughInNamespace and enoughInCluster are what a caller needs, and no more.
func enoughInNamespace() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule("batch", "jobs", "create,get,list,watch,delete"),
		rule("", "pods", "list,watch"),
		rule("", "pods/log", "get"),
		rule("", "events", "list"),
		rule("", "configmaps", "create,get,patch,delete"),
		rule("", "serviceaccounts", "create,get,patch,delete"),
		rule(rbacGroup, "roles,rolebindings", "create,get,delete"),
	}
}

func enoughInCluster() []rbacv1.PolicyRule {
	return append([]rbacv1.PolicyRule{
		rule("", "namespaces", "get,patch"),
		rule(rbacGroup, "clusterroles,clusterrolebindings", "create,get,delete"),
	}, agentInCluster()...)
}

// agentInCluster is what the agent gets in the whole cluster.
func agentInCluster() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule("", "nodes", "get,list"),
		rule("", "pods", "list"),
		rule("apps", "daemonsets", "list"),
		rule("storage.k8s.io", "storageclasses", "list"),
		rule("nvidia.com", "clusterpolicies,nvidiadrivers", "list"),
		rule("mellanox.com", "nicclusterpolicies", "list"),
	}
}

// warnings gathers what a run warns of.
type warnings struct {
	mu   sync.Mutex
	text []string
}

func (w *warnings) Enabled(context.Context, slog.Level) bool { return true }
func (w *warnings) WithAttrs([]slog.Attr) slog.Handler       { return w }
func (w *warnings) WithGroup(string) slog.Handler            { return w }
func (w *warnings) Handle(_ context.Context, r slog.Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.Level >= slog.LevelWarn {
		w.text = append(w.text, r.Message)
	}
	return nil
}

func (w *warnings) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.text, "\n")
}

// sceneAs is newScene with a client of a user that has only those rights.
func sceneAs(t *testing.T, inNamespace, inCluster []rbacv1.PolicyRule, change func(*agent.Config)) (*scene, *warnings) {
	t.Helper()
	return sceneThrough(t, nil, inNamespace, inCluster, change)
}

// sceneThrough is sceneAs with requests that pass through f where that is set.
func sceneThrough(t *testing.T, f tripper, inNamespace, inCluster []rbacv1.PolicyRule, change func(*agent.Config)) (*scene, *warnings) {
	t.Helper()
	s, w := newScene(t, nil, nil), &warnings{}
	s.config.Logger = slog.New(w)
	if change != nil {
		change(&s.config)
	}
	s.user = "user-" + s.config.RunID
	s.Deployer = agent.NewDeployer(as(t, s.user, s.namespace, inNamespace, inCluster, f), s.config)
	t.Cleanup(func() { _ = s.Cleanup(context.Background(), agent.CleanupOptions{Enabled: true}) })
	return s, w
}

func TestC16_ACallerWithJustEnoughRightsRuns(t *testing.T) {
	t.Parallel()
	s, w := sceneAs(t, enoughInNamespace(), enoughInCluster(), nil)
	s.deploy()
	if got := w.String(); got != "" {
		t.Errorf("warnings: %s", got)
	}
	s.cleanup()
	s.left()
}

func TestC16_AllThatIsMissingIsToldAtOnceAndNothingIsWritten(t *testing.T) {
	t.Parallel()
	s, _ := sceneAs(t, nil, nil, nil)
	err := s.Deploy(t.Context())
	if !stderrors.Is(err, errors.Unauthorized) {
		t.Fatalf("%v, want UNAUTHORIZED", err)
	}
	for _, want := range []string{
		"you: create jobs.batch (in namespace " + s.namespace + ")", "you: watch pods (in", "you: delete configmaps (in",
		"you: create clusterroles.rbac.authorization.k8s.io (cluster-wide)", "you: delete rolebindings.rbac.authorization.k8s.io (in",
		"you: escalate roles.rbac.authorization.k8s.io (in", "create configmaps (in", "you: bind clusterroles.rbac.authorization.k8s.io (cluster-wide)",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not told in: %v", want, err)
		}
	}
	s.left()
	onlyReviewed(t, s)
}

func TestC16_WithoutLogsAndEventsTheRunIsWarnedAndGoesOn(t *testing.T) {
	t.Parallel()
	rules := enoughInNamespace()
	s, w := sceneAs(t, append(rules[:2:2], rules[4:]...), enoughInCluster(), nil)
	s.deploy()
	for _, want := range []string{"get pods/log", "list events"} {
		if !strings.Contains(w.String(), want) {
			t.Errorf("no warning of %q: %s", want, w)
		}
	}
	s.cleanup()
	s.left()
}

func TestC17_ACallerWhoMayNotGrantTheRulesIsToldByTheGate(t *testing.T) {
	t.Parallel()
	cluster := enoughInCluster()
	cluster[2] = rule("", "nodes", "list") // not the get that the ClusterRole grants
	s, _ := sceneAs(t, enoughInNamespace(), cluster, nil)
	err := s.Deploy(t.Context())
	if !stderrors.Is(err, errors.Unauthorized) || !strings.Contains(err.Error(), "escalate clusterroles") || !strings.Contains(err.Error(), "get nodes (cluster-wide)") {
		t.Errorf("%v", err)
	}
	s.left()

	granted := append(cluster, rule(rbacGroup, "clusterroles", "escalate,bind"))
	s, _ = sceneAs(t, enoughInNamespace(), granted, nil)
	s.deploy()
	s.cleanup()
	s.left()
}

func TestC12_AnExistingServiceAccountIsUsedAndNothingElseCreated(t *testing.T) {
	t.Parallel()
	// The caller holds no RBAC right at all.
	rules := append(enoughInNamespace()[:5:5], rule("", "serviceaccounts", "get"))
	cluster := []rbacv1.PolicyRule{rule("", "namespaces", "get,patch"), rule("authorization.k8s.io", "subjectaccessreviews", "create")}
	s, _ := sceneAs(t, rules, cluster, func(c *agent.Config) { c.ServiceAccountName = "robot" })
	s.account("robot")

	err := s.CheckPermissions(t.Context())
	for _, want := range []string{"ServiceAccount " + s.namespace + "/robot: create configmaps", "robot: patch configmaps", "robot: get nodes (cluster-wide)"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the gate does not tell %q: %v", want, err)
		}
	}
	if err != nil && strings.Contains(err.Error(), "you:") {
		t.Errorf("the gate asks the caller for too much: %v", err)
	}

	grant(t, s, "robot")
	s.deploy()
	if got := s.job().Spec.Template.Spec.ServiceAccountName; got != "robot" {
		t.Errorf("the pod runs as %q", got)
	}
	objects, err := runObjects(t.Context(), s.admin, s.namespace, s.config.RunID)
	s.must(err)
	for _, o := range objects {
		if o.kind != "Job" && o.kind != "Pod" {
			t.Errorf("the run created a %s", o.kind)
		}
	}
	s.cleanup()
	s.left()
	_, err = s.admin.CoreV1().ServiceAccounts(s.namespace).Get(t.Context(), "robot", metav1.GetOptions{})
	s.must(err)
}

// agentNeeds are the agent's rights in its namespace and in the cluster.
func agentNeeds() (inNamespace, inCluster []rbacv1.PolicyRule) {
	return []rbacv1.PolicyRule{rule("", "configmaps", "create,patch")}, agentInCluster()
}

// grant gives a ServiceAccount the agent's rights, as an operator would.
func grant(t *testing.T, s *scene, account string) {
	t.Helper()
	inNamespace, inCluster := agentNeeds()
	grantRules(t, s, account, inNamespace, inCluster)
}

func grantRules(t *testing.T, s *scene, account string, inNamespace, inCluster []rbacv1.PolicyRule) {
	t.Helper()
	allow(t, s.namespace, rbacv1.Subject{Kind: "ServiceAccount", Namespace: s.namespace, Name: account}, inNamespace, inCluster)
	user := "system:serviceaccount:" + s.namespace + ":" + account
	awaitRights(t, user, nil, s.namespace, inNamespace)
	awaitRights(t, user, nil, "", inCluster)
}

// account makes a ServiceAccount of the operator's.
func (s *scene) account(name string) {
	s.t.Helper()
	_, err := s.admin.CoreV1().ServiceAccounts(s.namespace).Create(s.t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	s.must(err)
}

func TestC17_ACallerWhoMayNotAskForTheServiceAccountIsWarned(t *testing.T) {
	t.Parallel()
	rules := append(enoughInNamespace()[:5:5], rule("", "serviceaccounts", "get"))
	s, w := sceneAs(t, rules, []rbacv1.PolicyRule{rule("", "namespaces", "get,patch")}, func(c *agent.Config) { c.ServiceAccountName = "robot" })
	s.account("robot")
	s.must(s.CheckPermissions(t.Context()))
	for _, want := range []string{"unverified", "robot: create configmaps", "robot: get nodes"} {
		if !strings.Contains(w.String(), want) {
			t.Errorf("no warning of %q: %s", want, w)
		}
	}
}

func TestC13_AServiceAccountThatCannotBeLookedUpStopsTheRun(t *testing.T) {
	t.Parallel()
	rules := enoughInNamespace()
	rules[5] = rule("", "serviceaccounts", "create,delete")
	s, _ := sceneAs(t, rules, enoughInCluster(), func(c *agent.Config) { c.ServiceAccountName = "robot" })
	if err := s.Deploy(t.Context()); !stderrors.Is(err, errors.Unauthorized) || !strings.Contains(err.Error(), "look up ServiceAccount") {
		t.Errorf("%v", err)
	}
	s.left()

	// Nor does it guess where the server cannot be reached.
	s = newScene(t, through(t, func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		if about(r, http.MethodGet, "serviceaccounts") {
			return nil, stderrors.New("connection lost")
		}
		return next.RoundTrip(r)
	}), func(c *agent.Config) { c.ServiceAccountName = "robot" })
	if err := s.Deploy(t.Context()); !stderrors.Is(err, errors.Unavailable) {
		t.Errorf("%v, want UNAVAILABLE", err)
	}
	s.left()

	// NotFound: the value is a prefix.
	s, _ = sceneAs(t, enoughInNamespace(), enoughInCluster(), func(c *agent.Config) { c.ServiceAccountName = "robot" })
	s.deploy()
	if got, want := s.job().Spec.Template.Spec.ServiceAccountName, "robot-"+s.config.RunID; got != want {
		t.Errorf("the pod runs as %q, want %q", got, want)
	}
	s.cleanup()
	s.left()
}

func TestC13_WithoutANameNoServiceAccountIsLookedUp(t *testing.T) {
	t.Parallel()
	x := &tap{}
	s := newScene(t, through(t, x.trip), nil)
	s.account("aicr") // the default prefix is no name
	s.deploy()
	if got, want := s.job().Spec.Template.Spec.ServiceAccountName, "aicr-"+s.config.RunID; got != want {
		t.Errorf("the pod runs as %q, want %q", got, want)
	}
	for _, r := range x.requests(http.MethodGet) {
		if strings.Contains(r, "serviceaccounts") {
			t.Errorf("looked up: %s", r)
		}
	}
}

func TestC18_WhatWouldFailAnywayIsFoundBeforeTheFirstWrite(t *testing.T) {
	t.Parallel()
	t.Run("a ConfigMap at the staging name", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, nil, nil)
		s.stage()
		before := stateOf(s, "ConfigMap")
		if err := s.Deploy(t.Context()); !stderrors.Is(err, errors.Conflict) || !strings.Contains(err.Error(), agent.StagingConfigMapName(s.config.RunID)) {
			t.Errorf("%v, want a CONFLICT that names it", err)
		}
		s.cleanup()
		s.left("ConfigMap")
		if after := stateOf(s, "ConfigMap"); after != before {
			t.Errorf("changed: %v, was %v", after, before)
		}
	})
	t.Run("a ConfigMap at an output that is the run's own", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, nil, func(c *agent.Config) { c.Output, c.OwnsOutputConfigMap = "cm://"+c.Namespace+"/mine", true })
		_, err := s.admin.CoreV1().ConfigMaps(s.namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}, metav1.CreateOptions{})
		s.must(err)
		err = s.Deploy(t.Context())
		if !stderrors.Is(err, errors.Conflict) || !strings.Contains(err.Error(), s.namespace+"/mine") {
			t.Errorf("%v, want a CONFLICT that names it", err)
		}
		if advice := errors.AdviceOf(err); !strings.Contains(advice, "another output") || strings.Contains(advice, "run ID") {
			t.Errorf("advice %q, want one about the output", advice)
		}
		s.cleanup()
		_, err = s.admin.CoreV1().ConfigMaps(s.namespace).Get(t.Context(), "mine", metav1.GetOptions{})
		s.must(err)
	})
	for _, level := range []string{"baseline", "restricted"} {
		t.Run("Pod Security "+level, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, nil, func(c *agent.Config) { c.Privileged = true })
			enforce(s, level)
			err := s.Deploy(t.Context())
			if !stderrors.Is(err, errors.InvalidRequest) || !strings.Contains(err.Error(), level) || !strings.Contains(errors.AdviceOf(err), "--privileged=false") {
				t.Errorf("%v (%s)", err, errors.AdviceOf(err))
			}
			s.left()
		})
	}
	t.Run("runtime class", func(t *testing.T) {
		t.Parallel()
		class := "class-" + runid.Generate()
		s := newScene(t, nil, func(c *agent.Config) { c.RuntimeClassName = class })
		if err := s.CheckPermissions(t.Context()); !stderrors.Is(err, errors.NotFound) || !strings.Contains(err.Error(), class) || errors.AdviceOf(err) == "" {
			t.Errorf("%v, want NOT_FOUND with advice", err)
		}
		_, err := s.admin.NodeV1().RuntimeClasses().Create(t.Context(), &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: class}, Handler: "nvidia"}, metav1.CreateOptions{})
		s.must(err)
		t.Cleanup(func() {
			_ = s.admin.NodeV1().RuntimeClasses().Delete(context.Background(), class, metav1.DeleteOptions{})
		})
		s.deploy()
		pod := s.job().Spec.Template.Spec
		if *pod.RuntimeClassName != class || envOf(s.job())["NVIDIA_VISIBLE_DEVICES"] != "all" {
			t.Errorf("C28: %+v", pod)
		}
	})
	t.Run("a namespace that is being deleted", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, nil, nil)
		// A finalizer keeps it in deletion until the test ends.
		ns, err := s.admin.CoreV1().Namespaces().Get(t.Context(), s.namespace, metav1.GetOptions{})
		s.must(err)
		ns.Finalizers = []string{"aicr.run/test"}
		_, err = s.admin.CoreV1().Namespaces().Update(t.Context(), ns, metav1.UpdateOptions{})
		s.must(err)
		s.must(s.admin.CoreV1().Namespaces().Delete(t.Context(), s.namespace, metav1.DeleteOptions{}))
		t.Cleanup(func() {
			_, err := s.admin.CoreV1().Namespaces().Patch(context.Background(), s.namespace, "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			s.must(err)
		})
		if err := s.Deploy(t.Context()); !stderrors.Is(err, errors.Conflict) || !strings.Contains(err.Error(), "being deleted") {
			t.Errorf("%v", err)
		}
	})
}

func enforce(s *scene, level string) {
	s.t.Helper()
	_, err := s.admin.CoreV1().Namespaces().Patch(s.t.Context(), s.namespace, "application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"`+level+`"}}}`), metav1.PatchOptions{})
	s.must(err)
}

func TestC27_TheUnprivilegedPodPassesPodSecurityRestricted(t *testing.T) {
	t.Parallel()
	devtest.Controllers(t)
	s := newScene(t, nil, nil)
	enforce(s, "restricted")
	s.deploy()
	s.pod() // admitted
	s.cleanup()
	s.left()
}

func TestC27_ThePrivilegedPodHasTheHostsNamespaces(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, func(c *agent.Config) { c.Privileged = true })
	enforce(s, "privileged")
	s.deploy()
	pod := s.job().Spec.Template.Spec
	c := pod.Containers[0].SecurityContext
	if !pod.HostPID || !pod.HostNetwork || !*c.Privileged || *c.RunAsUser != 0 || len(pod.Volumes) > 0 {
		t.Errorf("%+v", pod)
	}
	s.cleanup()
	s.left()
}

func TestC29_TheRolesGrantTheLeast(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, nil)
	s.deploy()
	role, err := s.admin.RbacV1().Roles(s.namespace).Get(t.Context(), "aicr-"+s.config.RunID, metav1.GetOptions{})
	s.must(err)
	want := rule("", "configmaps", "create,patch")
	want.ResourceNames = []string{agent.StagingConfigMapName(s.config.RunID)}
	if diff := cmp.Diff([]rbacv1.PolicyRule{want}, role.Rules); diff != "" {
		t.Error(diff)
	}
	cluster, err := s.admin.RbacV1().ClusterRoles().Get(t.Context(), "aicr-node-reader-"+s.config.RunID, metav1.GetOptions{})
	s.must(err)
	if diff := cmp.Diff(agentInCluster(), cluster.Rules); diff != "" {
		t.Error(diff)
	}
}
