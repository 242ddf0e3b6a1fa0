package ui

import (
	"io"
	"log/slog"

	"github.com/NVIDIA/aicr/pkg/event"
)

func jsonLog(w io.Writer, o Options) *slog.Logger {
	log := slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level(o)}))
	if o.Prefix != "" {
		log = log.With("source", o.Prefix)
	}
	return log
}

// jsonEvents writes a step as a message with the step's name as "event", so
// that all lines have one shape.
func jsonEvents(log *slog.Logger) event.Sink {
	return func(e event.Event) {
		attrs := []any{"event", e.Type}
		for _, a := range []struct{ key, value string }{{"kind", e.Kind}, {"namespace", e.Namespace}, {"name", e.Name}} {
			if a.value != "" {
				attrs = append(attrs, a.key, a.value)
			}
		}
		msg := e.Message
		if msg == "" {
			msg = string(e.Type)
		}
		log.Info(msg, attrs...)
	}
}
