package collector

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/NVIDIA/aicr/pkg/measurement"
)

// Findings gathers what a collector reads and what it could not read. The
// zero value is ready for use, by one goroutine.
type Findings struct {
	subtypes []measurement.Subtype
	unread   []measurement.Unread
	skipped  []measurement.SubtypeStatus
	reason   string
}

// Add takes over a subtype that was read.
func (f *Findings) Add(s measurement.Subtype) { f.subtypes = append(f.subtypes, s) }

// Unread tells that a reading could not be read. The key is as in
// [measurement.Unread]; the reason is cut to one line.
func (f *Findings) Unread(key, reason string) {
	f.unread = append(f.unread, measurement.Unread{Key: key, Reason: oneLine(reason)})
}

// Skip tells that a subtype does not apply, or would not be the host's. That
// alone makes the collector no partial one.
func (f *Findings) Skip(subtype, reason string) {
	f.skipped = append(f.skipped, measurement.SubtypeStatus{Name: subtype, State: measurement.StateSkipped, Reason: oneLine(reason)})
}

// Because tells in one reason why the collector did not read everything.
// Without it, the first unread keys make up the reason.
func (f *Findings) Because(format string, args ...any) {
	f.reason = oneLine(fmt.Sprintf(format, args...))
}

// Result returns the findings as measurements of that type. The collector is
// ok where nothing is unread and no reason was told, skipped where all was,
// failed where nothing was read, and partial otherwise; so is each subtype.
func (f *Findings) Result(t measurement.Type) Result {
	slices.SortFunc(f.unread, func(a, b measurement.Unread) int { return cmp.Compare(a.Key, b.Key) })
	r := Result{Status: measurement.CollectorStatus{State: measurement.StateOK, Subtypes: f.statuses(), Unread: f.unread}}
	if len(f.subtypes) > 0 {
		r.Measurements = []measurement.Measurement{{Type: t, Subtypes: f.subtypes}}
	}
	if r.Status.Reason = f.reason; f.reason == "" {
		r.Status.Reason = summary(f.unread)
	}
	switch told := len(f.subtypes) > 0; {
	case r.Status.Reason != "" && told:
		r.Status.State = measurement.StatePartial
	case r.Status.Reason != "":
		r.Status.State = measurement.StateFailed
	case !told && len(f.skipped) > 0:
		r.Status.State, r.Status.Reason = measurement.StateSkipped, f.skipped[0].Reason
	}
	return r
}

// statuses tells how each subtype that was named fared, sorted by name.
func (f *Findings) statuses() []measurement.SubtypeStatus {
	unread := map[string][]measurement.Unread{}
	for _, u := range f.unread {
		name, key, _ := strings.Cut(u.Key, "/")
		unread[name] = append(unread[name], measurement.Unread{Key: key, Reason: u.Reason})
	}
	out := slices.Clone(f.skipped)
	for _, s := range f.subtypes {
		status := measurement.SubtypeStatus{Name: s.Name, State: measurement.StateOK}
		if missed := unread[s.Name]; len(missed) > 0 {
			status.State, status.Reason = measurement.StatePartial, summary(missed)
			delete(unread, s.Name)
		}
		out = append(out, status)
	}
	for name, missed := range unread {
		out = append(out, measurement.SubtypeStatus{Name: name, State: measurement.StateFailed, Reason: summary(missed)})
	}
	slices.SortFunc(out, func(a, b measurement.SubtypeStatus) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// summary makes one reason of what was not read, or "" where that is nothing.
func summary(unread []measurement.Unread) string {
	if len(unread) == 0 {
		return ""
	}
	s := unread[0].Reason
	if key := unread[0].Key; key != "" {
		s = key + ": " + s
	}
	if n := len(unread) - 1; n > 0 {
		s = oneLine(s) + fmt.Sprintf(" (and %d more)", n)
	}
	return s
}

// Skipped is the result of a collector that does not apply, for that reason.
func Skipped(reason string) Result {
	return Result{Status: measurement.CollectorStatus{State: measurement.StateSkipped, Reason: reason}}
}

// oneLine makes text from outside fit for a reason: printable, on one line,
// and of 300 characters at most.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 300 {
		s = string(r[:299]) + "…"
	}
	return s
}
