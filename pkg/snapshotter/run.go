package snapshotter

import (
	"context"
	stderrors "errors"
	"io"
	"log/slog"
	"slices"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/event"
	"github.com/NVIDIA/aicr/pkg/k8s/agent"
)

const (
	// DefaultRunTimeout bounds a run whose RunOptions name no limit.
	DefaultRunTimeout = 5 * time.Minute
	// cleanupTimeout bounds the clean-up, which the run's own limit does not.
	cleanupTimeout = 30 * time.Second
	// cleanupPause is the time between two tries at what could not be deleted.
	cleanupPause = time.Second
	// retrievePause is the time before the second try at the snapshot; it
	// doubles with each up to longestRetrievePause.
	retrievePause        = 200 * time.Millisecond
	longestRetrievePause = 5 * time.Second
)

// RunOptions describe a run: an agent deployed onto a node of a cluster.
type RunOptions struct {
	// Client reaches the cluster. Required.
	Client kubernetes.Interface
	// Agent describes the agent. Its Timeout, Logger and Events are set from
	// these options; an empty Output stages the snapshot for this run alone.
	Agent agent.Config
	// Timeout bounds the run up to the retrieved snapshot. Default
	// DefaultRunTimeout. Cleaning up has a limit of its own.
	Timeout time.Duration
	// NoCleanup leaves the run's objects to the Job's TTL.
	NoCleanup bool
	// LogWriter, if set, gets the agent's log while it runs, each line after
	// "[LogPrefix] " where that is set.
	LogWriter io.Writer
	LogPrefix string
	// Events gets the run's steps. Nil discards them.
	Events event.Sink
	// Log gets warnings. Nil discards them.
	Log *slog.Logger
}

// Result is what a run brought back.
type Result struct {
	// Data is the snapshot as the agent wrote it.
	Data []byte
}

// Run deploys an agent, waits for it, retrieves its snapshot and deletes what
// it created, whatever fails in between. The result comes with an error where
// only cleaning up failed. A cancelled ctx ends the wait and still cleans up.
//
// Errors are those of the agent.Deployer's methods, joined.
func Run(ctx context.Context, o RunOptions) (res *Result, err error) {
	if o.Timeout <= 0 {
		o.Timeout = DefaultRunTimeout
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Agent.Timeout, o.Agent.Logger, o.Agent.Events = o.Timeout, o.Log, o.Events
	d := agent.NewDeployer(o.Client, o.Agent)
	if !o.NoCleanup {
		defer func() { err = stderrors.Join(err, cleanUp(ctx, d)) }()
	}
	runCtx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	if err := d.Deploy(runCtx); err != nil {
		return nil, err
	}
	if o.LogWriter != nil {
		wait := followLogs(runCtx, d, o)
		defer wait()
	}
	if err := d.WaitForCompletion(runCtx, 0); err != nil {
		return nil, err
	}
	data, err := retrieve(runCtx, d)
	if err != nil {
		return nil, err
	}
	return &Result{Data: data}, nil
}

// retrieve reads the snapshot, and again while the API server cannot serve:
// the Job is done, and only the run's time limits what is left.
func retrieve(ctx context.Context, d *agent.Deployer) ([]byte, error) {
	for pause := retrievePause; ; pause = min(pause*2, longestRetrievePause) {
		data, err := d.GetSnapshot(ctx)
		if errors.CodeOf(err) != errors.Unavailable {
			return data, err
		}
		select {
		case <-ctx.Done():
			return nil, stderrors.Join(err, ctx.Err())
		case <-time.After(pause):
		}
	}
}

// followLogs streams the agent's log. The function it returns waits a moment
// for the end of the log.
func followLogs(ctx context.Context, d *agent.Deployer, o RunOptions) (wait func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := d.StreamLogs(ctx, o.LogWriter, o.LogPrefix); err != nil && ctx.Err() == nil {
			o.Log.Warn("the agent's log could not be followed", "err", err)
		}
	}()
	return func() {
		select {
		case <-done:
		case <-time.After(2 * time.Second): // the Job is over: so is the log, or nearly
		}
		cancel()
		<-done
	}
}

// cleanUp deletes what the run created, trying again what failed, within a
// limit that does not depend on ctx, until all that is left is refusals.
func cleanUp(ctx context.Context, d *agent.Deployer) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	for {
		err := d.Cleanup(ctx, agent.CleanupOptions{Enabled: true})
		if !slices.ContainsFunc(errors.Parts(err), mayPass) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(cleanupPause):
		}
	}
}

// mayPass reports whether a failed deletion is worth another try.
func mayPass(err error) bool {
	code := errors.CodeOf(err)
	return code != errors.Unauthorized && code != errors.InvalidRequest
}
