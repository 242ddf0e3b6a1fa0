package agent

import (
	"context"
	stderrors "errors"
	"fmt"

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
