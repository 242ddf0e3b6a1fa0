package cli

import (
	"context"
	"log/slog"
)

// fromClientGo takes what client-go logs, which would go straight to standard
// error otherwise. Its messages are for those who debug, whatever level it
// gives them; its verbose ones (klog's V, levels below Info) are dropped, since
// they hold whole requests and answers, and with them what is secret.
type fromClientGo struct{ next slog.Handler }

func (f fromClientGo) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelInfo && f.next.Enabled(ctx, slog.LevelDebug)
}

func (f fromClientGo) Handle(ctx context.Context, r slog.Record) error {
	// klog does not ask about errors before it hands them over.
	if !f.Enabled(ctx, r.Level) {
		return nil
	}
	r.Level = slog.LevelDebug
	return f.next.Handle(ctx, r)
}

func (f fromClientGo) WithAttrs(attrs []slog.Attr) slog.Handler {
	return fromClientGo{f.next.WithAttrs(attrs)}
}

func (f fromClientGo) WithGroup(name string) slog.Handler {
	return fromClientGo{f.next.WithGroup(name)}
}
