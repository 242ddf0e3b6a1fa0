package agent

import (
	"context"
	stderrors "errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/NVIDIA/aicr/pkg/event"
)

// cleanupLimit bounds a Cleanup whose caller's context is already over.
const cleanupLimit = 30 * time.Second

// CleanupOptions choose what Cleanup does.
type CleanupOptions struct {
	// Enabled false leaves everything in place; the Job's deadline and TTL
	// still end it.
	Enabled bool
}

// Cleanup deletes exactly what this Deployer created, each object pinned to
// its UID. It may be called after any outcome of the other methods, and more
// than once: what was deleted, or is gone, is not tried again. All objects are
// tried and what failed is told together. What cannot be proven to be this
// Deployer's is left, with a warning that names it.
//
// A context that is already over is replaced by one of 30 seconds, so that an
// interrupted run still cleans up.
func (d *Deployer) Cleanup(ctx context.Context, opts CleanupOptions) error {
	if !opts.Enabled {
		return nil
	}
	d.cleanupMu.Lock()
	defer d.cleanupMu.Unlock()
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), cleanupLimit)
		defer cancel()
	}
	// The staging ConfigMap is proven by the live Job, so the look at it comes
	// before the Job's own delete. Where the look itself failed the Job is
	// kept for the next call, or the proof would be gone.
	lookErr := d.findStaging(ctx)
	errs := []error{lookErr}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, r := range d.ledger.list() {
		if r.kind == kindJob && lookErr != nil {
			continue
		}
		wg.Go(func() {
			if err := d.deleteRecord(ctx, r); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	wg.Wait()
	return stderrors.Join(errs...)
}

// deleteRecord deletes one object and takes its record out once nothing of
// ours is left at that name.
func (d *Deployer) deleteRecord(ctx context.Context, r *record) error {
	uid, confirmed := d.ledger.identity(r)
	if !confirmed {
		live, err := r.get(ctx)
		if apierrors.IsNotFound(err) {
			d.ledger.remove(r)
			return nil
		}
		if err != nil {
			return apiError(err, "read %s, whose creation was never confirmed", r)
		}
		if !d.owns(live) {
			d.warn("%s is left in place: its creation was never confirmed, and what stands there does not carry this invocation's labels (%s)", r, d.invocationID)
			d.ledger.remove(r)
			return nil
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
	d.ledger.remove(r)
	return nil
}
