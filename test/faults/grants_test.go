package faults

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/NVIDIA/aicr/internal/devcluster/devtest"
)

func rule(group, resources, verbs string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: strings.Split(resources, ","), Verbs: strings.Split(verbs, ",")}
}

// agentReads is what an agent reads of the cluster.
func agentReads() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule("", "nodes", "get,list"),
		rule("", "pods", "list"),
		rule("apps", "daemonsets", "list"),
		rule("storage.k8s.io", "storageclasses", "list"),
		rule("nvidia.com", "clusterpolicies,nvidiadrivers", "list"),
		rule("mellanox.com", "nicclusterpolicies", "list"),
	}
}

// grantAccounts lets every ServiceAccount do what an agent does, as an
// administrator would who has one for it, and waits until that holds.
func grantAccounts(t testing.TB, config *rest.Config) {
	t.Helper()
	const group, name = "system:serviceaccounts", "faults-agents"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, meta := t.Context(), metav1.ObjectMeta{Name: name}
	_, err = client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: append(agentReads(),
		rule("", "configmaps", "create,patch"))}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group}},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	awaitRight(t, client, authorizationv1.SubjectAccessReviewSpec{User: "somebody", Groups: []string{group},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "nodes"}})
}

// allow gives a user the documented rights of a caller and waits until they
// hold.
func (w *world) allow(user string) {
	w.t.Helper()
	ctx := w.t.Context()
	meta := metav1.ObjectMeta{Name: user}
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}
	_, err := w.admin.RbacV1().Roles(w.namespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		rule("batch", "jobs", "create,get,list,watch,delete"),
		rule("", "pods", "list,watch"),
		rule("", "configmaps", "create,get,patch,delete"),
		rule("", "serviceaccounts", "create,get,patch,delete"),
		rule(rbacv1.GroupName, "roles,rolebindings", "create,get,delete"),
	}}, metav1.CreateOptions{})
	w.must(err)
	_, err = w.admin.RbacV1().RoleBindings(w.namespace).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user}}, metav1.CreateOptions{})
	w.must(err)
	_, err = w.admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: append(agentReads(),
		rule(rbacv1.GroupName, "clusterroles,clusterrolebindings", "create,get,delete"))}, metav1.CreateOptions{})
	w.must(err)
	_, err = w.admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user}}, metav1.CreateOptions{})
	w.must(err)
	for _, a := range []authorizationv1.ResourceAttributes{
		{Verb: "delete", Group: rbacv1.GroupName, Resource: "clusterrolebindings"},
		{Verb: "delete", Group: rbacv1.GroupName, Resource: "rolebindings", Namespace: w.namespace},
	} {
		awaitRight(w.t, w.admin, authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &a})
	}
}

// awaitRight waits until the API server's authorizer has heard of a right.
func awaitRight(t testing.TB, admin kubernetes.Interface, spec authorizationv1.SubjectAccessReviewSpec) {
	t.Helper()
	devtest.Eventually(t, "the rights of "+spec.User, time.Minute, func(ctx context.Context) error {
		review, err := admin.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
		if err == nil && !review.Status.Allowed {
			err = errors.New("not yet")
		}
		return err
	})
}
