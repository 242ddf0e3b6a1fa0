package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// permission is one thing that somebody must be allowed to do. An empty
// namespace means cluster scope.
type permission struct {
	verb, group, resource, subresource, namespace, name string
}

// String tells verb, resource with group, and scope.
func (p permission) String() string {
	what := p.resource
	if p.subresource != "" {
		what += "/" + p.subresource
	}
	if p.group != "" {
		what += "." + p.group
	}
	if p.namespace == "" {
		return fmt.Sprintf("%s %s (cluster-wide)", p.verb, what)
	}
	return fmt.Sprintf("%s %s (in namespace %s)", p.verb, what, p.namespace)
}

func (p permission) attributes() *authorizationv1.ResourceAttributes {
	return &authorizationv1.ResourceAttributes{
		Namespace: p.namespace, Verb: p.verb, Group: p.group, Version: "*",
		Resource: p.resource, Subresource: p.subresource, Name: p.name,
	}
}

// grantedBy reports whether a rule allows p, by the matching that RBAC defines:
// https://kubernetes.io/docs/reference/access-authn-authz/rbac/#referring-to-resources
func (p permission) grantedBy(rule authorizationv1.ResourceRule) bool {
	has := func(list []string, want ...string) bool {
		return slices.ContainsFunc(want, func(w string) bool { return slices.Contains(list, w) })
	}
	resource := []string{"*", p.resource}
	if p.subresource != "" {
		resource = []string{"*", p.resource + "/" + p.subresource, "*/" + p.subresource}
	}
	return has(rule.Verbs, "*", p.verb) && has(rule.APIGroups, "*", p.group) && has(rule.Resources, resource...) &&
		(len(rule.ResourceNames) == 0 || p.name != "" && has(rule.ResourceNames, p.name))
}

// permissionsOf expands grants into what they allow in a namespace, or
// cluster-wide where it is empty.
func permissionsOf(grants []grant, namespace string) []permission {
	var out []permission
	for _, r := range rulesOf(grants) {
		names := r.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range r.APIGroups {
			for _, res := range r.Resources {
				base, sub, _ := strings.Cut(res, "/")
				for _, verb := range r.Verbs {
					for _, name := range names {
						out = append(out, permission{verb, group, base, sub, namespace, name})
					}
				}
			}
		}
	}
	return out
}

// reviewer answers whether a subject has a permission.
type reviewer interface {
	allowed(ctx context.Context, p permission) (bool, error)
	// subject names whose permissions these are.
	subject() string
}

// callerReviewer asks for the caller itself. What a complete rules review
// grants in the namespace needs no question of its own; what it does not
// grant, and all that is cluster-scoped, is asked one by one.
type callerReviewer struct {
	d     *Deployer
	rules []authorizationv1.ResourceRule
}

// newCallerReviewer reads the caller's rules in the run's namespace. This only
// saves questions: where the rules are incomplete or not to be had, every
// permission is asked about, and that tells what is wrong.
func (d *Deployer) newCallerReviewer(ctx context.Context) *callerReviewer {
	c := &callerReviewer{d: d}
	review, err := d.client.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx, &authorizationv1.SelfSubjectRulesReview{
		Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: d.config.Namespace},
	}, metav1.CreateOptions{})
	if err == nil && !review.Status.Incomplete {
		c.rules = review.Status.ResourceRules
	}
	return c
}

func (c *callerReviewer) subject() string { return "you" }

func (c *callerReviewer) allowed(ctx context.Context, p permission) (bool, error) {
	if p.namespace != "" && slices.ContainsFunc(c.rules, p.grantedBy) {
		return true, nil
	}
	review, err := c.d.client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: p.attributes()},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, apiError(err, "ask whether you may %s", p)
	}
	return review.Status.Allowed, nil
}

// accountReviewer asks for a ServiceAccount.
type accountReviewer struct {
	d               *Deployer
	namespace, name string
}

func (a accountReviewer) subject() string {
	return fmt.Sprintf("ServiceAccount %s/%s", a.namespace, a.name)
}

func (a accountReviewer) allowed(ctx context.Context, p permission) (bool, error) {
	review, err := a.d.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			ResourceAttributes: p.attributes(),
			User:               "system:serviceaccount:" + a.namespace + ":" + a.name,
			Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + a.namespace, "system:authenticated"},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, apiError(err, "ask whether %s may %s", a.subject(), p)
	}
	return review.Status.Allowed, nil
}
