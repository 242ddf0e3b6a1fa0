package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	stderrors "errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/k8s/agent"
	"github.com/NVIDIA/aicr/pkg/k8s/client"
	"github.com/NVIDIA/aicr/pkg/runid"
)

// addRolesFlag asks for manifests in place of a snapshot.
const addRolesFlag = "add-roles-to-service-account"

// roleManifests writes the RBAC that an existing ServiceAccount needs to be the
// agent's, for a person to read and apply. It contacts no cluster.
type roleManifests struct {
	app     *app
	options agent.ManifestOptions
	runID   string
	files   []agent.Manifest
}

func (m *roleManifests) complete(a *app, o *snapshotOptions) error {
	if o.flags.Changed("output") {
		return errors.New(errors.InvalidRequest, "--output is about a snapshot, and --%s takes none", addRolesFlag).
			WithAdvice("leave one of the two out")
	}
	namespace, err := o.namespace()
	if err != nil {
		return err
	}
	m.app, m.runID = a, cmp.Or(o.runID, runid.Generate())
	m.options = agent.ManifestOptions{Namespace: namespace, ServiceAccountName: o.addRolesTo}
	return nil
}

// namespace returns the one asked for, or that of the kubeconfig's context.
func (o *snapshotOptions) namespace() (string, error) {
	if ns := o.cluster.overrides.Context.Namespace; ns != "" {
		return ns, nil
	}
	_, namespace, err := o.cluster.load()
	if stderrors.Is(err, client.ErrNoCluster) {
		return "", errors.New(errors.InvalidRequest, "there is no kubeconfig to tell the ServiceAccount's namespace").
			WithAdvice("name it with --namespace")
	}
	return namespace, err
}

// validate renders the manifests, which finds what is wrong with the names.
func (m *roleManifests) validate(context.Context) (err error) {
	if err := agent.ValidateRunID(m.runID); err != nil {
		return err
	}
	m.files, err = agent.BuildServiceAccountRoleManifests(m.options)
	return err
}

func (m *roleManifests) run(context.Context) error {
	dir := "snapshot-rbac-" + m.runID
	if err := m.write(dir); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "The RBAC that ServiceAccount %s/%s needs is in ./%s. Nothing was applied.\n\n",
		m.options.Namespace, m.options.ServiceAccountName, dir)
	b.WriteString("Read, for what each file grants and why:\n")
	for _, f := range m.files {
		fmt.Fprintf(&b, "  %s  (%s %s)\n", filepath.Join(dir, f.FileName), f.Kind, f.Name)
	}
	fmt.Fprintf(&b, "Apply:\n  kubectl apply -f ./%s\n", dir)
	fmt.Fprintf(&b, "Use:\n  aicr snapshot -n %s --service-account-name %s\n", m.options.Namespace, m.options.ServiceAccountName)
	fmt.Fprintf(&b, "Revoke:\n  kubectl delete -f ./%s\n", dir)
	_, err := fmt.Fprint(m.app.streams.Out, b.String())
	return err
}

// write makes the folder with all files or not at all: they go into a new
// folder that gets its name last.
func (m *roleManifests) write(dir string) (err error) {
	if _, err := os.Lstat(dir); err == nil {
		return m.inTheWay(dir)
	}
	tmp := "." + dir + "." + rand.Text() + ".tmp"
	if err := os.Mkdir(tmp, 0o755); err != nil {
		return m.unwritable(dir, err)
	}
	defer func() {
		if err != nil {
			// What failed is told; a folder that stays adds nothing to it.
			_ = os.RemoveAll(tmp)
		}
	}()
	for _, f := range m.files {
		if err := os.WriteFile(filepath.Join(tmp, f.FileName), f.Content, 0o644); err != nil {
			return m.unwritable(dir, err)
		}
	}
	err = os.Rename(tmp, dir)
	switch {
	case err == nil:
		return nil
	case stderrors.Is(err, fs.ErrExist):
		return m.inTheWay(dir)
	}
	return m.unwritable(dir, err)
}

func (m *roleManifests) inTheWay(dir string) error {
	return errors.New(errors.Conflict, "./%s exists already and is left as it is", dir).
		WithAdvice("remove it, or leave --run-id out to have a new one generated")
}

func (m *roleManifests) unwritable(dir string, err error) error {
	return errors.Wrap(errors.InvalidRequest, err, "write ./%s", dir).
		WithAdvice("run it in a folder that you may write to")
}
