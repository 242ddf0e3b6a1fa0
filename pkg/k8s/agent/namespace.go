package agent

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/event"
	"github.com/NVIDIA/aicr/pkg/k8s/labels"
)

// namespaceTries is how often a change of the namespace that others overtook
// is tried.
const namespaceTries = 5

// namespaceState is what the gate saw of the namespace. Not readable: neither
// absent nor object is set, and the run goes on as if the namespace stood.
type namespaceState struct {
	absent bool
	object *corev1.Namespace
}

// readNamespace tells whether the namespace stands. A caller who may not read
// it gets a warning, and a namespace that is being deleted is an error.
func (d *Deployer) readNamespace(ctx context.Context) (namespaceState, error) {
	name := d.config.Namespace
	ns, err := d.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return namespaceState{absent: true}, nil
	case apierrors.IsForbidden(err):
		d.warn("namespace %q could not be read (forbidden): going on as if it exists", name)
		return namespaceState{}, nil
	case err != nil:
		return namespaceState{}, apiError(err, "read namespace %q", name)
	case ns.DeletionTimestamp != nil || ns.Status.Phase == corev1.NamespaceTerminating:
		return namespaceState{}, errors.New(errors.Conflict, "namespace %q is being deleted", name).
			WithAdvice("wait until it is gone, or choose another namespace")
	}
	return namespaceState{object: ns}, nil
}

// ensureNamespace creates an absent namespace and labels one without an owner.
// It never deletes one and never changes another owner's mark.
func (d *Deployer) ensureNamespace(ctx context.Context, seen namespaceState) error {
	for try := 1; seen.absent; try++ {
		_, err := d.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{
				Name:   d.config.Namespace,
				Labels: map[string]string{labels.ManagedBy: labels.AICR},
			},
		}, metav1.CreateOptions{FieldManager: labels.AICR})
		if err == nil {
			d.emitNamespace("created")
			return nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return apiError(err, "create namespace %q", d.config.Namespace)
		}
		if try == namespaceTries {
			return errors.New(errors.Conflict, "namespace %q is created and deleted by others again and again", d.config.Namespace)
		}
		// Somebody was faster, another run for instance.
		if seen, err = d.readNamespace(ctx); err != nil {
			return err
		}
	}
	return d.labelNamespace(ctx, seen)
}

// labelNamespace adds the managed-by label where there is none. The patch is
// pinned to the version that was read: an owner who marks the namespace in the
// meantime keeps it.
func (d *Deployer) labelNamespace(ctx context.Context, seen namespaceState) error {
	for try := 1; seen.object != nil; try++ {
		switch owner, ok := seen.object.Labels[labels.ManagedBy]; {
		case owner == labels.AICR:
			return nil
		case ok:
			d.warn("namespace %q is managed by %q: its label is left alone", d.config.Namespace, owner)
			return nil
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"uid":             seen.object.UID,
			"resourceVersion": seen.object.ResourceVersion,
			"labels":          map[string]string{labels.ManagedBy: labels.AICR},
		}})
		if err != nil {
			return err
		}
		_, err = d.client.CoreV1().Namespaces().Patch(ctx, d.config.Namespace, types.MergePatchType, patch,
			metav1.PatchOptions{FieldManager: labels.AICR})
		switch {
		case err == nil:
			d.emitNamespace("labelled " + labels.ManagedBy + "=" + labels.AICR)
			return nil
		case apierrors.IsForbidden(err):
			d.warn("namespace %q could not be labelled %s=%s (forbidden): going on", d.config.Namespace, labels.ManagedBy, labels.AICR)
			return nil
		case !apierrors.IsConflict(err):
			return apiError(err, "label namespace %q", d.config.Namespace)
		case try == namespaceTries:
			d.warn("namespace %q could not be labelled %s=%s: others change it again and again; going on", d.config.Namespace, labels.ManagedBy, labels.AICR)
			return nil
		}
		if seen, err = d.readNamespace(ctx); err != nil {
			return err
		}
	}
	if seen.absent {
		return errors.New(errors.NotFound, "namespace %q was deleted meanwhile", d.config.Namespace)
	}
	return nil
}

func (d *Deployer) emitNamespace(message string) {
	d.config.Events.Emit(event.Event{Type: event.Namespace, Kind: "Namespace", Name: d.config.Namespace, Message: message})
}
