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
	if err := d.observe(cm); err != nil {
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
// it by its UID. Only a Deployer that has created the Job may own it.
func (d *Deployer) observe(cm *corev1.ConfigMap) error {
	if !d.config.OwnsOutputConfigMap {
		return nil
	}
	job := d.ledger.find(kindJob)
	if job == nil {
		return nil
	}
	uid, confirmed := d.ledger.identity(job)
	if !confirmed {
		return nil // the live Job is the proof then, and Cleanup looks at it
	}
	if !ownedOnlyBy(cm, uid) {
		return errors.New(errors.Conflict, "ConfigMap %s/%s belongs to another Job", cm.Namespace, cm.Name).
			WithAdvice("run ID %q was used twice: use a new one", d.config.RunID)
	}
	d.own(cm)
	return nil
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
	r := d.ledger.find(kindJob)
	if r == nil {
		return nil // no Job, no agent
	}
	jobUID, err := d.liveJob(ctx, r)
	if err != nil {
		return err
	}
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
	case jobUID == "" || cm.UID == "" || !ownedOnlyBy(cm, jobUID):
		d.warn("ConfigMap %s/%s is left in place: it is not proven to be this run's", ref.Namespace, ref.Name)
		return nil
	}
	d.own(cm)
	return nil
}

// liveJob returns the UID of the Job at the recorded name if this Deployer
// created it, and "" otherwise. A create whose answer was lost is confirmed by
// the Job's labels.
func (d *Deployer) liveJob(ctx context.Context, r *record) (types.UID, error) {
	live, err := r.get(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case apierrors.IsForbidden(err):
		return "", nil // asking again will not help: nothing is proven
	case err != nil:
		return "", apiError(err, "read %s", r)
	}
	uid, confirmed := d.ledger.identity(r)
	switch {
	case !confirmed && d.owns(live):
		d.ledger.confirm(r, live.GetUID())
		return live.GetUID(), nil
	case confirmed && live.GetUID() == uid:
		return uid, nil
	}
	return "", nil
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
