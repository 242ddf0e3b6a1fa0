package agent

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/NVIDIA/aicr/pkg/k8s/labels"
)

// grant is a rule that the agent gets, and why it needs it.
type grant struct {
	rule rbacv1.PolicyRule
	why  string
}

func rulesOf(grants []grant) []rbacv1.PolicyRule {
	rules := make([]rbacv1.PolicyRule, len(grants))
	for i, g := range grants {
		rules[i] = g.rule
	}
	return rules
}

// namespacedGrants are the agent's rights in its namespace: to write its
// result. With a name they are bound to that one ConfigMap; without, they are
// for a ServiceAccount that serves many runs. The owner reference that makes
// the ConfigMap go with the Job needs no right to delete, also where the
// admission plugin OwnerReferencesPermissionEnforcement is on: it asks for that
// only where a reference of an existing object changes, and this one is there
// from the create on.
func namespacedGrants(name string) []grant {
	g := grant{
		rule: rbacv1.PolicyRule{
			APIGroups: []string{""},
			Resources: []string{"configmaps"},
			Verbs:     []string{"create", "patch"},
		},
		why: "the agent writes the snapshot into a ConfigMap by server-side apply, which asks for patch, and for create where the ConfigMap is new",
	}
	if name != "" {
		g.rule.ResourceNames = []string{name}
	}
	return []grant{g}
}

// clusterGrants are the agent's cluster-wide rights: to read, by verbs that
// its collectors use and no others. /version needs none: every authenticated
// user may read it.
func clusterGrants() []grant {
	read := func(group string, resources []string, verbs []string, why string) grant {
		return grant{rule: rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}, why: why}
	}
	list := []string{"list"}
	return []grant{
		read("", []string{"nodes"}, []string{"get", "list"}, "the agent reads the Node object of the node that it runs on, and the labels and taints of all nodes"),
		read("", []string{"pods"}, list, "the agent counts the container images in use"),
		read("apps", []string{"daemonsets"}, list, "the agent reads the versions of the GPU and network operators' DaemonSets"),
		read("storage.k8s.io", []string{"storageclasses"}, list, "the agent reads the storage classes"),
		read("nvidia.com", []string{"clusterpolicies", "nvidiadrivers"}, list, "the agent reads the GPU operator's configuration"),
		read("mellanox.com", []string{"nicclusterpolicies"}, list, "the agent reads the network operator's configuration"),
	}
}

func (d *Deployer) serviceAccount() *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: d.meta(d.names.identity)}
}

func (d *Deployer) role(owners ...metav1.OwnerReference) *rbacv1.Role {
	return &rbacv1.Role{
		ObjectMeta: d.meta(d.names.identity, owners...),
		Rules:      rulesOf(namespacedGrants(d.output().Name)),
	}
}

func (d *Deployer) roleBinding(owners ...metav1.OwnerReference) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: d.meta(d.names.identity, owners...),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kindRole, Name: d.names.identity},
		Subjects:   d.subjects(),
	}
}

func (d *Deployer) clusterRole() *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: d.names.clusterRole, Labels: d.labels()},
		Rules:      rulesOf(clusterGrants()),
	}
}

func (d *Deployer) clusterRoleBinding() *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: d.names.clusterRole, Labels: d.labels()},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kindClusterRole, Name: d.names.clusterRole},
		Subjects:   d.subjects(),
	}
}

func (d *Deployer) subjects() []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: d.config.Namespace, Name: d.names.identity}}
}

// ownServiceAccount makes the Job the owner of the ServiceAccount, which stood
// before it, so that it goes with the Job should this process be killed. The
// patch is pinned to the UID that the create answered. A failure costs only
// that and is no reason to stop.
func (d *Deployer) ownServiceAccount(ctx context.Context, owner metav1.OwnerReference) {
	r := d.ledger.find(kindServiceAccount)
	if r == nil {
		return
	}
	uid, _ := d.ledger.identity(r)
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":             uid,
		"ownerReferences": []metav1.OwnerReference{owner},
	}})
	if err == nil {
		_, err = d.client.CoreV1().ServiceAccounts(r.namespace).Patch(ctx, r.name, types.MergePatchType, patch,
			metav1.PatchOptions{FieldManager: labels.AICR})
	}
	if err != nil {
		d.log.Debug("the ServiceAccount has no owner reference to the Job", "name", r.name, "err", err)
	}
}
