package agent_test

import (
	stderrors "errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/k8s/agent"
)

// right is one verb on one resource.
type right struct{ group, resource, verb string }

// in tells a right as the gate tells it; an empty namespace is the cluster.
func (r right) in(namespace string) string {
	what := r.verb + " " + r.resource
	if r.group != "" {
		what += "." + r.group
	}
	if namespace == "" {
		return what + " (cluster-wide)"
	}
	return what + " (in namespace " + namespace + ")"
}

// rightsIn lists each right of the rules.
func rightsIn(rules []rbacv1.PolicyRule) []right {
	var out []right
	for _, r := range rules {
		for _, resource := range r.Resources {
			for _, verb := range r.Verbs {
				out = append(out, right{r.APIGroups[0], resource, verb})
			}
		}
	}
	return out
}

// without returns the rules less one right.
func without(rules []rbacv1.PolicyRule, gone right) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	for _, r := range rules {
		for _, resource := range r.Resources {
			verbs := slices.DeleteFunc(slices.Clone(r.Verbs), func(v string) bool { return gone == right{r.APIGroups[0], resource, v} })
			if len(verbs) > 0 {
				out = append(out, rule(r.APIGroups[0], resource, strings.Join(verbs, ",")))
			}
		}
	}
	return out
}

// lack is a mode of a run in which its caller, or the ServiceAccount that it
// uses, lacks one right.
type lack struct {
	mode    string
	right   right
	cluster bool // the right is cluster-wide
	account bool // the ServiceAccount lacks it, not the caller
	warns   bool // the run goes on and tells it in a warning
	silent  bool // the run goes on
	grants  string
}

// prefixLacks are those of a run with an identity of its own.
func prefixLacks() []lack {
	var out []lack
	for _, r := range rightsIn(enoughInNamespace()) {
		l := lack{mode: "own", right: r}
		switch {
		case r.resource == "pods" && r.verb == "list":
			continue // held cluster-wide too: the agent lists pods everywhere
		case r.resource == "pods/log" || r.resource == "events":
			l.warns = true
		case r.resource == "serviceaccounts" && r.verb == "patch":
			l.silent = true
		case r.resource == "configmaps" && (r.verb == "create" || r.verb == "patch"):
			l.grants = "roles"
		}
		out = append(out, l)
	}
	granted := rightsIn(agentInCluster())
	for _, r := range rightsIn(enoughInCluster()) {
		l := lack{mode: "own", right: r, cluster: true, warns: r.resource == "namespaces"}
		if slices.Contains(granted, r) {
			l.grants = "clusterroles"
		}
		out = append(out, l)
	}
	return append(out, lack{mode: "absent", right: right{"", "namespaces", "create"}, cluster: true})
}

// accountLacks are those of a run as an existing ServiceAccount.
func accountLacks() []lack {
	var out []lack
	inNamespace, inCluster := enoughWithAccount()
	for _, r := range rightsIn(inNamespace) {
		if r.resource != "serviceaccounts" { // C13: looked up before the gate
			out = append(out, lack{mode: "account", right: r, warns: r.resource == "pods/log" || r.resource == "events"})
		}
	}
	for _, r := range rightsIn(inCluster) {
		out = append(out, lack{mode: "account", right: r, cluster: true, warns: true})
	}
	inNamespace, inCluster = agentNeeds()
	for _, r := range rightsIn(inNamespace) {
		out = append(out, lack{mode: "account", right: r, account: true})
	}
	for _, r := range rightsIn(inCluster) {
		out = append(out, lack{mode: "account", right: r, account: true, cluster: true})
	}
	return out
}

// enoughWithAccount are the caller's rights where the run uses an existing
// ServiceAccount: none about RBAC.
func enoughWithAccount() (inNamespace, inCluster []rbacv1.PolicyRule) {
	return []rbacv1.PolicyRule{
			rule("batch", "jobs", "create,get,list,watch,delete"),
			rule("", "pods", "list,watch"),
			rule("", "pods/log", "get"),
			rule("", "events", "list"),
			rule("", "configmaps", "get,delete"),
			rule("", "serviceaccounts", "get"),
		}, []rbacv1.PolicyRule{
			rule("", "namespaces", "get,patch"),
			rule(authorizationv1.GroupName, "subjectaccessreviews", "create"),
		}
}

// scene makes the run that lacks the right.
func (l lack) scene(t *testing.T) (*scene, *warnings) {
	t.Helper()
	inNamespace, inCluster := enoughInNamespace(), enoughInCluster()
	switch l.mode {
	case "account":
		inNamespace, inCluster = enoughWithAccount()
	case "absent": // where the namespace does not stand, its rights are the cluster's
		inNamespace, inCluster = nil, append(inCluster, inNamespace...)
	}
	if !l.account {
		if l.cluster {
			inCluster = without(inCluster, l.right)
		} else {
			inNamespace = without(inNamespace, l.right)
		}
	}
	s, w := sceneAs(t, inNamespace, inCluster, func(c *agent.Config) {
		switch l.mode {
		case "account":
			c.ServiceAccountName = "robot"
		case "absent":
			c.Namespace = "absent-" + c.RunID
		}
	})
	if l.mode == "account" {
		s.account("robot")
		needsInNamespace, needsInCluster := agentNeeds()
		if l.account {
			needsInNamespace, needsInCluster = without(needsInNamespace, l.right), without(needsInCluster, l.right)
		}
		grantRules(t, s, "robot", needsInNamespace, needsInCluster)
	}
	return s, w
}

// refusal is the whole error of the gate.
func (l lack) refusal(s *scene) string {
	const group = rbacv1.GroupName
	namespace := s.config.Namespace
	if l.cluster {
		namespace = ""
	}
	switch told := l.right.in(namespace); {
	case l.account:
		return "missing permissions: ServiceAccount " + s.namespace + "/robot: " + told
	case l.grants != "":
		or := " or, as what is to be granted, " + told
		return "missing permissions: you: " + right{group, l.grants, "bind"}.in(namespace) + or +
			"; you: " + right{group, l.grants, "escalate"}.in(namespace) + or
	default:
		return "missing permissions: you: " + told
	}
}

// TestC16_EachMissingPermissionIsNamedAlone takes, from all that a run needs,
// one permission away at a time.
func TestC16_EachMissingPermissionIsNamedAlone(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var refused []*scene
	t.Run("lacks", func(t *testing.T) {
		for _, l := range append(prefixLacks(), accountLacks()...) {
			t.Run(fmt.Sprintf("%s %s %s %s", l.mode, l.right.verb, l.right.resource, map[bool]string{true: "account"}[l.account]), func(t *testing.T) {
				t.Parallel()
				s, w := l.scene(t)
				err := s.Deploy(t.Context())
				if l.warns || l.silent {
					s.must(err)
					s.cleanup()
					s.left()
					l.checkWarning(t, w)
					return
				}
				if want := l.refusal(s); err == nil || err.Error() != want || !stderrors.Is(err, errors.Unauthorized) {
					t.Errorf("got  %v\nwant %s", err, want)
				}
				if got := w.String(); got != "" {
					t.Errorf("warnings: %s", got)
				}
				mu.Lock()
				defer mu.Unlock()
				refused = append(refused, s)
			})
		}
	})
	onlyReviewed(t, refused...)
}

// checkWarning fails unless there is one warning, and of this right, or none
// where the run goes on without a word.
func (l lack) checkWarning(t *testing.T, w *warnings) {
	t.Helper()
	want := map[right]string{
		{"", "pods/log", "get"}:     "you may not get pods/log (in namespace ",
		{"", "events", "list"}:      "you may not list events (in namespace ",
		{"", "namespaces", "get"}:   "could not be read (forbidden)",
		{"", "namespaces", "patch"}: "could not be labelled",
		{authorizationv1.GroupName, "subjectaccessreviews", "create"}: "stayed unverified: ",
	}[l.right]
	got := w.String()
	if (want == "") != (got == "") || !strings.Contains(got, want) || strings.Contains(got, "\n") {
		t.Errorf("warnings %q, want one of %q", got, want)
	}
}

func TestC17_TheSetFollowsWhatTheRunOwns(t *testing.T) {
	t.Parallel()
	// A ConfigMap of the caller's own is never deleted, so that its deletion is
	// not asked for.
	rules := without(enoughInNamespace(), right{"", "configmaps", "delete"})
	s, w := sceneAs(t, rules, enoughInCluster(), func(c *agent.Config) { c.Output = "cm://" + c.Namespace + "/mine" })
	s.deploy()
	s.cleanup()
	s.left()
	if got := w.String(); got != "" {
		t.Errorf("warnings: %s", got)
	}
}

// TestC17_GrantsNeedEscalateAndBindOrTheRulesThemselves: what the gate lets
// through, the server does too.
func TestC17_GrantsNeedEscalateAndBindOrTheRulesThemselves(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		resource string
		lacks    []right
	}{
		{"roles", []right{{"", "configmaps", "create"}, {"", "configmaps", "patch"}}},
		{"clusterroles", []right{{"", "nodes", "get"}}},
	} {
		for _, verbs := range []string{"escalate", "bind", "escalate,bind"} {
			t.Run(tc.resource+" "+verbs, func(t *testing.T) {
				t.Parallel()
				inNamespace, inCluster := enoughInNamespace(), enoughInCluster()
				for _, r := range tc.lacks {
					inNamespace, inCluster = without(inNamespace, r), without(inCluster, r)
				}
				extra := rule(rbacGroup, tc.resource, verbs)
				if tc.resource == "roles" {
					inNamespace = append(inNamespace, extra)
				} else {
					inCluster = append(inCluster, extra)
				}
				s, _ := sceneAs(t, inNamespace, inCluster, nil)
				err := s.Deploy(t.Context())
				missing := map[string]string{"escalate": "bind", "bind": "escalate"}[verbs]
				if missing == "" {
					s.must(err)
				} else if want := "missing permissions: you: " + missing + " " + tc.resource; err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), ";") {
					t.Errorf("got  %v\nwant %s... alone", err, want)
				}
				s.cleanup()
				s.left()
			})
		}
	}
}

func TestC17_ARoleOfEverythingIsNoClusterRight(t *testing.T) {
	t.Parallel()
	s, _ := sceneAs(t, []rbacv1.PolicyRule{rule("*", "*", "*")}, nil, nil)
	err := s.Deploy(t.Context())
	if !stderrors.Is(err, errors.Unauthorized) {
		t.Fatalf("%v, want UNAUTHORIZED", err)
	}
	var want []string
	for _, resource := range []string{"clusterrolebindings", "clusterroles"} {
		for _, verb := range []string{"create", "delete", "get"} {
			want = append(want, "you: "+right{rbacGroup, resource, verb}.in(""))
		}
	}
	for _, verb := range []string{"bind", "escalate"} {
		want = append(want, "you: "+right{rbacGroup, "clusterroles", verb}.in("")+" or, as what is to be granted, get nodes (cluster-wide)")
	}
	slices.Sort(want)
	if got := strings.TrimPrefix(err.Error(), "missing permissions: "); got != strings.Join(want, "; ") {
		t.Errorf("got  %s\nwant %s", got, strings.Join(want, "; "))
	}
	s.left()
}

// TestC17_AnIncompleteRulesReviewIsNotTrusted lets the review claim everything,
// and to be incomplete, which authorizers other than RBAC make it.
func TestC17_AnIncompleteRulesReviewIsNotTrusted(t *testing.T) {
	t.Parallel()
	claimed := func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		if !about(r, http.MethodPost, "selfsubjectrulesreviews") {
			return next.RoundTrip(r)
		}
		review := authorizationv1.SelfSubjectRulesReview{Status: authorizationv1.SubjectRulesReviewStatus{
			Incomplete:       true,
			ResourceRules:    []authorizationv1.ResourceRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}},
			NonResourceRules: []authorizationv1.NonResourceRule{},
		}}
		review.APIVersion, review.Kind = "authorization.k8s.io/v1", "SelfSubjectRulesReview"
		return answer(r, http.StatusCreated, review)
	}
	gone := right{"batch", "jobs", "watch"}
	s, _ := sceneThrough(t, claimed, without(enoughInNamespace(), gone), enoughInCluster(), nil)
	err := s.CheckPermissions(t.Context())
	if want := "missing permissions: you: " + gone.in(s.namespace); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestC16_TheServiceAccountsGroupsCount(t *testing.T) {
	t.Parallel()
	inNamespace, inCluster := enoughWithAccount()
	s, _ := sceneAs(t, inNamespace, inCluster, func(c *agent.Config) { c.ServiceAccountName = "robot" })
	s.account("robot")
	group := "system:serviceaccounts:" + s.namespace
	needsInNamespace, needsInCluster := agentNeeds()
	allow(t, s.namespace, rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacGroup, Name: group}, needsInNamespace, needsInCluster)
	awaitRights(t, "anyone", []string{group}, s.namespace, needsInNamespace)
	awaitRights(t, "anyone", []string{group}, "", needsInCluster)
	s.must(s.CheckPermissions(t.Context()))
}
