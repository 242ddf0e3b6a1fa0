package agent

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/event"
	"github.com/NVIDIA/aicr/pkg/k8s/configmap"
)

// GetSnapshot returns the snapshot as the agent wrote it, byte for byte.
//
// Errors: NotFound naming the ConfigMap and, where it exists, the missing
// key; Conflict where the run owns the ConfigMap but another Job wrote it.
func (d *Deployer) GetSnapshot(ctx context.Context) (_ []byte, err error) {
	if err := d.config.Validate(); err != nil {
		return nil, err
	}
	defer func() { err = whenOver(ctx, err) }()
	ref := d.output()
	cm, err := d.client.CoreV1().ConfigMaps(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		err := apiError(err, "read the snapshot from ConfigMap %s/%s", ref.Namespace, ref.Name)
		if errors.CodeOf(err) == errors.NotFound {
			return nil, errors.Wrap(errors.NotFound, err, "the agent wrote no snapshot").
				WithAdvice("look at the agent's log with --debug")
		}
		return nil, err
	}
	if err := d.observe(ctx, cm); err != nil {
		return nil, err
	}
	data, err := document(cm)
	if err != nil {
		return nil, err
	}
	d.config.Events.Emit(event.Event{Type: event.Retrieved, Kind: kindConfigMap, Namespace: ref.Namespace, Name: ref.Name})
	return data, nil
}

// observe records a staging ConfigMap that was read, so that Cleanup deletes
// it by its UID, once it is proven to be this run's. A Deployer that deployed
// nothing only reads.
func (d *Deployer) observe(ctx context.Context, cm *corev1.ConfigMap) error {
	if !d.config.OwnsOutputConfigMap || !d.deployed.Load() {
		return nil
	}
	ours, err := d.proven(ctx, cm)
	if err != nil {
		return err
	}
	if !ours {
		return errors.New(errors.Conflict, "ConfigMap %s/%s belongs to another Job", cm.Namespace, cm.Name).
			WithAdvice("run ID %q was used twice: use a new one", d.config.RunID)
	}
	d.own(cm)
	return nil
}

// proven reports whether the Job that this Deployer created wrote the
// ConfigMap: its owner references name that Job or, where an older agent set
// none, that Job is still the live one of its name, so that no other Job's
// agent can have written what was read before.
func (d *Deployer) proven(ctx context.Context, cm *corev1.ConfigMap) (bool, error) {
	job := d.ledger.find(kindJob)
	if job == nil {
		return false, nil
	}
	uid, live := d.ledger.identity(job)
	if !live || len(cm.OwnerReferences) == 0 {
		var err error
		if uid, live, err = d.liveJob(ctx, job); err != nil {
			return false, err
		}
	}
	return live && ownedOnlyBy(cm, uid), nil
}

// own puts the staging ConfigMap into the ledger, pinned to its UID.
func (d *Deployer) own(cm *corev1.ConfigMap) {
	r := newRecord(d.client.CoreV1().ConfigMaps(cm.Namespace), kindConfigMap, cm.Namespace, cm.Name)
	r.confirmed, r.uid = true, cm.UID
	close(r.answered)
	d.ledger.observe(r)
}

// ownedOnlyBy reports whether every owner reference names that Job. An agent
// of an older version sets none.
func ownedOnlyBy(cm *corev1.ConfigMap, job types.UID) bool {
	for _, o := range cm.OwnerReferences {
		if o.UID != job {
			return false
		}
	}
	return true
}

// findStaging looks for a staging ConfigMap that was never read and records it
// if it is proven to be this run's: the Job that this Deployer created is the
// live Job of its name, so that no other invocation's agent can have written
// it, and no owner reference says otherwise.
func (d *Deployer) findStaging(ctx context.Context) error {
	if !d.config.OwnsOutputConfigMap || d.ledger.find(kindConfigMap) != nil {
		return nil
	}
	if d.ledger.find(kindJob) == nil {
		return nil // no Job, no agent
	}
	// The ConfigMap first: the Job proves what was read before it.
	ref := d.output()
	cm, err := d.client.CoreV1().ConfigMaps(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsForbidden(err):
		// Asking again will not help; the owner reference takes it along.
		d.warn("ConfigMap %s/%s could not be looked for (forbidden) and may be left", ref.Namespace, ref.Name)
		return nil
	case err != nil:
		return apiError(err, "look for ConfigMap %s/%s", ref.Namespace, ref.Name)
	}
	ours, err := d.proven(ctx, cm)
	if err != nil {
		return err
	}
	if !ours || cm.UID == "" {
		d.warn("ConfigMap %s/%s is left in place: it is not proven to be this run's", ref.Namespace, ref.Name)
		return nil
	}
	d.own(cm)
	return nil
}

// liveJob returns the UID of the Job at the recorded name, and whether it is
// the one that this Deployer created. A create whose answer was lost is
// confirmed by the Job's labels.
func (d *Deployer) liveJob(ctx context.Context, r *record) (types.UID, bool, error) {
	live, err := r.get(ctx)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err): // asking again will not help: nothing is proven
		return "", false, nil
	case err != nil:
		return "", false, apiError(err, "read %s", r)
	}
	uid, confirmed := d.ledger.identity(r)
	if !confirmed && d.owns(live) {
		uid, confirmed = live.GetUID(), true
		d.ledger.confirm(r, uid)
	}
	return uid, confirmed && live.GetUID() == uid, nil
}

// document returns the snapshot's bytes from the key that the format names.
func document(cm *corev1.ConfigMap) ([]byte, error) {
	format := cm.Data[configmap.KeyFormat]
	if format == "" {
		format = formatYAML
	}
	key := configmap.DocumentKey(strings.TrimSpace(format))
	if s, ok := cm.Data[key]; ok {
		return []byte(s), nil
	}
	if b, ok := cm.BinaryData[key]; ok {
		return b, nil
	}
	return nil, errors.New(errors.NotFound, "ConfigMap %s/%s has no key %q", cm.Namespace, cm.Name, key).
		WithAdvice("it holds no snapshot that this version of aicr can read")
}
