package ui

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/NVIDIA/aicr/pkg/event"
)

func TestPlainLineHasElapsedTimeStepAndObject(t *testing.T) {
	start := time.Date(2026, 8, 21, 14, 22, 33, 0, time.UTC)
	var b bytes.Buffer
	sink := plainEvents(&b, "", start)
	for _, e := range []event.Event{
		{Time: start.Add(50 * time.Millisecond), Type: event.Gate, Namespace: "ns", Message: "permissions hold"},
		{Time: start.Add(1240 * time.Millisecond), Type: event.Created, Kind: "Job", Namespace: "ns", Name: "aicr-1"},
		{Time: start.Add(61 * time.Second), Type: event.Completed, Kind: "Pod", Name: "aicr-1-x", Message: "on\nnode-1"},
	} {
		sink.Emit(e)
	}
	want := "   0.1s  gate       permissions hold\n" +
		"   1.2s  created    Job aicr-1\n" +
		"  61.0s  completed  Pod aicr-1-x: on node-1\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}

func TestPlainLogIsOneLineForPeople(t *testing.T) {
	log := func(o Options, f func(*slog.Logger)) string {
		var b bytes.Buffer
		f(New(&b, o).Log)
		return b.String()
	}
	tests := map[string]struct {
		o    Options
		f    func(*slog.Logger)
		want string
	}{
		"warning":      {Options{}, func(l *slog.Logger) { l.Warn("odd", "n", 1) }, "warning: odd n=1\n"},
		"error":        {Options{}, func(l *slog.Logger) { l.Error("bad", "err", errors.New("a b")) }, "error: bad err=\"a b\"\n"},
		"info":         {Options{}, func(l *slog.Logger) { l.Info("x"); l.Debug("y") }, "x\n"},
		"debug asked":  {Options{Debug: true}, func(l *slog.Logger) { l.Debug("x"); l.Info("y") }, "debug: x\ny\n"},
		"prefix":       {Options{Prefix: "agent"}, func(l *slog.Logger) { l.Warn("x") }, "agent: warning: x\n"},
		"with":         {Options{}, func(l *slog.Logger) { l.With("run", "r").Warn("x", "e", "") }, "warning: x run=r e=\"\"\n"},
		"group":        {Options{}, func(l *slog.Logger) { l.WithGroup("g").With("a", 1).Warn("x", slog.Group("h", "b", 2)) }, "warning: x g.a=1 g.h.b=2\n"},
		"control text": {Options{}, func(l *slog.Logger) { l.Warn("x", "v", "a\x1b[31m") }, "warning: x v=\"a\\x1b[31m\"\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, log(tt.o, tt.f)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestJSONLinesHaveOneShapeForStepsAndMessages(t *testing.T) {
	var b bytes.Buffer
	u := New(&b, Options{JSON: true, Prefix: "agent"})
	u.Events.Emit(event.Event{Type: event.Created, Kind: "Job", Namespace: "ns", Name: "n"})
	u.Events.Emit(event.Event{Type: event.Gate, Message: "fine"})
	u.Log.Warn("odd", "k", "v")
	u.Log.Debug("not shown")

	var got []map[string]any
	for line := range strings.Lines(b.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if m["time"] == nil {
			t.Errorf("no time in %s", line)
		}
		delete(m, "time")
		got = append(got, m)
	}
	want := []map[string]any{
		{"level": "INFO", "source": "agent", "msg": "created", "event": "created", "kind": "Job", "namespace": "ns", "name": "n"},
		{"level": "INFO", "source": "agent", "msg": "fine", "event": "gate"},
		{"level": "WARN", "source": "agent", "msg": "odd", "k": "v"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The Deployer emits a warning and logs it too.
func TestWarningIsToldOnce(t *testing.T) {
	for _, o := range []Options{{}, {JSON: true}} {
		var b bytes.Buffer
		u := New(&b, o)
		u.Events.Emit(event.Event{Type: event.Warning, Message: "odd"})
		u.Log.Warn("odd")
		if n := strings.Count(b.String(), "\n"); n != 1 {
			t.Errorf("%+v: %d lines: %s", o, n, b.String())
		}
	}
}

func TestLinesOfSeveralSourcesAreNotCut(t *testing.T) {
	var b bytes.Buffer
	u := New(&b, Options{})
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() { u.Log.Warn("message") })
		wg.Go(func() { u.Events.Emit(event.Event{Type: event.Created, Kind: "Job"}) })
		wg.Go(func() { _, _ = fmt.Fprintf(u.Lines(), "agent line %d\n", i) })
	}
	wg.Wait()
	for line := range strings.Lines(b.String()) {
		if !strings.HasPrefix(line, "warning: message\n") && !strings.HasPrefix(line, "agent line ") && !strings.HasSuffix(line, "s  created    Job\n") {
			t.Errorf("cut line %q", line)
		}
	}
}
