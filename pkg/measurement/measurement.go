// Package measurement is the model of a snapshot document.
//
// A [Snapshot] holds measurements by type; a [Measurement] holds subtypes; a
// [Subtype] holds readings by key, context for them, and ordered items for
// what a node has several of. Absent, unreadable and zero are three things: a
// key that does not apply is absent, a value that could not be read is listed
// with its reason in the [CollectorStatus], and only a value that was read is
// a [Reading].
//
// The same state gives the same bytes: maps are written sorted by key, and
// [Snapshot.Normalize] sorts what has no order of its own.
package measurement

import (
	"cmp"
	"slices"
	"time"
)

// What identifies the document format.
const (
	APIVersion = "aicr.run/v1"
	Kind       = "Snapshot"
)

// Snapshot is the whole document.
type Snapshot struct {
	APIVersion   string            `json:"apiVersion"`
	Kind         string            `json:"kind"`
	Metadata     Metadata          `json:"metadata"`
	Measurements []Measurement     `json:"measurements"`
	Collectors   []CollectorStatus `json:"collectors"`
}

// Metadata tells when, by which version and on which node a snapshot was taken.
type Metadata struct {
	// Timestamp is in UTC, to the second.
	Timestamp time.Time `json:"timestamp"`
	// Version is that of the agent that captured the snapshot.
	Version string `json:"version"`
	// SourceNode is the node's name, or the host's outside a cluster.
	SourceNode string `json:"source-node"`
}

// Type names a measurement.
type Type string

// The measurement types.
const (
	TypeOS           Type = "OS"
	TypeK8s          Type = "K8s"
	TypeGPU          Type = "GPU"
	TypeSystemD      Type = "SystemD"
	TypeNodeTopology Type = "NodeTopology"
)

// Measurement groups what one kind of source tells.
type Measurement struct {
	Type     Type      `json:"type"`
	Subtypes []Subtype `json:"subtypes"`
}

// Subtype is one source's readings.
type Subtype struct {
	Name string `json:"subtype"`
	// Data holds scalars by key. A unit, where there is one, ends the key.
	Data map[string]Reading `json:"data"`
	// Context holds what describes Data, such as its source.
	Context map[string]string `json:"context,omitempty"`
	// Items are in the source's order (bus address, index), which is kept.
	Items []Item `json:"items,omitempty"`
}

// Item is one of several like things, such as a GPU.
type Item struct {
	Name    string             `json:"name"`
	Data    map[string]Reading `json:"data"`
	Context map[string]string  `json:"context,omitempty"`
}

// State tells how a collector, or one of its subtypes, ended.
type State string

// The states.
const (
	// StateOK: all that is looked for was read or is known absent.
	StateOK State = "ok"
	// StatePartial: something could not be read; Unread tells what.
	StatePartial State = "partial"
	// StateFailed: nothing could be read.
	StateFailed State = "failed"
	// StateSkipped: it does not apply here, or would not be the host's.
	StateSkipped State = "skipped"
)

// CollectorStatus tells how one collector fared.
type CollectorStatus struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Reason is something that a person can act on; empty for StateOK.
	Reason string `json:"reason,omitempty"`
	// Subtypes tells how each of the collector's subtypes fared, sorted by
	// name. One that is not listed fared as the collector did.
	Subtypes []SubtypeStatus `json:"subtypes,omitempty"`
	// Unread lists what could not be read, sorted by key.
	Unread []Unread `json:"unread,omitempty"`
	// DurationMS is the wall time in milliseconds.
	DurationMS int64 `json:"duration-ms"`
}

// SubtypeStatus tells how one subtype fared.
type SubtypeStatus struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Reason is something that a person can act on; empty for StateOK.
	Reason string `json:"reason,omitempty"`
}

// Unread is a reading that could not be read.
type Unread struct {
	// Key names the reading as <subtype>/<key> or <subtype>/<item>/<key>; a
	// whole subtype or item by the part of that which names it.
	Key    string `json:"key"`
	Reason string `json:"reason"`
}

// Subtype returns the subtype of that name in the measurement of that type.
func (s *Snapshot) Subtype(t Type, name string) (Subtype, bool) {
	for _, m := range s.Measurements {
		for _, st := range m.Subtypes {
			if m.Type == t && st.Name == name {
				return st, true
			}
		}
	}
	return Subtype{}, false
}

// Normalize sorts measurements by type, subtypes by name, collectors by name,
// their subtypes and unread keys, in place, and makes empty lists and maps of missing ones
// that the document always has. Items keep their order.
func (s *Snapshot) Normalize() {
	s.Measurements = orEmpty(s.Measurements)
	slices.SortStableFunc(s.Measurements, func(a, b Measurement) int { return cmp.Compare(a.Type, b.Type) })
	for i := range s.Measurements {
		s.Measurements[i].normalize()
	}
	s.Collectors = orEmpty(s.Collectors)
	slices.SortStableFunc(s.Collectors, func(a, b CollectorStatus) int { return cmp.Compare(a.Name, b.Name) })
	for i := range s.Collectors {
		slices.SortStableFunc(s.Collectors[i].Subtypes, func(a, b SubtypeStatus) int { return cmp.Compare(a.Name, b.Name) })
		slices.SortFunc(s.Collectors[i].Unread, func(a, b Unread) int {
			return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Reason, b.Reason))
		})
	}
}

func (m *Measurement) normalize() {
	m.Subtypes = orEmpty(m.Subtypes)
	slices.SortStableFunc(m.Subtypes, func(a, b Subtype) int { return cmp.Compare(a.Name, b.Name) })
	for i := range m.Subtypes {
		st := &m.Subtypes[i]
		if st.Data == nil {
			st.Data = map[string]Reading{}
		}
		for j := range st.Items {
			if st.Items[j].Data == nil {
				st.Items[j].Data = map[string]Reading{}
			}
		}
	}
}

func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
