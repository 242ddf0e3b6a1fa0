package agent

import (
	"context"
	stderrors "errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/event"
	"github.com/NVIDIA/aicr/pkg/k8s/labels"
)

const (
	// cleanupLimit bounds a Cleanup whose caller's context has no deadline, or
	// is over already.
	cleanupLimit = 30 * time.Second
	// answerLimit bounds the wait for the answers to creates in flight.
	answerLimit = 10 * time.Second
)

// CleanupOptions choose what Cleanup does.
type CleanupOptions struct {
	// Enabled false leaves everything in place; the Job's deadline and TTL
	// still end it.
	Enabled bool
}

// Cleanup deletes exactly what this Deployer created, each object pinned to
// its UID. It may be called after any outcome of the other methods, while they
// run, and more than once: what was deleted, or is gone, is not tried again.
// All objects are tried and what failed is told together. What cannot be proven
// to be this Deployer's is left, with a warning that names it. After it, Deploy
// creates nothing more.
//
// The deadline of ctx bounds it, or 30 seconds where there is none or it is
// over. Cancelling ctx does not: an interrupted run still cleans up.
func (d *Deployer) Cleanup(ctx context.Context, opts CleanupOptions) error {
	if !opts.Enabled {
		return nil
	}
	ctx, cancel := cleanupContext(ctx)
	defer cancel()
	d.ledger.close()
	select {
	case d.cleaning <- struct{}{}:
		defer func() { <-d.cleaning }()
	case <-ctx.Done():
		return errors.Wrap(errors.Timeout, ctx.Err(), "wait for another Cleanup of run %q", d.config.RunID)
	}
	answers, enough := context.WithTimeout(ctx, answerLimit)
	d.ledger.await(answers)
	enough()
	// The staging ConfigMap is proven by the live Job, so the look at it comes
	// before the Job's own delete. Where the look itself failed the Job is
	// kept for the next call, or the proof would be gone.
	lookErr := d.findStaging(ctx)
	var deletes []func() error
	for _, r := range d.ledger.list() {
		if r.kind == kindJob && lookErr != nil {
			lookErr = fmt.Errorf("%w (%s is kept until then)", lookErr, r)
			continue
		}
		deletes = append(deletes, func() error { return d.deleteRecord(ctx, r) })
	}
	return stderrors.Join(lookErr, together(deletes...))
}

// cleanupContext returns a context that ends with ctx's deadline, where that is
// still to come, and not when ctx is cancelled.
func cleanupContext(ctx context.Context) (context.Context, context.CancelFunc) {
	free := context.WithoutCancel(ctx)
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) > 0 {
		return context.WithDeadline(free, deadline)
	}
	return context.WithTimeout(free, cleanupLimit)
}

// deleteRecord deletes one object and takes its record out once nothing of
// ours is left at that name, and nothing can come any more.
func (d *Deployer) deleteRecord(ctx context.Context, r *record) error {
	settled := r.settled() // before the look: an answer may come at any time
	uid, confirmed := d.ledger.identity(r)
	settled = settled || confirmed
	if !confirmed {
		live, err := r.get(ctx)
		switch {
		case apierrors.IsNotFound(err):
			if settled && d.ledger.isLost(r) {
				// The record stays, so that another Cleanup looks once more.
				d.warn("%s does not exist, but the answer to its create was lost: should it still appear, delete it (label %s=%s)", r, labels.InvocationID, d.invocationID)
				return nil
			}
			return d.forget(r, settled)
		case err != nil:
			return apiError(err, "read %s, whose creation was never confirmed", r)
		case !d.owns(live):
			d.warn("%s is left in place: its creation was never confirmed, and what stands there does not carry this invocation's labels (%s)", r, d.invocationID)
			return d.forget(r, settled)
		}
		uid = live.GetUID()
	}
	// Background: a Job is deleted at once and its pods right after; without a
	// policy batch/v1 may orphan them.
	opts := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
	if uid != "" {
		opts.Preconditions = metav1.NewUIDPreconditions(string(uid))
	}
	err := r.delete(ctx, opts)
	switch {
	case err == nil:
		d.emit(event.Deleted, r, "")
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // gone, or another object by now
	default:
		return apiError(err, "delete %s", r)
	}
	return d.forget(r, settled)
}

// forget takes a record out. One whose create has no answer yet stays: the
// server may still commit it.
func (d *Deployer) forget(r *record, settled bool) error {
	if !settled {
		return errors.New(errors.Unavailable, "the create of %s is not answered yet, so it may still appear", r).
			WithAdvice("clean up again in a moment")
	}
	d.ledger.remove(r)
	return nil
}
