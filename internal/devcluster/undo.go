package devcluster

import (
	"errors"
	"sync"
)

// undo is a stack of steps that take back what was done.
type undo struct {
	mu    sync.Mutex
	steps []func() error
}

// add puts a step on the stack.
func (u *undo) add(step func() error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.steps = append(u.steps, step)
}

// run takes every step back, the last one first, also after one failed, and
// leaves the stack empty: a second call does nothing.
func (u *undo) run() error {
	u.mu.Lock()
	steps := u.steps
	u.steps = nil
	u.mu.Unlock()
	var errs []error
	for i := len(steps) - 1; i >= 0; i-- {
		errs = append(errs, steps[i]())
	}
	return errors.Join(errs...)
}
