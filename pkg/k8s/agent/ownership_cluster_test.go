package agent_test

import (
	"context"
	stderrors "errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/NVIDIA/aicr/internal/devcluster/devtest"
	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/k8s/agent"
)

func TestC20_CleanupLeavesNothingOfTheRun(t *testing.T) {
	t.Parallel()
	devtest.Controllers(t)
	s := newScene(t, nil, nil)
	s.deploy()
	s.left("ClusterRole", "ClusterRoleBinding", "Job", "Pod", "Role", "RoleBinding", "ServiceAccount")
	s.stage(s.jobOwner())
	s.endPod(0)
	s.must(s.WaitForCompletion(t.Context(), time.Minute))
	got, err := s.GetSnapshot(t.Context())
	s.must(err)
	if string(got) != "kind: Snapshot\n" {
		t.Errorf("snapshot %q", got)
	}
	s.cleanup()
	s.left()
	s.cleanup() // a second call has nothing to do
}

func TestC9_WhatTheServerKeepsCarriesTheRunsLabels(t *testing.T) {
	t.Parallel()
	devtest.Controllers(t)
	s := newScene(t, nil, nil)
	s.deploy()
	s.pod()
	objects, err := runObjects(t.Context(), s.admin, s.namespace, s.config.RunID)
	s.must(err)
	if len(objects) != 7 {
		t.Errorf("%d objects, want the six kinds and the pod", len(objects))
	}
	invocation := s.job().Labels["aicr.run/invocation-id"]
	if invocation == "" {
		t.Error("the Job has no invocation ID")
	}
	for _, o := range objects {
		for key, want := range map[string]string{
			"app.kubernetes.io/name":       "aicr",
			"app.kubernetes.io/managed-by": "aicr",
			"app.kubernetes.io/component":  "snapshot-agent",
			"aicr.run/run-id":              s.config.RunID,
			"aicr.run/invocation-id":       invocation,
		} {
			if got := o.GetLabels()[key]; got != want {
				t.Errorf("%s: label %s is %q, want %q", o.kind, key, got, want)
			}
		}
	}
}

func TestC8_AnObjectAtOneOfTheRunsNamesIsAConflictAndStays(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"Job", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, nil, nil)
			before := foreign(s, kind)
			err := s.Deploy(t.Context())
			if !stderrors.Is(err, errors.Conflict) || !strings.Contains(errors.AdviceOf(err), s.config.RunID) {
				t.Errorf("%v (%s), want a CONFLICT that names the run ID", err, errors.AdviceOf(err))
			}
			s.cleanup()
			s.left(kind)
			if after := stateOf(s, kind); after != before {
				t.Errorf("the foreign %s changed: %v, was %v", kind, after, before)
			}
			removeForeign(s, kind)
		})
	}
}

type state struct {
	uid     types.UID
	version string
}

func stateOf(s *scene, kind string) state {
	s.t.Helper()
	var o metav1.Object
	var err error
	ctx, g := s.t.Context(), metav1.GetOptions{}
	identity, cluster := "aicr-"+s.config.RunID, "aicr-node-reader-"+s.config.RunID
	switch kind {
	case "Job":
		o, err = s.admin.BatchV1().Jobs(s.namespace).Get(ctx, s.JobName(), g)
	case "ServiceAccount":
		o, err = s.admin.CoreV1().ServiceAccounts(s.namespace).Get(ctx, identity, g)
	case "Role":
		o, err = s.admin.RbacV1().Roles(s.namespace).Get(ctx, identity, g)
	case "RoleBinding":
		o, err = s.admin.RbacV1().RoleBindings(s.namespace).Get(ctx, identity, g)
	case "ClusterRole":
		o, err = s.admin.RbacV1().ClusterRoles().Get(ctx, cluster, g)
	case "ClusterRoleBinding":
		o, err = s.admin.RbacV1().ClusterRoleBindings().Get(ctx, cluster, g)
	case "ConfigMap":
		o, err = s.admin.CoreV1().ConfigMaps(s.namespace).Get(ctx, agent.StagingConfigMapName(s.config.RunID), g)
	}
	s.must(err)
	return state{o.GetUID(), o.GetResourceVersion()}
}

// foreign creates somebody else's object at the name that the run wants.
func foreign(s *scene, kind string) state {
	s.t.Helper()
	ctx, o := s.t.Context(), metav1.CreateOptions{}
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	identity, cluster := named("aicr-"+s.config.RunID), named("aicr-node-reader-"+s.config.RunID)
	var err error
	switch kind {
	case "Job":
		// Suspended, so that no controller changes it.
		suspend := true
		_, err = s.admin.BatchV1().Jobs(s.namespace).Create(ctx, &batchv1.Job{ObjectMeta: named(s.JobName()), Spec: batchv1.JobSpec{
			Suspend: &suspend,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever,
				Containers:    []corev1.Container{{Name: "x", Image: "x"}},
			}},
		}}, o)
		s.must(err)
		devtest.Eventually(s.t, "the suspended Job is settled", time.Minute, func(ctx context.Context) error {
			job, err := s.admin.BatchV1().Jobs(s.namespace).Get(ctx, s.JobName(), metav1.GetOptions{})
			if err == nil && devtest.Cluster(s.t).HasControllers() && len(job.Status.Conditions) == 0 {
				err = stderrors.New("not yet")
			}
			return err
		})
	case "ServiceAccount":
		_, err = s.admin.CoreV1().ServiceAccounts(s.namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: identity}, o)
	case "Role":
		_, err = s.admin.RbacV1().Roles(s.namespace).Create(ctx, &rbacv1.Role{ObjectMeta: identity}, o)
	case "RoleBinding":
		_, err = s.admin.RbacV1().RoleBindings(s.namespace).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: identity,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "x"}}, o)
	case "ClusterRole":
		_, err = s.admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: cluster}, o)
	case "ClusterRoleBinding":
		_, err = s.admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: cluster,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "x"}}, o)
	}
	s.must(err)
	return stateOf(s, kind)
}

// removeForeign removes what a namespace does not take along.
func removeForeign(s *scene, kind string) {
	name := "aicr-node-reader-" + s.config.RunID
	switch kind {
	case "ClusterRole":
		s.must(s.admin.RbacV1().ClusterRoles().Delete(s.t.Context(), name, metav1.DeleteOptions{}))
	case "ClusterRoleBinding":
		s.must(s.admin.RbacV1().ClusterRoleBindings().Delete(s.t.Context(), name, metav1.DeleteOptions{}))
	}
}

func TestC20_AReplacementOfTheSameNameIsNotDeleted(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, nil)
	s.deploy()
	roles := s.admin.RbacV1().Roles(s.namespace)
	name := "aicr-" + s.config.RunID
	ours, err := roles.Get(t.Context(), name, metav1.GetOptions{})
	s.must(err)
	s.must(roles.Delete(t.Context(), name, metav1.DeleteOptions{}))
	// The replacement carries every label of ours: only its UID tells.
	_, err = roles.Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: ours.Labels}}, metav1.CreateOptions{})
	s.must(err)
	before := stateOf(s, "Role")
	s.cleanup()
	s.left("Role")
	if after := stateOf(s, "Role"); after != before {
		t.Errorf("the replacement changed: %v, was %v", after, before)
	}
}

// loseAnswer drops the answer to the first request of that method and path
// part after the server has acted on it.
func loseAnswer(method, part string) func(http.RoundTripper, *http.Request) (*http.Response, error) {
	var lost atomic.Bool
	return func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if err == nil && r.Method == method && strings.Contains(r.URL.Path, part) && lost.CompareAndSwap(false, true) {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			return nil, stderrors.New("connection lost")
		}
		return resp, err
	}
}

func TestC21_ACreateWhoseAnswerWasLostIsFoundAndDeleted(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"/jobs", "/serviceaccounts", "/roles", "/rolebindings", "/clusterroles", "/clusterrolebindings"} {
		t.Run(strings.Trim(part, "/"), func(t *testing.T) {
			t.Parallel()
			lose := loseAnswer(http.MethodPost, part) //nolint:bodyclose // a function that the transport calls, no answer
			s := newScene(t, through(t, lose), nil)
			if err := s.Deploy(t.Context()); !stderrors.Is(err, errors.Unavailable) {
				t.Fatalf("%v, want UNAVAILABLE", err)
			}
			s.cleanup()
			s.left()
		})
	}
}

func TestC21_AnUnconfirmedNameThatIsSomebodyElsesIsLeft(t *testing.T) {
	t.Parallel()
	s := newScene(t, through(t, func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/roles") {
			return nil, stderrors.New("never sent")
		}
		return next.RoundTrip(r)
	}), nil)
	if err := s.Deploy(t.Context()); err == nil {
		t.Fatal("no error")
	}
	before := foreign(s, "Role")
	s.cleanup()
	s.left("Role")
	if after := stateOf(s, "Role"); after != before {
		t.Errorf("the foreign Role changed: %v, was %v", after, before)
	}
}

func TestC19_AReplayedCreateIsStillOurs(t *testing.T) {
	t.Parallel()
	// The server commits the first attempt and answers 503 with Retry-After,
	// so that client-go sends it again and meets its own object.
	var replays atomic.Int32
	s := newScene(t, through(t, func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if err == nil && r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/jobs") && replays.Add(1) == 1 {
			_ = resp.Body.Close()
			return &http.Response{StatusCode: http.StatusServiceUnavailable, Status: "503", Header: http.Header{"Retry-After": {"0"}},
				Body: http.NoBody, Request: r, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}, nil
		}
		return resp, err
	}), nil)
	s.deploy()
	if replays.Load() < 2 {
		t.Fatal("the create was not replayed: the test shows nothing")
	}
	s.cleanup()
	s.left()
}

func TestC22_CleanupWorksAfterTheCallersContextIsCancelled(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, nil)
	ctx, cancel := context.WithCancel(t.Context())
	s.must(s.Deploy(ctx))
	cancel()
	s.must(s.Cleanup(ctx, agent.CleanupOptions{Enabled: true}))
	s.left()
}

func TestC23_AStagedSnapshotThatWasNeverReadIsDeleted(t *testing.T) {
	t.Parallel()
	devtest.Controllers(t)
	s := newScene(t, nil, nil)
	s.deploy()
	s.stage() // an older agent, without an owner reference
	s.cleanup()
	s.left()
}

func TestC23_AStagedSnapshotOfAnotherJobIsLeft(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, nil)
	s.deploy()
	other, err := s.admin.CoreV1().ConfigMaps(s.namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	s.must(err)
	s.stage(metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: other.Name, UID: other.UID})
	before := stateOf(s, "ConfigMap")
	if _, err := s.GetSnapshot(t.Context()); !stderrors.Is(err, errors.Conflict) {
		t.Errorf("GetSnapshot: %v, want CONFLICT", err)
	}
	s.cleanup()
	s.left("ConfigMap")
	if after := stateOf(s, "ConfigMap"); after != before {
		t.Errorf("changed: %v, was %v", after, before)
	}
}

func TestC23_WithoutTheLiveJobAStagedSnapshotIsLeft(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, nil)
	s.deploy()
	background := metav1.DeletePropagationBackground
	s.must(s.admin.BatchV1().Jobs(s.namespace).Delete(t.Context(), s.JobName(), metav1.DeleteOptions{PropagationPolicy: &background}))
	s.stage()
	s.cleanup()
	s.left("ConfigMap")
}

func TestC24_AStagedSnapshotWrittenAfterCleanupGoesWithTheJob(t *testing.T) {
	t.Parallel()
	devtest.Controllers(t)
	s := newScene(t, nil, nil)
	s.deploy()
	owner := s.jobOwner()
	s.cleanup()
	s.stage(owner)
	s.left()
}

func TestC11_TheCallersOwnOutputIsNeverDeleted(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, func(c *agent.Config) { c.Output = "cm://" + c.Namespace + "/mine" })
	s.deploy()
	_, err := s.admin.CoreV1().ConfigMaps(s.namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Data: map[string]string{"format": "yaml", "snapshot.yaml": "x"},
	}, metav1.CreateOptions{})
	s.must(err)
	_, err = s.GetSnapshot(t.Context())
	s.must(err)
	s.cleanup()
	s.left()
	_, err = s.admin.CoreV1().ConfigMaps(s.namespace).Get(t.Context(), "mine", metav1.GetOptions{})
	s.must(err)
}

func TestC25_WhatCanGoesWithTheJob(t *testing.T) {
	t.Parallel()
	devtest.Controllers(t)
	s := newScene(t, nil, nil)
	s.deploy()
	s.stage(s.jobOwner())
	background := metav1.DeletePropagationBackground
	// As the TTL controller does after a kill of the controller.
	s.must(s.admin.BatchV1().Jobs(s.namespace).Delete(t.Context(), s.JobName(), metav1.DeleteOptions{PropagationPolicy: &background}))
	s.left("ClusterRole", "ClusterRoleBinding")
}
