package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/NVIDIA/aicr/internal/devcluster/devtest"
	"github.com/NVIDIA/aicr/pkg/k8s/agent"
	"github.com/NVIDIA/aicr/pkg/runid"
)

// scene is one run on the real API server. The test plays the node: the Job
// controller makes a real pod, which no kubelet starts.
type scene struct {
	t         testing.TB
	admin     kubernetes.Interface
	namespace string
	user      string // whose requests are the run's; empty: the administrator's
	config    agent.Config
	*agent.Deployer
}

// newScene makes a Deployer in a namespace of its own. client is the run's;
// nil means the administrator's.
func newScene(t testing.TB, client kubernetes.Interface, change func(*agent.Config)) *scene {
	t.Helper()
	s := &scene{t: t, admin: devtest.Client(t), namespace: devtest.Namespace(t)}
	s.config = agent.Config{Namespace: s.namespace, RunID: runid.Generate(), Image: "example.com/aicr:test"}
	if change != nil {
		change(&s.config)
	}
	if client == nil {
		client = s.admin
	}
	s.Deployer = agent.NewDeployer(client, s.config)
	// Whatever the test does, nothing cluster-scoped is left to others.
	t.Cleanup(func() { _ = s.Cleanup(context.Background(), agent.CleanupOptions{Enabled: true}) })
	return s
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) deploy() {
	s.t.Helper()
	s.must(s.Deploy(s.t.Context()))
}

func (s *scene) cleanup() {
	s.t.Helper()
	s.must(s.Cleanup(context.Background(), agent.CleanupOptions{Enabled: true}))
}

func (s *scene) job() *batchv1.Job {
	s.t.Helper()
	job, err := s.admin.BatchV1().Jobs(s.namespace).Get(s.t.Context(), s.JobName(), metav1.GetOptions{})
	s.must(err)
	return job
}

// pod waits for the pod that the Job controller makes.
func (s *scene) pod() *corev1.Pod {
	s.t.Helper()
	var pod *corev1.Pod
	devtest.Eventually(s.t, "a pod of the Job", time.Minute, func(ctx context.Context) error {
		list, err := s.admin.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name=" + s.JobName()})
		if err != nil {
			return err
		}
		if len(list.Items) == 0 {
			return fmt.Errorf("none yet")
		}
		pod = &list.Items[0]
		return nil
	})
	return pod
}

// endPod plays the kubelet of an agent that ended with that exit code.
func (s *scene) endPod(code int32) {
	s.t.Helper()
	status := corev1.PodStatus{Phase: corev1.PodSucceeded}
	reason := "Completed"
	if code != 0 {
		status.Phase, reason = corev1.PodFailed, "Error"
	}
	status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "agent",
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: code, Reason: reason, Message: "played by the test",
		}},
	}}
	s.setStatus(s.pod().Name, status)
}

// setStatus patches a pod's status, since the scheduler writes it as well.
func (s *scene) setStatus(pod string, status corev1.PodStatus) {
	s.t.Helper()
	patch, err := json.Marshal(map[string]any{"status": status})
	s.must(err)
	_, err = s.admin.CoreV1().Pods(s.namespace).Patch(s.t.Context(), pod, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	s.must(err)
}

// stage plays the agent's write.
func (s *scene) stage(owners ...metav1.OwnerReference) *corev1.ConfigMap {
	s.t.Helper()
	cm, err := s.admin.CoreV1().ConfigMaps(s.namespace).Create(s.t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: agent.StagingConfigMapName(s.config.RunID), OwnerReferences: owners},
		Data:       map[string]string{"format": "yaml", "snapshot.yaml": "kind: Snapshot\n"},
	}, metav1.CreateOptions{})
	s.must(err)
	return cm
}

func (s *scene) jobOwner() metav1.OwnerReference {
	job := s.job()
	return metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: job.Name, UID: job.UID}
}

// left names what of the run is still there, pods included, once it is
// stable: the garbage collector gets its time.
func (s *scene) left(want ...string) {
	s.t.Helper()
	devtest.Eventually(s.t, "what is left", 30*time.Second, func(ctx context.Context) error {
		objects, err := runObjects(ctx, s.admin, s.namespace, s.config.RunID)
		var got []string
		for _, o := range objects {
			got = append(got, o.kind)
		}
		if err == nil && strings.Join(got, " ") != strings.Join(want, " ") {
			err = fmt.Errorf("left %v, want %v", got, want)
		}
		return err
	})
}

type runObject struct {
	kind string
	metav1.Object
}

// runObjects lists what carries a run ID in its name.
func runObjects(ctx context.Context, client kubernetes.Interface, ns, runID string) ([]runObject, error) {
	var out []runObject
	o := metav1.ListOptions{}
	for _, list := range []func() (string, []metav1.Object, error){
		func() (string, []metav1.Object, error) {
			l, err := client.RbacV1().ClusterRoles().List(ctx, o)
			return "ClusterRole", pointers(l.Items), err
		},
		func() (string, []metav1.Object, error) {
			l, err := client.RbacV1().ClusterRoleBindings().List(ctx, o)
			return "ClusterRoleBinding", pointers(l.Items), err
		},
		func() (string, []metav1.Object, error) {
			l, err := client.CoreV1().ConfigMaps(ns).List(ctx, o)
			return "ConfigMap", pointers(l.Items), err
		},
		func() (string, []metav1.Object, error) {
			l, err := client.BatchV1().Jobs(ns).List(ctx, o)
			return "Job", pointers(l.Items), err
		},
		func() (string, []metav1.Object, error) {
			l, err := client.CoreV1().Pods(ns).List(ctx, o)
			return "Pod", pointers(l.Items), err
		},
		func() (string, []metav1.Object, error) {
			l, err := client.RbacV1().Roles(ns).List(ctx, o)
			return "Role", pointers(l.Items), err
		},
		func() (string, []metav1.Object, error) {
			l, err := client.RbacV1().RoleBindings(ns).List(ctx, o)
			return "RoleBinding", pointers(l.Items), err
		},
		func() (string, []metav1.Object, error) {
			l, err := client.CoreV1().ServiceAccounts(ns).List(ctx, o)
			return "ServiceAccount", pointers(l.Items), err
		},
	} {
		kind, objects, err := list()
		if err != nil {
			return nil, err
		}
		for _, m := range objects {
			if strings.Contains(m.GetName(), runID) {
				out = append(out, runObject{kind, m})
			}
		}
	}
	return out, nil
}

func pointers[T any, P interface {
	*T
	metav1.Object
}](items []T) []metav1.Object {
	out := make([]metav1.Object, len(items))
	for i := range items {
		out[i] = P(&items[i])
	}
	return out
}

// as returns a client of a user with those rights in the namespace and in the
// cluster. Its requests pass through f where that is set.
func as(t testing.TB, user, namespace string, inNamespace, inCluster []rbacv1.PolicyRule, f tripper) kubernetes.Interface {
	t.Helper()
	groups := []string{"system:authenticated"}
	allow(t, namespace, rbacv1.Subject{Kind: rbacv1.UserKind, Name: user, APIGroup: rbacv1.GroupName}, inNamespace, inCluster)
	config, err := devtest.Cluster(t).UserConfig(user, groups...)
	if err != nil {
		t.Fatal(err)
	}
	awaitRights(t, user, groups, namespace, inNamespace)
	awaitRights(t, user, groups, "", inCluster)
	return clientOf(t, config, f)
}

// allow gives a subject rights in the namespace and in the cluster, until the
// test ends.
func allow(t testing.TB, namespace string, subject rbacv1.Subject, inNamespace, inCluster []rbacv1.PolicyRule) {
	t.Helper()
	ctx, rbac := t.Context(), devtest.Client(t).RbacV1()
	meta := metav1.ObjectMeta{Name: "allow-" + runid.Generate()}
	subjects := []rbacv1.Subject{subject}
	check := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(rbac.Roles(namespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: inNamespace}, metav1.CreateOptions{}))
	check(rbac.RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name}}, metav1.CreateOptions{}))
	check(rbac.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: inCluster}, metav1.CreateOptions{}))
	check(rbac.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name}}, metav1.CreateOptions{}))
	t.Cleanup(func() {
		ctx := context.Background()
		check(nil, rbac.ClusterRoles().Delete(ctx, meta.Name, metav1.DeleteOptions{}))
		check(nil, rbac.ClusterRoleBindings().Delete(ctx, meta.Name, metav1.DeleteOptions{}))
	})
}

// awaitRights waits until the API server's authorizer has heard of the rules.
func awaitRights(t testing.TB, user string, groups []string, namespace string, rules []rbacv1.PolicyRule) {
	t.Helper()
	admin := devtest.Client(t)
	for _, r := range rules {
		if len(r.Verbs) == 0 {
			continue
		}
		resource, sub, _ := strings.Cut(r.Resources[len(r.Resources)-1], "/")
		devtest.Eventually(t, "the rights of "+user, time.Minute, func(ctx context.Context) error {
			review, err := admin.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
				Spec: authorizationv1.SubjectAccessReviewSpec{User: user, Groups: groups, ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: namespace, Verb: r.Verbs[0], Group: r.APIGroups[0], Resource: resource, Subresource: sub,
				}},
			}, metav1.CreateOptions{})
			if err == nil && !review.Status.Allowed {
				err = fmt.Errorf("not yet: %v", r)
			}
			return err
		})
	}
}
