package faults

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"text/tabwriter"
)

// matrix gathers what the cases ended with.
type matrix struct {
	requests int

	mu    sync.Mutex
	cases []judged
}

type judged struct {
	planned
	violations, leftAndNamed bool
}

func (m *matrix) add(p planned, c *run) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cases = append(m.cases, judged{p, c.violations.Load() > 0, c.leftAndNamed > 0})
}

// report prints a row for each request of each scenario and a column for each
// fault, and the sums.
func (m *matrix) report(t *testing.T, w io.Writer) {
	t.Helper()
	sums := fmt.Sprintf("%d requests in %d scenarios, %d faults, %d cases, %d violations, %d left and named",
		m.requests, len(scenarios()), len(m.faults()), len(m.cases),
		m.sum(func(c judged) bool { return c.violations }), m.sum(func(c judged) bool { return c.leftAndNamed }))
	t.Log(sums)
	if !*all {
		return
	}
	fmt.Fprintln(w, "Faults:")
	for i, f := range m.faults() {
		fmt.Fprintf(w, "%3d  %s\n", i+1, f)
	}
	for _, s := range scenarios() {
		m.table(w, s.name)
	}
	fmt.Fprintf(w, "\n. as promised   L left and named   X violation\n\n%s\n", sums)
}

func (m *matrix) table(w io.Writer, scenario string) {
	cells := map[string]map[string]string{}
	for _, c := range m.cases {
		if c.scenario.name != scenario {
			continue
		}
		r := c.request.String()
		if cells[r] == nil {
			cells[r] = map[string]string{}
		}
		cells[r][c.fault.name] = c.mark()
	}
	if len(cells) == 0 {
		return
	}
	tab := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	fmt.Fprintf(tab, "\n%s\t", scenario)
	for i := range m.faults() {
		fmt.Fprintf(tab, "%d\t", i+1)
	}
	fmt.Fprintln(tab)
	rows := make([]string, 0, len(cells))
	for r := range cells {
		rows = append(rows, r)
	}
	slices.Sort(rows)
	for _, r := range rows {
		fmt.Fprintf(tab, "  %s\t", r)
		for _, f := range m.faults() {
			fmt.Fprintf(tab, "%s\t", cells[r][f])
		}
		fmt.Fprintln(tab)
	}
	_ = tab.Flush()
}

func (c judged) mark() string {
	switch {
	case c.violations:
		return "X"
	case c.leftAndNamed:
		return "L"
	}
	return "."
}

// faults are the names of those that happened, in their order.
func (m *matrix) faults() []string {
	var out []string
	for _, f := range faults() {
		if slices.ContainsFunc(m.cases, func(c judged) bool { return c.fault.name == f.name }) {
			out = append(out, f.name)
		}
	}
	return out
}

func (m *matrix) sum(of func(judged) bool) int {
	n := 0
	for _, c := range m.cases {
		if of(c) {
			n++
		}
	}
	return n
}
