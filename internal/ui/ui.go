// Package ui tells a person, or a program that reads lines, what a run does.
//
// Everything goes to one writer, the process' standard error, line by line:
// the run's steps, log messages and the agent's log do not cut into each
// other. There are two ways to write: plain lines for people, and JSON lines,
// each an object with time, level and msg. A live view for terminals is a
// third that would be made here and change nothing elsewhere.
package ui

import (
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/NVIDIA/aicr/pkg/event"
)

// Options tell New how to write.
type Options struct {
	// JSON writes JSON lines instead of plain ones.
	JSON bool
	// Debug shows debug messages.
	Debug bool
	// Prefix opens every plain line and is the attribute "source" of every
	// JSON line; empty for none.
	Prefix string
}

// UI writes what a run tells. It is safe for concurrent use.
type UI struct {
	// Log takes messages; debug messages show where Options.Debug is set.
	Log *slog.Logger
	// Events takes a run's steps. Warnings among them are passed over: whoever
	// emits one logs it too.
	Events event.Sink

	out *lines
}

// New returns a UI that writes to w. Elapsed times count from now.
func New(w io.Writer, o Options) *UI {
	u := &UI{out: &lines{w: w}}
	if o.JSON {
		u.Log = jsonLog(u.out, o)
		u.Events = skipWarnings(jsonEvents(u.Log))
		return u
	}
	u.Log = slog.New(&plainHandler{out: u.out, prefix: prefix(o), level: level(o)})
	u.Events = skipWarnings(plainEvents(u.out, prefix(o), time.Now()))
	return u
}

// Lines returns a writer for text that comes line by line, such as the agent's
// log. Each write should end with a newline.
func (u *UI) Lines() io.Writer { return u.out }

func skipWarnings(next event.Sink) event.Sink {
	return func(e event.Event) {
		if e.Type != event.Warning {
			next(e)
		}
	}
}

func prefix(o Options) string {
	if o.Prefix == "" {
		return ""
	}
	return o.Prefix + ": "
}

func level(o Options) slog.Level {
	if o.Debug {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// lines keeps writes of several goroutines apart.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}
