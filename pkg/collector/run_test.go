package collector_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/NVIDIA/aicr/pkg/collector"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

type fake struct {
	name    string
	collect func(context.Context) collector.Result
}

func (f fake) Name() string                                 { return f.name }
func (f fake) Collect(ctx context.Context) collector.Result { return f.collect(ctx) }

func found(t measurement.Type, subtype string) collector.Result {
	var f collector.Findings
	f.Add(measurement.Subtype{Name: subtype, Data: map[string]measurement.Reading{"v": measurement.Int(1)}})
	return f.Result(t)
}

func subtypes(name string) []measurement.SubtypeStatus {
	return []measurement.SubtypeStatus{{Name: name, State: measurement.StateOK}}
}

func after(d time.Duration, r collector.Result) func(context.Context) collector.Result {
	return func(context.Context) collector.Result {
		<-time.After(d) // a bubble's time
		return r
	}
}

func entries(limit time.Duration, fakes ...fake) []collector.Entry {
	var out []collector.Entry
	for _, f := range fakes {
		out = append(out, collector.Entry{Collector: f, Limit: limit})
	}
	return out
}

func TestRunRunsAllAtOnceAndSorts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ms, statuses := collector.Run(t.Context(), entries(10*time.Second,
			fake{"z", after(3*time.Second, found("B", "two"))},
			fake{"a", after(2*time.Second, found("B", "one"))},
			fake{"m", after(time.Second, found("A", "x"))},
		), nil)
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("took %v", d)
		}
		one := map[string]measurement.Reading{"v": measurement.Int(1)}
		want := []measurement.Measurement{
			{Type: "A", Subtypes: []measurement.Subtype{{Name: "x", Data: one}}},
			{Type: "B", Subtypes: []measurement.Subtype{{Name: "one", Data: one}, {Name: "two", Data: one}}},
		}
		if diff := cmp.Diff(want, ms); diff != "" {
			t.Error(diff)
		}
		wantStatus := []measurement.CollectorStatus{
			{Name: "a", State: measurement.StateOK, Subtypes: subtypes("one"), DurationMS: 2000},
			{Name: "m", State: measurement.StateOK, Subtypes: subtypes("x"), DurationMS: 1000},
			{Name: "z", State: measurement.StateOK, Subtypes: subtypes("two"), DurationMS: 3000},
		}
		if diff := cmp.Diff(wantStatus, statuses); diff != "" {
			t.Error(diff)
		}
	})
}

func TestRunLeavesBehindWhatHangsOrPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := make(chan struct{})
		shared := map[string]measurement.Reading{}
		ms, statuses := collector.Run(t.Context(), entries(10*time.Second,
			fake{"good", after(time.Second, found("A", "x"))},
			fake{"hangs", func(context.Context) collector.Result {
				<-late
				shared["late"] = measurement.Int(1) // the race detector watches
				return collector.Result{Measurements: []measurement.Measurement{{Type: "A", Subtypes: []measurement.Subtype{{Data: shared}}}}}
			}},
			fake{"panics", func(context.Context) collector.Result { panic("boom\nat once") }},
		), nil)
		want := []measurement.CollectorStatus{
			{Name: "good", State: measurement.StateOK, Subtypes: subtypes("x"), DurationMS: 1000},
			{Name: "hangs", State: measurement.StateFailed, Reason: "no answer within 10s", DurationMS: 10500},
			{Name: "panics", State: measurement.StateFailed, Reason: "panicked: boom at once"},
		}
		if diff := cmp.Diff(want, statuses); diff != "" {
			t.Error(diff)
		}
		close(late)
		synctest.Wait()
		if len(ms) != 1 || len(ms[0].Subtypes) != 1 {
			t.Errorf("measurements: %v", ms)
		}
	})
}

func TestRunTakesWhatACollectorHandsOverAtItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ms, statuses := collector.Run(t.Context(), entries(time.Second, fake{"slow", func(ctx context.Context) collector.Result {
			<-ctx.Done()
			var f collector.Findings
			f.Add(measurement.Subtype{Name: "part"})
			f.Unread("rest", "no time")
			return f.Result("A")
		}}), nil)
		if len(ms) != 1 || statuses[0].State != measurement.StatePartial || statuses[0].DurationMS != 1000 {
			t.Errorf("%v, %+v", ms, statuses)
		}
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		release := make(chan struct{})
		defer close(release)
		_, statuses := collector.Run(ctx, entries(time.Minute, fake{"hangs", func(context.Context) collector.Result {
			<-release
			return collector.Result{}
		}}), nil)
		want := []measurement.CollectorStatus{{
			Name: "hangs", State: measurement.StateFailed, DurationMS: 2500,
			Reason: "no answer before the run ended: context deadline exceeded",
		}}
		if diff := cmp.Diff(want, statuses); diff != "" {
			t.Error(diff)
		}
	})
}

func TestFindingsTellTheState(t *testing.T) {
	const ok, partial, failed, skipped = measurement.StateOK, measurement.StatePartial, measurement.StateFailed, measurement.StateSkipped
	read := measurement.Subtype{Name: "s"}
	type subtypes = []measurement.SubtypeStatus
	for _, c := range []struct {
		name string
		make func(*collector.Findings)
		want measurement.CollectorStatus
	}{
		{"nothing looked for", func(*collector.Findings) {}, measurement.CollectorStatus{State: ok}},
		{"all read", func(f *collector.Findings) { f.Add(read) }, measurement.CollectorStatus{State: ok, Subtypes: subtypes{{Name: "s", State: ok}}}},
		{"part read", func(f *collector.Findings) {
			f.Add(read)
			f.Unread("s/b", "no\tpermission")
			f.Unread("s/a", "no permission")
		}, measurement.CollectorStatus{
			State: partial, Reason: "s/a: no permission (and 1 more)", Subtypes: subtypes{{Name: "s", State: partial, Reason: "a: no permission (and 1 more)"}},
			Unread: []measurement.Unread{{Key: "s/a", Reason: "no permission"}, {Key: "s/b", Reason: "no permission"}},
		}},
		{"nothing read", func(f *collector.Findings) { f.Unread("s", "gone") }, measurement.CollectorStatus{
			State: failed, Reason: "s: gone", Subtypes: subtypes{{Name: "s", State: failed, Reason: "gone"}}, Unread: []measurement.Unread{{Key: "s", Reason: "gone"}},
		}},
		{"nothing read, one reason", func(f *collector.Findings) { f.Because("no root") }, measurement.CollectorStatus{State: failed, Reason: "no root"}},
		{"one reason for all", func(f *collector.Findings) {
			f.Add(read)
			f.Unread("s/a", "x")
			f.Because("the driver %s", "hangs")
		}, measurement.CollectorStatus{
			State: partial, Reason: "the driver hangs", Subtypes: subtypes{{Name: "s", State: partial, Reason: "a: x"}}, Unread: []measurement.Unread{{Key: "s/a", Reason: "x"}},
		}},
		{"one of each", func(f *collector.Findings) {
			f.Add(read)
			f.Add(measurement.Subtype{Name: "p"})
			f.Unread("p/x", "gone")
			f.Unread("f", "gone too")
			f.Skip("k", "not\nhere")
		}, measurement.CollectorStatus{
			State: partial, Reason: "f: gone too (and 1 more)",
			Subtypes: subtypes{
				{Name: "f", State: failed, Reason: "gone too"}, {Name: "k", State: skipped, Reason: "not here"},
				{Name: "p", State: partial, Reason: "x: gone"}, {Name: "s", State: ok},
			},
			Unread: []measurement.Unread{{Key: "f", Reason: "gone too"}, {Key: "p/x", Reason: "gone"}},
		}},
		{"the rest does not apply", func(f *collector.Findings) { f.Add(read); f.Skip("k", "no such thing") }, measurement.CollectorStatus{
			State: ok, Subtypes: subtypes{{Name: "k", State: skipped, Reason: "no such thing"}, {Name: "s", State: ok}},
		}},
		{"nothing applies", func(f *collector.Findings) { f.Skip("k", "no such thing") }, measurement.CollectorStatus{
			State: skipped, Reason: "no such thing", Subtypes: subtypes{{Name: "k", State: skipped, Reason: "no such thing"}},
		}},
	} {
		var f collector.Findings
		c.make(&f)
		if diff := cmp.Diff(c.want, f.Result("A").Status); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func TestReasonsAreOnePrintableLineOfBoundedLength(t *testing.T) {
	var f collector.Findings
	f.Unread("k", "a\r\n\x1b[31mb\xff "+strings.Repeat("é", 400))
	got := f.Result("A").Status.Unread[0].Reason
	if n := len([]rune(got)); n != 300 || !strings.HasPrefix(got, "a [31mb? éé") {
		t.Errorf("%d characters: %s", n, got)
	}
}
