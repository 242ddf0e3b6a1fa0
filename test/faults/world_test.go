package faults

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/NVIDIA/aicr/internal/inventory"
	"github.com/NVIDIA/aicr/pkg/k8s/agent"
	"github.com/NVIDIA/aicr/pkg/k8s/labels"
	"github.com/NVIDIA/aicr/pkg/runid"
)

// kinds are those that a run creates, and those that a run could harm.
func kinds() map[string]schema.GroupVersionResource {
	out := map[string]schema.GroupVersionResource{}
	for _, gvr := range []schema.GroupVersionResource{
		corev1.SchemeGroupVersion.WithResource("configmaps"),
		corev1.SchemeGroupVersion.WithResource("serviceaccounts"),
		corev1.SchemeGroupVersion.WithResource("secrets"),
		corev1.SchemeGroupVersion.WithResource("pods"),
		batchv1.SchemeGroupVersion.WithResource("jobs"),
		rbacv1.SchemeGroupVersion.WithResource("roles"),
		rbacv1.SchemeGroupVersion.WithResource("rolebindings"),
		rbacv1.SchemeGroupVersion.WithResource("clusterroles"),
		rbacv1.SchemeGroupVersion.WithResource("clusterrolebindings"),
	} {
		out[gvr.Resource] = gvr
	}
	return out
}

func clusterScoped(resource string) bool { return strings.HasPrefix(resource, "cluster") }

// bystander is in the names of another run's objects, which stand beside
// those of the run from the start.
const bystander = "bystander"

// world is one case's part of the cluster: a namespace, the names of one run
// in it, and whatever others put there.
type world struct {
	t                testing.TB
	config           *rest.Config
	admin            kubernetes.Interface
	meta             metadata.Interface
	namespace, runID string

	mu      sync.Mutex
	foreign inventory.Inventory // everything that the Deployer must not touch
	// foreignNamespace is the namespace's version where another owner made it.
	foreignNamespace string
}

// newWorld makes a namespace with another run's objects, of the same run ID
// where labels can tell, or only names one that is absent.
func newWorld(t testing.TB, config *rest.Config, absent bool) *world {
	t.Helper()
	w := &world{t: t, config: config, runID: runid.Generate(), foreign: inventory.Inventory{}}
	w.namespace = "faults-" + w.runID
	var err error
	w.admin, err = kubernetes.NewForConfig(config)
	w.must(err)
	w.meta, err = metadata.NewForConfig(config)
	w.must(err)
	t.Cleanup(w.close)
	if absent {
		return w
	}
	_, err = w.admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}, metav1.CreateOptions{})
	w.must(err)
	for resource := range kinds() {
		if resource != "pods" && resource != "secrets" {
			w.place(w.at(resource, bystander+"-"+w.runID), labels.ForRun(w.runID, bystander))
		}
	}
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// close takes away what is cluster-scoped: the namespaces go with the cluster.
func (w *world) close() {
	ctx := context.Background()
	for resource, gvr := range kinds() {
		if !clusterScoped(resource) {
			continue
		}
		for o := range w.listKind(ctx, gvr) {
			w.remove(ctx, object{o.Resource, o.Namespace, o.Name})
		}
	}
}

func (w *world) at(resource, name string) object {
	if clusterScoped(resource) {
		return object{resource, "", name}
	}
	return object{resource, w.namespace, name}
}

func (w *world) staging() object { return w.at("configmaps", agent.StagingConfigMapName(w.runID)) }

// place makes somebody else's object at a name. What is in the way already is
// somebody else's too and stays.
func (w *world) place(o object, with map[string]string) {
	w.t.Helper()
	meta := metav1.ObjectMeta{Namespace: o.namespace, Name: o.name, Labels: with}
	if o.resource == "namespaces" {
		meta.Labels = map[string]string{labels.ManagedBy: "Helm"}
	}
	got, err := w.create(context.Background(), o.resource, meta)
	if err != nil {
		w.t.Errorf("place a foreign %v: %v", o, err)
		return
	}
	w.spare(o, got)
}

// spare notes an object that the Deployer must not touch.
func (w *world) spare(o object, live metav1.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o.resource == "namespaces" {
		w.foreignNamespace = live.GetResourceVersion()
		return
	}
	w.foreign[o.key()] = inventory.Object{UID: live.GetUID(), ResourceVersion: live.GetResourceVersion()}
}

// give makes an object that was foreign the run's.
func (w *world) give(o object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.foreign, o.key())
}

func (o object) key() inventory.Key {
	return inventory.Key{Resource: o.resource, Namespace: o.namespace, Name: o.name}
}

func (w *world) create(ctx context.Context, resource string, meta metav1.ObjectMeta) (metav1.Object, error) {
	o, other := metav1.CreateOptions{}, "somebody-else"
	switch resource {
	case "configmaps":
		return w.admin.CoreV1().ConfigMaps(meta.Namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: meta,
			Data: map[string]string{"format": "yaml", "snapshot.yaml": other}}, o)
	case "serviceaccounts":
		return w.admin.CoreV1().ServiceAccounts(meta.Namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, o)
	case "roles":
		return w.admin.RbacV1().Roles(meta.Namespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta}, o)
	case "rolebindings":
		return w.admin.RbacV1().RoleBindings(meta.Namespace).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: other}}, o)
	case "clusterroles":
		return w.admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta}, o)
	case "clusterrolebindings":
		return w.admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: other}}, o)
	case "jobs":
		return w.admin.BatchV1().Jobs(meta.Namespace).Create(ctx, &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{
			Suspend: ptr.To(true),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever,
				Containers:    []corev1.Container{{Name: other, Image: other}},
			}},
		}}, o)
	case "namespaces":
		return w.admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: meta}, o)
	}
	return nil, fmt.Errorf("no way to make one of %s", resource)
}

// stands reports whether there is an object of that name, whosever it is.
func (w *world) stands(o object) bool {
	w.t.Helper()
	_, err := w.meta.Resource(kinds()[o.resource]).Namespace(o.namespace).Get(context.Background(), o.name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Errorf("look for %v: %v", o, err)
	}
	return err == nil
}

// remove takes an object away, whosever it is.
func (w *world) remove(ctx context.Context, o object) {
	w.t.Helper()
	background := metav1.DeletePropagationBackground
	err := w.meta.Resource(kinds()[o.resource]).Namespace(o.namespace).Delete(ctx, o.name, metav1.DeleteOptions{PropagationPolicy: &background})
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Errorf("remove %v: %v", o, err)
	}
}

// listing is what stands at one time.
type listing map[inventory.Key]metav1.PartialObjectMetadata

// list gives everything in the namespace, and what is cluster-scoped and has
// the run's ID in its name.
func (w *world) list(ctx context.Context) listing {
	w.t.Helper()
	out := listing{}
	for _, gvr := range kinds() {
		maps.Copy(out, w.listKind(ctx, gvr))
	}
	return out
}

func (w *world) listKind(ctx context.Context, gvr schema.GroupVersionResource) listing {
	w.t.Helper()
	l, err := w.meta.Resource(gvr).Namespace(w.at(gvr.Resource, "").namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		w.t.Errorf("list %s: %v", gvr.Resource, err)
		return nil
	}
	out := listing{}
	for _, o := range l.Items {
		if !clusterScoped(gvr.Resource) || strings.Contains(o.Name, w.runID) {
			out[w.at(gvr.Resource, o.Name).key()] = o
		}
	}
	return out
}

// collect plays the garbage collector: what has owners, all of them gone, goes.
// It gives what stays.
func (w *world) collect(ctx context.Context, all listing) listing {
	w.t.Helper()
	uids := map[types.UID]bool{}
	for _, o := range all {
		uids[o.UID] = true
	}
	stays := maps.Clone(all)
	for key, o := range all {
		if len(o.OwnerReferences) > 0 && !slices.ContainsFunc(o.OwnerReferences, func(r metav1.OwnerReference) bool { return uids[r.UID] }) {
			w.remove(ctx, object{key.Resource, key.Namespace, key.Name})
			delete(stays, key)
		}
	}
	return stays
}

func (l listing) inventory() inventory.Inventory {
	out := inventory.Inventory{}
	for key, o := range l {
		out[key] = inventory.Object{UID: o.UID, ResourceVersion: o.ResourceVersion}
	}
	return out
}

func (w *world) inventory(ctx context.Context) inventory.Inventory {
	w.t.Helper()
	return w.list(ctx).inventory()
}
