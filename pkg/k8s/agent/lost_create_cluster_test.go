package agent_test

import (
	"context"
	stderrors "errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/k8s/agent"
)

// resourceOf are the kinds that one case each stands for: namespaced,
// cluster-scoped, and the Job, which has pods.
func resourceOf() map[string]string {
	return map[string]string{"Role": "roles", "ClusterRole": "clusterroles", "Job": "jobs"}
}

// standing puts an object with those labels at the run's name of that kind.
func standing(s *scene, kind string, labels map[string]string) state {
	s.t.Helper()
	ctx, o := context.Background(), metav1.CreateOptions{}
	meta := metav1.ObjectMeta{Name: nameOf(s, kind), Labels: labels}
	var err error
	switch kind {
	case "Job":
		suspend := true
		_, err = s.admin.BatchV1().Jobs(s.namespace).Create(ctx, &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{
			Suspend: &suspend,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "x", Image: "x"}},
			}},
		}}, o)
	case "Role":
		_, err = s.admin.RbacV1().Roles(s.namespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta}, o)
	case "ClusterRole":
		_, err = s.admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta}, o)
	}
	s.must(err)
	st := stateOf(s, kind)
	if kind == "Job" {
		st.version = "" // its controller says that it is suspended
	}
	s.t.Cleanup(func() { remove(s, kind) })
	return st
}

func nameOf(s *scene, kind string) string {
	switch kind {
	case "Job":
		return s.JobName()
	case "ClusterRole":
		return "aicr-node-reader-" + s.config.RunID
	}
	return "aicr-" + s.config.RunID
}

// remove deletes what stands at the run's name of that kind, if anything.
func remove(s *scene, kind string) {
	ctx, name := context.Background(), nameOf(s, kind)
	background := metav1.DeletePropagationBackground
	o := metav1.DeleteOptions{PropagationPolicy: &background}
	switch kind {
	case "Job":
		_ = s.admin.BatchV1().Jobs(s.namespace).Delete(ctx, name, o)
	case "Role":
		_ = s.admin.RbacV1().Roles(s.namespace).Delete(ctx, name, o)
	case "ClusterRole":
		_ = s.admin.RbacV1().ClusterRoles().Delete(ctx, name, o)
	}
}

// labelsOf returns the labels of what stands there.
func labelsOf(s *scene, kind string) map[string]string {
	s.t.Helper()
	ctx, g := context.Background(), metav1.GetOptions{}
	var o metav1.Object
	var err error
	switch kind {
	case "Job":
		o, err = s.admin.BatchV1().Jobs(s.namespace).Get(ctx, nameOf(s, kind), g)
	case "Role":
		o, err = s.admin.RbacV1().Roles(s.namespace).Get(ctx, nameOf(s, kind), g)
	case "ClusterRole":
		o, err = s.admin.RbacV1().ClusterRoles().Get(ctx, nameOf(s, kind), g)
	}
	s.must(err)
	return o.GetLabels()
}

// runLabels are those of an object of the run by another invocation.
func runLabels(s *scene, invocation string) map[string]string {
	return map[string]string{
		"app.kubernetes.io/name": "aicr", "app.kubernetes.io/managed-by": "aicr", "app.kubernetes.io/component": "snapshot-agent",
		"aicr.run/run-id": s.config.RunID, "aicr.run/invocation-id": invocation,
	}
}

// lostScene deploys with the create of that kind lost: committed or not.
func lostScene(t *testing.T, kind string, committed bool) (*scene, *tap, *warnings) {
	t.Helper()
	x, w := &tap{}, &warnings{}
	s := newScene(t, through(t, x.trip), func(c *agent.Config) { c.Logger = slog.New(w) })
	x.set(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		if !about(r, http.MethodPost, resourceOf()[kind]) {
			return next.RoundTrip(r)
		}
		if committed {
			resp, err := next.RoundTrip(r)
			if err != nil {
				return resp, err
			}
			resp.Body.Close()
		}
		return nil, stderrors.New("connection lost")
	})
	if err := s.Deploy(t.Context()); !stderrors.Is(err, errors.Unavailable) {
		t.Fatalf("%v, want UNAVAILABLE", err)
	}
	x.set(nil)
	return s, x, w
}

// TestC21_WhatStandsInTheWayOfALostCreateIsJudged: five ways in which something
// else stands at a name whose create was lost, or nothing.
func TestC21_WhatStandsInTheWayOfALostCreateIsJudged(t *testing.T) {
	t.Parallel()
	// stays fails unless the object at that name is left as it was, and told.
	stays := func(t *testing.T, s *scene, kind string, before state, told string) {
		t.Helper()
		after := stateOf(s, kind)
		if before.version == "" {
			after.version = ""
		}
		if after != before {
			t.Errorf("what stood in the way changed: %v, was %v", after, before)
		}
		if told != "" && !strings.Contains(told, nameOf(s, kind)) {
			t.Errorf("no warning names it: %s", told)
		}
	}
	for kind := range resourceOf() {
		t.Run(kind+" without labels", func(t *testing.T) {
			t.Parallel()
			s, _, w := lostScene(t, kind, false)
			before := standing(s, kind, nil)
			s.cleanup()
			stays(t, s, kind, before, w.String()+" ")
		})
		t.Run(kind+" with the labels of another invocation", func(t *testing.T) {
			t.Parallel()
			s, _, w := lostScene(t, kind, false)
			before := standing(s, kind, runLabels(s, "another"))
			s.cleanup()
			stays(t, s, kind, before, w.String()+" ")
		})
		t.Run(kind+" with our labels, replaced between read and delete", func(t *testing.T) {
			t.Parallel()
			s, x, _ := lostScene(t, kind, true)
			ours := labelsOf(s, kind)
			var before state
			var once sync.Once
			x.set(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
				if about(r, http.MethodDelete, resourceOf()[kind]) {
					once.Do(func() {
						remove(s, kind)
						before = standing(s, kind, ours)
					})
				}
				return next.RoundTrip(r)
			})
			s.cleanup()
			if before.uid == "" {
				t.Fatal("no delete was sent: the test shows nothing")
			}
			stays(t, s, kind, before, "")
		})
		t.Run(kind+" gone", func(t *testing.T) {
			t.Parallel()
			s, _, w := lostScene(t, kind, true)
			remove(s, kind)
			s.cleanup()
			s.left()
			if !strings.Contains(w.String(), nameOf(s, kind)) {
				t.Errorf("no warning names what may still appear: %s", w)
			}
		})
	}
}

func TestC21_ASecondDeployerOfTheSameRunKeepsWhatStandsAtALostName(t *testing.T) {
	t.Parallel()
	// None of the first one's creates reaches the server.
	x, w := &tap{}, &warnings{}
	first := newScene(t, through(t, x.trip), func(c *agent.Config) { c.Logger = slog.New(w) })
	x.set(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodPost && !strings.Contains(r.URL.Path, "authorization.k8s.io/v1/self") {
			return nil, stderrors.New("connection lost")
		}
		return next.RoundTrip(r)
	})
	if err := first.Deploy(t.Context()); !stderrors.Is(err, errors.Unavailable) {
		t.Fatalf("%v, want UNAVAILABLE", err)
	}
	x.set(nil)

	second := *first
	second.Deployer = agent.NewDeployer(first.admin, first.config)
	t.Cleanup(func() { _ = second.Cleanup(context.Background(), agent.CleanupOptions{Enabled: true}) })
	second.deploy()
	uids := func() (out []types.UID) {
		for _, kind := range []string{"Job", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"} {
			out = append(out, stateOf(&second, kind).uid)
		}
		return out
	}
	before := uids()
	first.cleanup()
	for i, after := range uids() {
		if after != before[i] {
			t.Errorf("the second's objects are %v, were %v", after, before[i])
		}
	}
	for _, want := range []string{"ServiceAccount ", "ClusterRole "} { // the first got no further
		if !strings.Contains(w.String(), want) {
			t.Errorf("no warning names the %s: %s", want, w)
		}
	}
	second.cleanup()
	second.left()
}
