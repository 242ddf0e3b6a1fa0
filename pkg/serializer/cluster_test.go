package serializer

import (
	stderrors "errors"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/NVIDIA/aicr/internal/devcluster/devtest"
	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/k8s/client"
	"github.com/NVIDIA/aicr/pkg/k8s/configmap"
)

func TestMain(m *testing.M) {
	os.Exit(devtest.Main(m, devtest.Options{
		NoControllers:    true,
		AdmissionPlugins: []string{"OwnerReferencesPermissionEnforcement"},
	}))
}

func get(t *testing.T, ref configmap.Ref) *corev1.ConfigMap {
	t.Helper()
	cm, err := devtest.Client(t).CoreV1().ConfigMaps(ref.Namespace).Get(t.Context(), ref.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return cm
}

// grant lets user do verbs to the one ConfigMap, as a run's Role does.
func grant(t *testing.T, user string, ref configmap.Ref, verbs ...string) {
	t.Helper()
	rbac := devtest.Client(t).RbacV1()
	meta := metav1.ObjectMeta{Namespace: ref.Namespace, Name: "writer"}
	_, err := rbac.Roles(ref.Namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{ref.Name}, Verbs: verbs,
	}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = rbac.RoleBindings(ref.Namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "writer"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// as returns a client of that user; seen, if not nil, is told each answer.
func as(t *testing.T, user string, seen func(status int)) kubernetes.Interface {
	t.Helper()
	cfg, err := devtest.Cluster(t).UserConfig(user)
	if err != nil {
		t.Fatal(err)
	}
	if seen != nil {
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				resp, err := next.RoundTrip(r)
				if err == nil {
					seen(resp.StatusCode)
				}
				return resp, err
			})
		})
	}
	cs, _, err := client.New(cfg, "")
	if err != nil {
		t.Fatal(err)
	}
	return cs
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestC34_AnotherVersionReplacesItsPredecessorsFieldsAndNoOthers(t *testing.T) {
	ref := configmap.Ref{Namespace: devtest.Namespace(t), Name: "snapshot"}
	cs := devtest.Client(t)
	// What the caller made beforehand, one of our keys included.
	_, err := cs.CoreV1().ConfigMaps(ref.Namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: ref.Name, Labels: map[string]string{"theirs": "stays"}},
		Data:       map[string]string{"theirs": "stays", "format": "theirs"},
	}, metav1.CreateOptions{FieldManager: "somebody"})
	if err != nil {
		t.Fatal(err)
	}
	w := NewConfigMap(ConfigMapOptions{Client: cs, Ref: ref, Owner: &JobRef{Name: "job", UID: types.UID("uid-1")}})
	if err := w.Write(t.Context(), Document{Format: YAML, Data: []byte("a: 1\n"), Kind: "Snapshot", Version: "v1"}); err != nil {
		t.Fatal(err)
	}
	if owners := get(t, ref).OwnerReferences; len(owners) != 1 || owners[0].UID != "uid-1" || owners[0].Controller != nil {
		t.Errorf("owners after the first write: %v", owners)
	}
	w = NewConfigMap(ConfigMapOptions{Client: cs, Ref: ref})
	if err := w.Write(t.Context(), Document{Format: JSON, Data: []byte("{}\n"), Kind: "Snapshot", Version: "v2+dirty"}); err != nil {
		t.Fatal(err)
	}

	cm := get(t, ref)
	if cm.Data["timestamp"] == "" {
		t.Error("no timestamp")
	}
	delete(cm.Data, "timestamp")
	want := map[string]string{"theirs": "stays", "format": "json", "snapshot.json": "{}\n"}
	if diff := cmp.Diff(want, cm.Data); diff != "" {
		t.Errorf("data: %s", diff)
	}
	want = map[string]string{
		"theirs": "stays", "app.kubernetes.io/name": "aicr",
		"app.kubernetes.io/component": "snapshot", "app.kubernetes.io/version": "v2_dirty",
	}
	if diff := cmp.Diff(want, cm.Labels); diff != "" {
		t.Errorf("labels: %s", diff)
	}
	if len(cm.OwnerReferences) != 0 {
		t.Errorf("a delivered ConfigMap has the owners %v", cm.OwnerReferences)
	}
	managers := map[string]metav1.ManagedFieldsOperationType{}
	for _, f := range cm.ManagedFields {
		managers[f.Manager] = f.Operation
	}
	wantManagers := map[string]metav1.ManagedFieldsOperationType{"somebody": "Update", "aicr": "Apply"}
	if diff := cmp.Diff(wantManagers, managers); diff != "" {
		t.Errorf("managers: %s", diff)
	}
}

func TestC25_WriteSucceedsWhenItsRoleBindingArrivesLate(t *testing.T) {
	ref := configmap.Ref{Namespace: devtest.Namespace(t), Name: "snapshot"}
	refused := make(chan struct{}, 100)
	cs := as(t, "late-"+ref.Namespace, func(status int) {
		if status == http.StatusForbidden {
			refused <- struct{}{}
		}
	})
	done := make(chan error, 1)
	go func() {
		done <- NewConfigMap(ConfigMapOptions{Client: cs, Ref: ref, Owner: &JobRef{Name: "job", UID: "uid-1"}}).
			Write(t.Context(), doc("x"))
	}()
	<-refused
	grant(t, "late-"+ref.Namespace, ref, "create", "patch", "delete")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if len(get(t, ref).OwnerReferences) != 1 {
		t.Error("the owner reference was given up")
	}
}

// The cluster runs the admission plugin OwnerReferencesPermissionEnforcement,
// as OpenShift does, and the agent's rights are those to write and no more.
func TestC24_OwnerReferenceNeedsNoRightToDelete(t *testing.T) {
	ref := configmap.Ref{Namespace: devtest.Namespace(t), Name: "snapshot"}
	user := "no-delete-" + ref.Namespace
	grant(t, user, ref, "create", "patch")
	w := NewConfigMap(ConfigMapOptions{Client: as(t, user, nil), Ref: ref, Owner: &JobRef{Name: "job", UID: "uid-1"}})
	// Twice, as after an answer that was lost.
	for range 2 {
		if err := w.Write(t.Context(), doc("x")); err != nil {
			t.Fatal(err)
		}
		want := []metav1.OwnerReference{{
			APIVersion: "batch/v1", Kind: "Job", Name: "job", UID: "uid-1", BlockOwnerDeletion: ptr.To(false),
		}}
		if diff := cmp.Diff(want, get(t, ref).OwnerReferences); diff != "" {
			t.Error(diff)
		}
	}
	// The plugin is there: the reference to another owner is refused.
	w = NewConfigMap(ConfigMapOptions{Client: as(t, user, nil), Ref: ref, Owner: &JobRef{Name: "job", UID: "uid-2"}})
	c := w.(configMap)
	c.pauses.forbidden = 0
	if err := c.Write(t.Context(), doc("x")); !stderrors.Is(err, errors.Unauthorized) || !strings.Contains(err.Error(), "ownerRef") {
		t.Errorf("another owner: %v", err)
	}
}
