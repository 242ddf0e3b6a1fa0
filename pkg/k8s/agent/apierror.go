package agent

import (
	"context"
	stderrors "errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/NVIDIA/aicr/pkg/errors"
)

// apiError wraps what a request ended with: the code follows from the server's
// status or, where no answer came, from the context. A cancelled context keeps
// no code, since nothing failed.
func apiError(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	what := fmt.Sprintf(format, args...)
	if stderrors.Is(err, context.Canceled) {
		return fmt.Errorf("%s: %w", what, err)
	}
	return errors.Wrap(codeOf(err), err, "%s", what)
}

func codeOf(err error) errors.Code {
	var coded *errors.Error
	if stderrors.As(err, &coded) {
		return coded.Code
	}
	switch {
	case apierrors.IsNotFound(err):
		return errors.NotFound
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return errors.Unauthorized
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err):
		return errors.Conflict
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return errors.InvalidRequest
	case stderrors.Is(err, context.DeadlineExceeded):
		return errors.Timeout
	case apierrors.IsTimeout(err), apierrors.IsServerTimeout(err):
		return errors.Timeout
	case apierrors.IsServiceUnavailable(err), apierrors.IsTooManyRequests(err):
		return errors.Unavailable
	}
	var status apierrors.APIStatus
	if stderrors.As(err, &status) {
		return errors.Internal
	}
	// No answer of an API server at all: the network, a proxy, a dead server.
	return errors.Unavailable
}
