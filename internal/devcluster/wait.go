package devcluster

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Bounds of the waits for parts that take a few seconds on a quiet machine.
const (
	pollInterval = 25 * time.Millisecond
	startTimeout = 2 * time.Minute
)

// waitFor calls check until it gives nil, the process that it depends on has
// ended, or the time is over; the error then says what check said last.
func waitFor(ctx context.Context, what string, p *process, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if p != nil {
			if ended := p.ended(); ended != nil {
				return fmt.Errorf("wait for %s: %w", what, ended)
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, errors.Join(ctx.Err(), err))
		case <-tick.C:
		}
	}
}
