package agent_test

import (
	stderrors "errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/k8s/agent"
)

const managedBy = "app.kubernetes.io/managed-by"

// label gives the run's namespace an owner's mark.
func label(s *scene, owner string) {
	s.t.Helper()
	_, err := s.admin.CoreV1().Namespaces().Patch(s.t.Context(), s.namespace, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"`+managedBy+`":"`+owner+`"}}}`), metav1.PatchOptions{})
	s.must(err)
}

// TestC10_AnOwnerWhoComesMeanwhileKeepsItsMark: the mark arrives after the run
// has seen none, and before it sets its own.
func TestC10_AnOwnerWhoComesMeanwhileKeepsItsMark(t *testing.T) {
	t.Parallel()
	owner := func(s *scene) string {
		ns, err := s.admin.CoreV1().Namespaces().Get(t.Context(), s.namespace, metav1.GetOptions{})
		s.must(err)
		return ns.Labels[managedBy]
	}
	t.Run("before the patch", func(t *testing.T) {
		t.Parallel()
		x, once := &tap{}, sync.Once{}
		s := newScene(t, through(t, x.trip), nil)
		x.set(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			if about(r, http.MethodPatch, "namespaces") && strings.HasSuffix(r.URL.Path, "/"+s.namespace) {
				once.Do(func() { label(s, "Helm") })
			}
			return next.RoundTrip(r)
		})
		s.deploy()
		if len(x.requests(http.MethodPatch)) == 0 {
			t.Error("no patch was sent: the test shows nothing")
		}
		if got := owner(s); got != "Helm" {
			t.Errorf("managed by %q", got)
		}
	})
	t.Run("before the create", func(t *testing.T) {
		t.Parallel()
		x, once := &tap{}, sync.Once{}
		s := newScene(t, through(t, x.trip), func(c *agent.Config) { c.Namespace = "late-" + c.RunID })
		s.namespace = s.config.Namespace
		x.set(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			if about(r, http.MethodPost, "namespaces") && strings.HasSuffix(r.URL.Path, "/namespaces") {
				once.Do(func() {
					_, err := s.admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
						Name: s.namespace, Labels: map[string]string{managedBy: "Helm"},
					}}, metav1.CreateOptions{})
					s.must(err)
				})
			}
			return next.RoundTrip(r)
		})
		s.deploy()
		if got := owner(s); got != "Helm" {
			t.Errorf("managed by %q", got)
		}
		s.cleanup()
		s.left()
		s.must(s.admin.CoreV1().Namespaces().Delete(t.Context(), s.namespace, metav1.DeleteOptions{}))
	})
}

func TestC10_TheNamespaceIsEnsuredAndNeverTakenFromItsOwner(t *testing.T) {
	t.Parallel()
	get := func(t *testing.T, client kubernetes.Interface, name string) *corev1.Namespace {
		t.Helper()
		ns, err := client.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return ns
	}
	t.Run("absent", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, nil, func(c *agent.Config) { c.Namespace += "-x" })
		s.namespace = s.config.Namespace
		s.deploy()
		if got := get(t, s.admin, s.namespace).Labels[managedBy]; got != "aicr" {
			t.Errorf("managed by %q", got)
		}
		s.cleanup()
		s.left()
		get(t, s.admin, s.namespace) // stays
		s.must(s.admin.CoreV1().Namespaces().Delete(t.Context(), s.namespace, metav1.DeleteOptions{}))
	})
	t.Run("absent and the caller may not create it", func(t *testing.T) {
		t.Parallel()
		s, _ := sceneAs(t, enoughInNamespace(), enoughInCluster(), func(c *agent.Config) { c.Namespace = "absent-" + c.RunID })
		err := s.Deploy(t.Context())
		if err == nil || !strings.Contains(err.Error(), "you: create namespaces (cluster-wide)") {
			t.Errorf("%v", err)
		}
	})
	t.Run("without an owner", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, nil, nil)
		s.deploy()
		if got := get(t, s.admin, s.namespace).Labels[managedBy]; got != "aicr" {
			t.Errorf("managed by %q", got)
		}
	})
	t.Run("of another owner", func(t *testing.T) {
		t.Parallel()
		s, w := sceneAs(t, enoughInNamespace(), enoughInCluster(), nil)
		label(s, "Helm")
		ns := get(t, s.admin, s.namespace)
		s.deploy()
		if diff := cmp.Diff(ns, get(t, s.admin, s.namespace)); diff != "" {
			t.Error(diff)
		}
		if !strings.Contains(w.String(), `managed by "Helm"`) {
			t.Errorf("no warning: %s", w)
		}
	})
	t.Run("managed by aicr already", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, nil, nil)
		label(s, "aicr")
		before := get(t, s.admin, s.namespace)
		s.deploy()
		if diff := cmp.Diff(before, get(t, s.admin, s.namespace)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("absent and the caller may not read it", func(t *testing.T) {
		t.Parallel()
		// Its rights hold in all namespaces, also in one that does not stand.
		everywhere := append(enoughInNamespace(), enoughInCluster()[1:]...)
		s, _ := sceneAs(t, nil, everywhere, func(c *agent.Config) { c.Namespace = "absent-" + c.RunID })
		if err := s.Deploy(t.Context()); !stderrors.Is(err, errors.NotFound) || !strings.Contains(err.Error(), s.config.Namespace) {
			t.Errorf("%v, want NOT_FOUND that names it", err)
		}
		s.cleanup()
		s.left()
	})
	for verbs, want := range map[string]string{"get": "could not be labelled", "patch": "could not be read", "list": "could not be read"} {
		t.Run("the caller may only "+verbs, func(t *testing.T) {
			t.Parallel()
			cluster := enoughInCluster()
			cluster[0] = rule("", "namespaces", verbs)
			s, w := sceneAs(t, enoughInNamespace(), cluster, nil)
			s.deploy()
			if !strings.Contains(w.String(), want) {
				t.Errorf("no warning: %s", w)
			}
			s.cleanup()
			s.left()
		})
	}
}
