package agent

import (
	"context"
	stderrors "errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/event"
)

const (
	// diagnosisLimit bounds the look at what a run that ran out of time was
	// waiting for.
	diagnosisLimit = 5 * time.Second
	// logTail is how many of a failed agent's last lines an error shows.
	logTail = 20
)

// WaitForCompletion waits until the Job is complete, at most for timeout; 0
// leaves the limit to ctx. A Job that is complete already returns at once.
//
// Errors: Internal for a failed Job, with its reason, the exit code and the
// agent's last lines; NotFound when the Job is gone or was never created;
// Timeout, also when ctx ran out of time, telling what the pod was waiting
// for. A cancelled ctx returns its error without a code.
func (d *Deployer) WaitForCompletion(ctx context.Context, timeout time.Duration) error {
	uid, err := d.jobUID()
	if err != nil {
		return err
	}
	limited, cancel := withTimeout(ctx, timeout)
	defer cancel()
	err = d.untilJobDone(limited, uid)
	if err == nil {
		d.config.Events.Emit(event.Event{Type: event.Completed, Kind: kindJob, Namespace: d.config.Namespace, Name: d.names.job})
	}
	return d.describe(ctx, uid, err, fmt.Sprintf("Job %s/%s did not complete", d.config.Namespace, d.names.job))
}

// untilJobDone waits for the Job to complete. A Job that fails is a jobFailure.
func (d *Deployer) untilJobDone(ctx context.Context, uid types.UID) error {
	return d.until(ctx, d.jobWatch(), &batchv1.Job{}, func(e watch.Event) (bool, error) {
		job, ok := e.Object.(*batchv1.Job)
		if !ok || job.Name != d.names.job {
			return false, nil
		}
		if e.Type == watch.Deleted || job.UID != uid {
			return false, d.jobGone()
		}
		return jobDone(job)
	})
}

// WaitForPodReady waits until the Job's pod is ready, or has already succeeded,
// at most for timeout; 0 leaves the limit to ctx. Errors are as those of
// WaitForCompletion.
func (d *Deployer) WaitForPodReady(ctx context.Context, timeout time.Duration) error {
	return d.waitForPod(ctx, timeout, "become ready", func(pod *corev1.Pod) (bool, error) {
		switch pod.Status.Phase {
		case corev1.PodSucceeded:
			return true, nil
		case corev1.PodFailed:
			return false, &jobFailure{reason: pod.Status.Reason, message: pod.Status.Message}
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady {
				return c.Status == corev1.ConditionTrue, nil
			}
		}
		return false, nil
	})
}

// waitForPod waits until a condition holds for the Job's pod. The Job is
// watched beside it: one that fails or goes may never have had a pod.
func (d *Deployer) waitForPod(ctx context.Context, timeout time.Duration, what string, condition func(*corev1.Pod) (bool, error)) error {
	uid, err := d.jobUID()
	if err != nil {
		return err
	}
	limited, cancel := withTimeout(ctx, timeout)
	defer cancel()
	g, both := errgroup.WithContext(limited)
	jobOnly, podReached := context.WithCancel(both)
	defer podReached()
	g.Go(func() error {
		err := d.untilJobDone(jobOnly, uid)
		if err != nil && jobOnly.Err() != nil && both.Err() == nil {
			return nil // the pod was faster
		}
		return err // a Job that is complete says nothing of what is asked
	})
	g.Go(func() error {
		defer podReached()
		return d.until(both, d.podWatch(), &corev1.Pod{}, func(e watch.Event) (bool, error) {
			pod, ok := e.Object.(*corev1.Pod)
			if !ok || !controlledBy(pod, uid) {
				return false, nil
			}
			if e.Type == watch.Deleted {
				return false, errors.New(errors.NotFound, "pod %s/%s was deleted", pod.Namespace, pod.Name)
			}
			return condition(pod)
		})
	})
	return d.describe(ctx, uid, g.Wait(), fmt.Sprintf("the pod of Job %s/%s did not %s", d.config.Namespace, d.names.job, what))
}

func withTimeout(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout > 0 {
		return context.WithTimeout(ctx, timeout)
	}
	return context.WithCancel(ctx)
}

// describe adds to the error of a wait what the cluster tells of its cause.
func (d *Deployer) describe(ctx context.Context, job types.UID, err error, what string) error {
	var failed *jobFailure
	switch {
	case stderrors.As(err, &failed):
		return d.describeFailure(ctx, job, failed)
	case stderrors.Is(err, context.DeadlineExceeded):
		return d.describeTimeout(ctx, job, what)
	}
	return err
}

// until runs a watch that survives a closed connection, an expired resource
// version and a server that restarts, until the condition holds. An answer
// that no waiting will change (forbidden) ends it.
func (d *Deployer) until(ctx context.Context, lw *cache.ListWatch, kind runtime.Object, condition watchtools.ConditionFunc) error {
	caller := ctx
	ctx, refuse := context.WithCancelCause(ctx)
	defer refuse(nil)
	final := func(err error) {
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			refuse(apiError(err, "watch Job %s/%s", d.config.Namespace, d.names.job))
		}
	}
	list, start := lw.ListWithContextFunc, lw.WatchFuncWithContext
	watched := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			l, err := list(ctx, o)
			final(err)
			return l, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := start(ctx, o)
			final(err)
			return w, err
		},
	}
	precondition := func(store cache.Store) (bool, error) {
		if _, isJob := kind.(*batchv1.Job); isJob && len(store.ListKeys()) == 0 {
			return false, d.jobGone()
		}
		return false, nil
	}
	_, err := watchtools.UntilWithSync(ctx, cache.ToListWatcherWithWatchListSemantics(watched, d.client), kind, precondition, condition)
	switch {
	case err == nil || ctx.Err() == nil:
		return err
	case caller.Err() != nil:
		return endOf(caller)
	}
	return context.Cause(ctx) // refused
}

func (d *Deployer) jobWatch() *cache.ListWatch {
	jobs := d.client.BatchV1().Jobs(d.config.Namespace)
	byName := fields.OneTermEqualSelector(metav1.ObjectNameField, d.names.job).String()
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = byName
			return jobs.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = byName
			return jobs.Watch(ctx, o)
		},
	}
}

func (d *Deployer) podWatch() *cache.ListWatch {
	pods := d.client.CoreV1().Pods(d.config.Namespace)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = d.podSelector()
			return pods.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = d.podSelector()
			return pods.Watch(ctx, o)
		},
	}
}

func (d *Deployer) jobGone() error {
	return errors.New(errors.NotFound, "Job %s/%s was deleted while the run waited for it", d.config.Namespace, d.names.job).
		WithAdvice("somebody or something else deleted it: look for policies that remove Jobs, and start again")
}

// jobFailure is a Job that will not complete any more.
type jobFailure struct{ reason, message string }

func (f *jobFailure) Error() string { return reasoned(f.reason, f.message) }

func jobDone(job *batchv1.Job) (bool, error) {
	for _, c := range job.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobComplete:
			return true, nil
		case batchv1.JobFailed:
			return false, &jobFailure{reason: c.Reason, message: c.Message}
		}
	}
	return false, nil
}

// describeFailure adds the agent's exit code and last lines. It looks with a
// limit of its own, since the caller's time may be over.
func (d *Deployer) describeFailure(ctx context.Context, job types.UID, failed *jobFailure) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), diagnosisLimit)
	defer cancel()
	what := fmt.Sprintf("Job %s/%s failed", d.config.Namespace, d.names.job)
	pod, err := d.pod(ctx, job)
	if err == nil && pod != nil {
		if s := agentStatus(pod); s != nil && s.State.Terminated != nil {
			what += fmt.Sprintf(": the agent ended with exit code %d (%s)", s.State.Terminated.ExitCode, s.State.Terminated.Reason)
		}
		if lines := d.lastLines(ctx, pod); lines != "" {
			return errors.New(errors.Internal, "%s: %v; its last lines:\n%s", what, failed, lines)
		}
	}
	return errors.New(errors.Internal, "%s: %v", what, failed)
}

// describeTimeout tells what the pod was waiting for when time ran out.
func (d *Deployer) describeTimeout(ctx context.Context, job types.UID, what string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), diagnosisLimit)
	defer cancel()
	pod, err := d.pod(ctx, job)
	var why string
	switch {
	case err != nil:
		why = "its pod could not be read: " + err.Error()
	case pod == nil:
		why = "it has no pod yet" + d.jobEvents(ctx, job)
	default:
		why = waitingFor(pod)
	}
	return errors.New(errors.Timeout, "%s in time: %s", what, why).
		WithAdvice("allow more time with --timeout, or remove what the pod waits for")
}

// jobEvents returns the newest message about the Job, which tells of refusals
// (quota, admission) that exist nowhere else.
func (d *Deployer) jobEvents(ctx context.Context, job types.UID) string {
	list, err := d.client.CoreV1().Events(d.config.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("involvedObject.uid", string(job)).String(),
	})
	if err != nil || len(list.Items) == 0 {
		return ""
	}
	last := slices.MaxFunc(list.Items, func(a, b corev1.Event) int { return a.LastTimestamp.Compare(b.LastTimestamp.Time) })
	return ": " + reasoned(last.Reason, last.Message)
}
