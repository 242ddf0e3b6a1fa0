package agent

import (
	"context"
	stderrors "errors"
	"fmt"

	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/k8s/apierror"
)

// apiError tells what a request was to do that ended with err. A cancelled
// context keeps no code, since nothing failed.
func apiError(err error, format string, args ...any) error {
	switch {
	case err == nil:
		return nil
	case stderrors.Is(err, context.Canceled):
		return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
	}
	return apierror.Wrap(err, format, args...)
}

// whenOver makes of a request's error what it is where ctx ended it. A context
// with a cause of its own hands that to the transport, which knows nothing of
// cancellation then and speaks of a server that cannot be reached.
func whenOver(ctx context.Context, err error) error {
	over := ctx.Err()
	switch {
	case err == nil, over == nil, stderrors.Is(err, over):
		return err
	case errors.CodeOf(err) != errors.Unavailable && !stderrors.Is(err, context.Cause(ctx)):
		return err // another answer than the end of ctx
	case stderrors.Is(over, context.DeadlineExceeded):
		return errors.Wrap(errors.Timeout, err, "the time is over")
	}
	return fmt.Errorf("%s: %w", err.Error(), endOf(ctx))
}

// endOf returns why ctx is over: its error, and its cause where that is
// another.
func endOf(ctx context.Context) error {
	over, cause := ctx.Err(), context.Cause(ctx)
	if stderrors.Is(cause, over) {
		return cause
	}
	return fmt.Errorf("%w: %w", over, cause)
}
