package collector

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/NVIDIA/aicr/pkg/measurement"
)

// grace is how much longer than its limit a collector is waited for, so that
// one which honours its context can hand over what it has.
const grace = 500 * time.Millisecond

// Entry is a collector and the time it may take.
type Entry struct {
	Collector Collector
	// Limit ends the collector's context; it must be positive.
	Limit time.Duration
}

// Run runs all collectors at once and returns, within the longest limit and
// half a second, what they read and how each fared, sorted by type and name.
//
// What fails, panics or does not answer costs only itself: it ends as failed,
// with the reason. A collector that outlives its limit is left behind, and
// whatever it returns later goes nowhere. When ctx ends, all are told so.
// log may be nil.
func Run(ctx context.Context, entries []Entry, log *slog.Logger) ([]measurement.Measurement, []measurement.CollectorStatus) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	results := make([]Result, len(entries))
	var wg sync.WaitGroup
	for i, e := range entries {
		wg.Go(func() {
			results[i] = runOne(ctx, e, log)
			s := results[i].Status
			log.Debug("collected", "collector", s.Name, "state", s.State, "reason", s.Reason, "ms", s.DurationMS)
		})
	}
	wg.Wait()
	return merge(results)
}

func runOne(parent context.Context, e Entry, log *slog.Logger) Result {
	start := time.Now()
	ctx, cancel := context.WithTimeout(parent, e.Limit)
	defer cancel()

	// The buffer lets a collector that answers too late end.
	answer := make(chan Result, 1)
	go func() { answer <- collect(ctx, e.Collector, log) }()

	var r Result
	select {
	case r = <-answer:
	case <-ctx.Done():
		late := time.NewTimer(grace)
		defer late.Stop()
		select {
		case r = <-answer:
		case <-late.C:
			r = unanswered(parent, e.Limit)
		}
	}
	r.Status.Name = e.Collector.Name()
	r.Status.DurationMS = time.Since(start).Milliseconds()
	return r
}

func unanswered(parent context.Context, limit time.Duration) Result {
	if err := parent.Err(); err != nil {
		return failed(fmt.Sprintf("no answer before the run ended: %v", err))
	}
	return failed(fmt.Sprintf("no answer within %v", limit))
}

func failed(reason string) Result {
	return Result{Status: measurement.CollectorStatus{State: measurement.StateFailed, Reason: oneLine(reason)}}
}

func collect(ctx context.Context, c Collector, log *slog.Logger) (r Result) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("a collector panicked", "collector", c.Name(), "panic", p, "stack", string(debug.Stack()))
			r = failed(fmt.Sprintf("panicked: %v", p))
		}
	}()
	return c.Collect(ctx)
}

// merge joins measurements of one type, which several collectors may add to.
func merge(results []Result) ([]measurement.Measurement, []measurement.CollectorStatus) {
	subtypes := map[measurement.Type][]measurement.Subtype{}
	statuses := make([]measurement.CollectorStatus, 0, len(results))
	for _, r := range results {
		statuses = append(statuses, r.Status)
		for _, m := range r.Measurements {
			subtypes[m.Type] = append(subtypes[m.Type], m.Subtypes...)
		}
	}
	measurements := make([]measurement.Measurement, 0, len(subtypes))
	for t, s := range subtypes {
		slices.SortStableFunc(s, func(a, b measurement.Subtype) int { return cmp.Compare(a.Name, b.Name) })
		measurements = append(measurements, measurement.Measurement{Type: t, Subtypes: s})
	}
	slices.SortFunc(measurements, func(a, b measurement.Measurement) int { return cmp.Compare(a.Type, b.Type) })
	slices.SortStableFunc(statuses, func(a, b measurement.CollectorStatus) int { return cmp.Compare(a.Name, b.Name) })
	return measurements, statuses
}
