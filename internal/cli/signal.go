package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// signalled is the cause of a context that a signal ended.
type signalled struct{ os.Signal }

func (s signalled) Error() string { return "got the signal " + s.String() }

// signalIn returns the signal that ended a context, or that an error is.
func signalIn(err error) (s signalled, ok bool) {
	ok = errors.As(err, &s)
	return s, ok
}

// exitStatus is the shell's convention: 130 for SIGINT, 143 for SIGTERM.
func (s signalled) exitStatus() int {
	if n, ok := s.Signal.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return 1
}

// tellSignal says when a signal ends ctx that the run, which cleans up by
// itself, goes on for a moment. The caller calls stop when the run is over.
func (a *app) tellSignal(ctx context.Context) (stop func()) {
	told := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(told)
		if s, ok := signalIn(context.Cause(ctx)); ok {
			a.ui.Log.Warn(s.Error() + "; cleaning up (once more ends this at once and leaves what is there)")
		}
	})
	return func() {
		if !cancel() {
			<-told
		}
	}
}

// untilSignal returns a context that SIGINT or SIGTERM ends, so that a run
// cleans up. A second signal has its usual effect and ends the process at once.
// The caller calls stop when done.
func (a *app) untilSignal(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	got := make(chan os.Signal, 1)
	signal.Notify(got, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case s := <-got:
			signal.Stop(got)
			cancel(signalled{s})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(got)
		cancel(nil)
	}
}
