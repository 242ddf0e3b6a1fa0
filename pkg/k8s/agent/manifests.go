package agent

import (
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/k8s/labels"
)

// ManifestOptions name the ServiceAccount that manifests are rendered for.
type ManifestOptions struct {
	// Namespace and ServiceAccountName are required. The ServiceAccount need
	// not exist yet.
	Namespace, ServiceAccountName string
	// DiscoverNetwork is not supported yet and refused.
	DiscoverNetwork bool
}

// Manifest is one file for the operator to review and apply.
type Manifest struct {
	// FileName orders the files: a role before its binding.
	FileName string
	// Kind and Name are the object's.
	Kind, Name string
	// Content is YAML with a comment that explains it.
	Content []byte
}

// BuildServiceAccountRoleManifests renders the RBAC that lets an existing
// ServiceAccount serve as the agent's. It contacts no cluster and applies
// nothing; the same options give the same bytes. What an operator applies
// belongs to no run and is never deleted by one.
//
// It is InvalidRequest where a name is missing or invalid.
func BuildServiceAccountRoleManifests(o ManifestOptions) ([]Manifest, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	role := "aicr-agent-" + o.ServiceAccountName + "-rbac"
	clusterRole := "aicr-agent-" + o.Namespace + "." + o.ServiceAccountName + "-rbac"
	meta := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{
			labels.Name:      labels.AICR,
			labels.Component: labels.AgentRBAC,
		}}
	}
	typed := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
	}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: o.Namespace, Name: o.ServiceAccountName}}
	namespaced, cluster := namespacedGrants(""), clusterGrants()
	bound := fmt.Sprintf("Gives ServiceAccount %s/%s what %%s %%q grants, %%s.", o.Namespace, o.ServiceAccountName)
	var out []Manifest
	for _, m := range []struct {
		kind, name string
		grants     []grant
		says       string
		object     any
	}{
		{kindRole, role, namespaced, "Grants, in namespace " + o.Namespace + ":", &rbacv1.Role{
			TypeMeta: typed(kindRole), ObjectMeta: meta(o.Namespace, role), Rules: rulesOf(namespaced),
		}},
		{kindRoleBinding, role, nil, fmt.Sprintf(bound, kindRole, role, "in namespace "+o.Namespace), &rbacv1.RoleBinding{
			TypeMeta: typed(kindRoleBinding), ObjectMeta: meta(o.Namespace, role), Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kindRole, Name: role},
		}},
		{kindClusterRole, clusterRole, cluster, "Grants, in the whole cluster:", &rbacv1.ClusterRole{
			TypeMeta: typed(kindClusterRole), ObjectMeta: meta("", clusterRole), Rules: rulesOf(cluster),
		}},
		{kindClusterRoleBinding, clusterRole, nil, fmt.Sprintf(bound, kindClusterRole, clusterRole, "in the whole cluster"), &rbacv1.ClusterRoleBinding{
			TypeMeta: typed(kindClusterRoleBinding), ObjectMeta: meta("", clusterRole), Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kindClusterRole, Name: clusterRole},
		}},
	} {
		body, err := yaml.Marshal(m.object)
		if err != nil {
			return nil, errors.Wrap(errors.Internal, err, "render %s %s", m.kind, m.name)
		}
		file := fmt.Sprintf("%02d-%s.yaml", len(out)+1, strings.ToLower(m.kind))
		content := append([]byte(manifestComment(file, m.says, m.grants)), body...)
		out = append(out, Manifest{FileName: file, Kind: m.kind, Name: m.name, Content: content})
	}
	return out, nil
}

func (o ManifestOptions) validate() error {
	if msgs := validation.IsDNS1123Label(o.Namespace); len(msgs) > 0 {
		return errors.New(errors.InvalidRequest, "namespace %q: %s", o.Namespace, strings.Join(msgs, "; "))
	}
	if msgs := validation.IsDNS1123Subdomain(o.ServiceAccountName); len(msgs) > 0 {
		return errors.New(errors.InvalidRequest, "ServiceAccount name %q: %s", o.ServiceAccountName, strings.Join(msgs, "; "))
	}
	if o.DiscoverNetwork {
		return errors.New(errors.InvalidRequest, "DiscoverNetwork is not supported yet").WithAdvice("leave it out")
	}
	return nil
}

// manifestComment tells an operator what a file grants and why, and that the
// decision is theirs.
func manifestComment(file, says string, grants []grant) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, "# "+format+"\n", args...) }
	line("%s", says)
	for _, g := range grants {
		group := g.rule.APIGroups[0]
		if group == "" {
			group = "core"
		}
		line("  - %s on %s (%s): %s", strings.Join(g.rule.Verbs, ", "), strings.Join(g.rule.Resources, ", "), group, g.why)
	}
	line("aicr has applied nothing and never deletes this object: it belongs to no run.")
	line("Apply:  kubectl apply -f %s", file)
	line("Revoke: kubectl delete -f %s", file)
	return b.String()
}
