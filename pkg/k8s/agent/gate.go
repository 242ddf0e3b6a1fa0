package agent

import (
	"context"
	stderrors "errors"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	nodev1 "k8s.io/api/node/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/NVIDIA/aicr/pkg/errors"
)

// podSecurityLabel is the level that a namespace enforces:
// https://kubernetes.io/docs/concepts/security/pod-security-admission/
const podSecurityLabel = "pod-security.kubernetes.io/enforce"

// CheckPermissions asks whether the run could do all that it will do, without
// changing anything. Deploy does the same before its first write.
//
// Errors: Unauthorized naming every missing permission (verb, resource with
// group, scope, whose); Conflict where a ConfigMap stands at the staging name
// or the namespace is being deleted; NotFound for a runtime class that does
// not exist; InvalidRequest where the namespace refuses a privileged pod.
func (d *Deployer) CheckPermissions(ctx context.Context) error {
	if err := d.config.Validate(); err != nil {
		return err
	}
	_, err := d.gate(ctx)
	return whenOver(ctx, err)
}

// findings are what the gate learnt that Deploy acts on.
type findings struct {
	namespace   namespaceState
	adopted     bool // the pod runs as a ServiceAccount that exists already
	maySetOwner bool // the caller may patch ServiceAccounts
}

// gate reads and asks, and writes nothing.
func (d *Deployer) gate(ctx context.Context) (findings, error) {
	var f findings
	var err error
	if f.adopted, err = d.accountExists(ctx); err != nil {
		return f, err
	}
	var missing missingPermissions
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		f.namespace, err = d.checkNamespace(gctx, &missing)
		return err
	})
	g.Go(func() error { return d.checkStagingFree(gctx) })
	g.Go(func() error { return d.checkRuntimeClass(gctx) })
	g.Go(func() (err error) {
		f.maySetOwner, err = d.checkCaller(gctx, f.adopted, &missing)
		return err
	})
	if f.adopted {
		g.Go(func() error { return d.checkAccount(gctx, &missing) })
	}
	if err := g.Wait(); err != nil {
		return f, err
	}
	return f, missing.err()
}

// accountExists tells whether the configured ServiceAccount stands. Anything
// but a clear yes or no stops the run: guessing could grant rights to an
// identity that somebody else owns.
func (d *Deployer) accountExists(ctx context.Context) (bool, error) {
	name := d.config.ServiceAccountName
	if name == "" {
		return false, nil
	}
	_, err := d.client.CoreV1().ServiceAccounts(d.config.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		return true, nil
	case apierrors.IsNotFound(err):
		return false, nil
	}
	err = apiError(err, "look up ServiceAccount %s/%s", d.config.Namespace, name)
	var coded *errors.Error
	if stderrors.As(err, &coded) && coded.Code == errors.Unauthorized {
		return false, coded.WithAdvice("get the permission to read it, or leave the ServiceAccount's name out")
	}
	return false, err
}

// checkNamespace reads the namespace, asks for what an absent one needs, and
// tells where its Pod Security level refuses the pod.
func (d *Deployer) checkNamespace(ctx context.Context, missing *missingPermissions) (namespaceState, error) {
	seen, err := d.readNamespace(ctx)
	if err != nil {
		return seen, err
	}
	if seen.absent {
		caller := &callerReviewer{d: d}
		return seen, missing.ask(ctx, caller, permission{verb: "create", resource: "namespaces"})
	}
	if seen.object != nil && d.config.Privileged {
		if level := seen.object.Labels[podSecurityLabel]; level == "baseline" || level == "restricted" {
			return seen, errors.New(errors.InvalidRequest, "namespace %q enforces Pod Security level %q, which refuses a privileged pod", d.config.Namespace, level).
				WithAdvice("choose a namespace that enforces \"privileged\", or run with --privileged=false (Config.Privileged), which sees less of the node")
		}
	}
	return seen, nil
}

// checkStagingFree makes sure that what the run will own does not stand yet.
func (d *Deployer) checkStagingFree(ctx context.Context) error {
	if !d.config.OwnsOutputConfigMap {
		return nil
	}
	ref := d.output()
	_, err := d.client.CoreV1().ConfigMaps(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		err := errors.New(errors.Conflict, "ConfigMap %s/%s, where the snapshot would be staged, exists already and is left as it is", ref.Namespace, ref.Name)
		if ref.Name != StagingConfigMapName(d.config.RunID) {
			return err.WithAdvice("choose another output, or say that it is not the run's own")
		}
		return err.WithAdvice("run ID %q was used before: use a new one", d.config.RunID)
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err): // a missing permission is told with the others
		return nil
	}
	return apiError(err, "look for ConfigMap %s/%s", ref.Namespace, ref.Name)
}

func (d *Deployer) checkRuntimeClass(ctx context.Context) error {
	name := d.config.RuntimeClassName
	if name == "" {
		return nil
	}
	_, err := d.client.NodeV1().RuntimeClasses().Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err):
		d.warn("runtime class %q could not be looked up (forbidden): going on as if it exists", name)
		return nil
	case apierrors.IsNotFound(err):
		return errors.New(errors.NotFound, "runtime class %q does not exist in this cluster", name).
			WithAdvice("list those that do with \"kubectl get runtimeclasses.%s\", or leave it out", nodev1.GroupName)
	}
	return apiError(err, "look up runtime class %q", name)
}

// checkCaller asks for all that the caller will do, and tells whether it may
// also patch ServiceAccounts.
func (d *Deployer) checkCaller(ctx context.Context, adopted bool, missing *missingPermissions) (maySetOwner bool, err error) {
	caller := d.newCallerReviewer(ctx)
	g, ctx := errgroup.WithContext(ctx)
	for _, p := range d.callerPermissions(adopted) {
		g.Go(func() error { return missing.ask(ctx, caller, p) })
	}
	for _, p := range d.diagnosisPermissions() {
		g.Go(func() error {
			ok, err := caller.allowed(ctx, p)
			if err == nil && !ok {
				d.warn("you may not %s: the cause of a failure is told in less detail", p)
			}
			return err
		})
	}
	if !adopted {
		d.askGrants(ctx, g, caller, missing)
		g.Go(func() (err error) {
			maySetOwner, err = caller.allowed(ctx, permission{verb: "patch", resource: "serviceaccounts", namespace: d.config.Namespace, name: d.names.identity})
			return err
		})
	}
	err = g.Wait()
	return maySetOwner, err
}

// callerPermissions are those without which the run cannot do its work.
func (d *Deployer) callerPermissions(adopted bool) []permission {
	ns := d.config.Namespace
	var out []permission
	add := func(group, resource, namespace, name string, verbs ...string) {
		for _, v := range verbs {
			p := permission{verb: v, group: group, resource: resource, namespace: namespace}
			if v != "create" { // a create carries no name in its request
				p.name = name
			}
			out = append(out, p)
		}
	}
	add("batch", "jobs", ns, d.names.job, "create", "get", "list", "watch", "delete")
	add("", "pods", ns, "", "list", "watch")
	add("", "configmaps", ns, d.output().Name, "get")
	if d.config.OwnsOutputConfigMap {
		add("", "configmaps", ns, d.output().Name, "delete")
	}
	if adopted {
		return out
	}
	add("", "serviceaccounts", ns, d.names.identity, "create", "get", "delete")
	add(rbacv1.GroupName, "roles", ns, d.names.identity, "create", "get", "delete")
	add(rbacv1.GroupName, "rolebindings", ns, d.names.identity, "create", "get", "delete")
	add(rbacv1.GroupName, "clusterroles", "", d.names.clusterRole, "create", "get", "delete")
	add(rbacv1.GroupName, "clusterrolebindings", "", d.names.clusterRole, "create", "get", "delete")
	return out
}

func (d *Deployer) diagnosisPermissions() []permission {
	return []permission{
		{verb: "get", resource: "pods", subresource: "log", namespace: d.config.Namespace},
		{verb: "list", resource: "events", namespace: d.config.Namespace},
	}
}

// askGrants checks that the API server will let the caller grant the run's
// rules: for the role escalate, for the binding bind, or every rule held.
// https://kubernetes.io/docs/reference/access-authn-authz/rbac/#privilege-escalation-prevention-and-bootstrapping
func (d *Deployer) askGrants(ctx context.Context, g *errgroup.Group, caller reviewer, missing *missingPermissions) {
	ns := d.config.Namespace
	for _, grant := range []struct {
		resource, namespace, name string
		rules                     []permission
	}{
		{"roles", ns, d.names.identity, permissionsOf(namespacedGrants(d.output().Name), ns)},
		{"clusterroles", "", d.names.clusterRole, permissionsOf(clusterGrants(), "")},
	} {
		g.Go(func() error {
			lacks, err := firstLacking(ctx, caller, grant.rules)
			if err != nil || lacks == nil {
				return err
			}
			for _, p := range []permission{
				{verb: "escalate", group: rbacv1.GroupName, resource: grant.resource, namespace: grant.namespace},
				{verb: "bind", group: rbacv1.GroupName, resource: grant.resource, namespace: grant.namespace, name: grant.name},
			} {
				ok, err := caller.allowed(ctx, p)
				if err != nil {
					return err
				}
				if !ok {
					missing.add(caller.subject(), p.String()+" or, as what is to be granted, "+lacks.String())
				}
			}
			return nil
		})
	}
}

// firstLacking returns the first permission that the subject does not hold.
// All are asked for at once.
func firstLacking(ctx context.Context, r reviewer, ps []permission) (*permission, error) {
	held := make([]bool, len(ps))
	g, ctx := errgroup.WithContext(ctx)
	for i, p := range ps {
		g.Go(func() (err error) {
			held[i], err = r.allowed(ctx, p)
			return err
		})
	}
	err := g.Wait()
	if i := slices.Index(held, false); err == nil && i >= 0 {
		return &ps[i], nil
	}
	return nil, err
}

// checkAccount asks for what the agent does as the existing ServiceAccount. A
// caller who may not ask gets a warning that names what stayed unverified.
func (d *Deployer) checkAccount(ctx context.Context, missing *missingPermissions) error {
	ns := d.config.Namespace
	account := accountReviewer{d: d, namespace: ns, name: d.config.ServiceAccountName}
	needs := append(permissionsOf(namespacedGrants(""), ns), permissionsOf(clusterGrants(), "")...)
	for i := range needs {
		if needs[i].resource == "configmaps" {
			needs[i].name = d.output().Name
		}
	}
	var unverified missingPermissions
	g, ctx := errgroup.WithContext(ctx)
	for _, p := range needs {
		g.Go(func() error {
			err := missing.ask(ctx, account, p)
			if stderrors.Is(err, errors.Unauthorized) {
				unverified.add(account.subject(), p.String())
				return nil
			}
			return err
		})
	}
	err := g.Wait()
	if text := unverified.String(); text != "" {
		d.warn("you may not ask for another subject's permissions, so these stayed unverified: %s", text)
	}
	return err
}

// missingPermissions gathers what is missing. It is safe for concurrent use.
type missingPermissions struct {
	mu    sync.Mutex
	lines []string
}

func (m *missingPermissions) add(subject, what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lines = append(m.lines, subject+": "+what)
}

func (m *missingPermissions) ask(ctx context.Context, r reviewer, p permission) error {
	ok, err := r.allowed(ctx, p)
	if err == nil && !ok {
		m.add(r.subject(), p.String())
	}
	return err
}

func (m *missingPermissions) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	slices.Sort(m.lines)
	return strings.Join(m.lines, "; ")
}

func (m *missingPermissions) err() error {
	text := m.String()
	if text == "" {
		return nil
	}
	return errors.New(errors.Unauthorized, "missing permissions: %s", text).
		WithAdvice("ask an administrator of the cluster to grant them; nothing was changed")
}
