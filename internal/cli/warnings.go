package cli

import (
	"context"
	"log/slog"
)

// apiWarnings logs the warnings that an API server sends along with its
// answers. client-go would write them to standard error itself.
type apiWarnings struct{ log *slog.Logger }

// warnCode is the only code of a warning that Kubernetes sends.
const warnCode = 299

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (w apiWarnings) HandleWarningHeaderWithContext(ctx context.Context, code int, _ string, text string) {
	if code == warnCode && text != "" {
		w.log.WarnContext(ctx, "the API server says: "+text)
	}
}
