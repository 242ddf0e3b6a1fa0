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
	reason   string
}

// Add takes over a subtype that was read.
func (f *Findings) Add(s measurement.Subtype) { f.subtypes = append(f.subtypes, s) }

// Unread tells that a reading could not be read. The key is as in
// [measurement.Unread]; the reason is cut to one line.
func (f *Findings) Unread(key, reason string) {
	f.unread = append(f.unread, measurement.Unread{Key: key, Reason: oneLine(reason)})
}

// Because tells in one reason why the collector did not read everything.
// Without it, the first unread keys make up the reason.
func (f *Findings) Because(format string, args ...any) {
	f.reason = oneLine(fmt.Sprintf(format, args...))
}

// Result returns the findings as measurements of that type: ok where nothing
// is unread and no reason was told, failed where nothing was read, partial
// otherwise.
func (f *Findings) Result(t measurement.Type) Result {
	r := Result{Status: measurement.CollectorStatus{State: measurement.StateOK, Unread: f.unread}}
	slices.SortFunc(r.Status.Unread, func(a, b measurement.Unread) int { return cmp.Compare(a.Key, b.Key) })
	if len(f.subtypes) > 0 {
		r.Measurements = []measurement.Measurement{{Type: t, Subtypes: f.subtypes}}
	}
	if len(f.unread) == 0 && f.reason == "" {
		return r
	}
	r.Status.State = measurement.StatePartial
	if len(f.subtypes) == 0 {
		r.Status.State = measurement.StateFailed
	}
	if r.Status.Reason = f.reason; f.reason == "" {
		r.Status.Reason = f.summary()
	}
	return r
}

func (f *Findings) summary() string {
	first := f.unread[0]
	s := fmt.Sprintf("%s: %s", first.Key, first.Reason)
	if n := len(f.unread) - 1; n > 0 {
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
