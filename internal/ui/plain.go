package ui

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/NVIDIA/aicr/pkg/event"
)

// plainEvents writes "   1.2s  created    Job name: message".
func plainEvents(w io.Writer, prefix string, start time.Time) event.Sink {
	return func(e event.Event) {
		_, _ = fmt.Fprintf(w, "%s%6.1fs  %-9s  %s\n", prefix, e.Time.Sub(start).Seconds(), e.Type, describe(e))
	}
}

func describe(e event.Event) string {
	object := strings.TrimSpace(e.Kind + " " + e.Name)
	message := strings.ReplaceAll(e.Message, "\n", " ")
	if object != "" && message != "" {
		return object + ": " + message
	}
	return object + message
}

// plainHandler writes "warning: message key=value".
type plainHandler struct {
	out    io.Writer
	prefix string
	level  slog.Level
	group  string // of the attributes to come, with a dot at its end
	attrs  string // rendered, each with a space before it
}

func (h *plainHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }

func (h *plainHandler) Handle(_ context.Context, r slog.Record) error {
	var b bytes.Buffer
	b.WriteString(h.prefix)
	switch {
	case r.Level >= slog.LevelError:
		b.WriteString("error: ")
	case r.Level >= slog.LevelWarn:
		b.WriteString("warning: ")
	case r.Level < slog.LevelInfo:
		b.WriteString("debug: ")
	}
	b.WriteString(r.Message)
	b.WriteString(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		b.WriteString(render(h.group, a))
		return true
	})
	b.WriteByte('\n')
	_, err := h.out.Write(b.Bytes())
	return err
}

func (h *plainHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	for _, a := range attrs {
		c.attrs += render(h.group, a)
	}
	return &c
}

func (h *plainHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	c := *h
	c.group += name + "."
	return &c
}

// render returns " key=value", quoted where it has to be; a group becomes its
// attributes.
func render(group string, a slog.Attr) string {
	v := a.Value.Resolve()
	switch {
	case v.Kind() == slog.KindGroup:
		if a.Key != "" {
			group += a.Key + "."
		}
		var b strings.Builder
		for _, a := range v.Group() {
			b.WriteString(render(group, a))
		}
		return b.String()
	case a.Key == "":
		return ""
	}
	text := v.String()
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == '"' || r == '=' || !strconv.IsPrint(r) }) {
		text = strconv.Quote(text)
	}
	return " " + group + a.Key + "=" + text
}
