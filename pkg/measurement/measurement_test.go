package measurement_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/NVIDIA/aicr/pkg/measurement"
)

func example() *measurement.Snapshot {
	return &measurement.Snapshot{
		APIVersion: measurement.APIVersion,
		Kind:       measurement.Kind,
		Metadata:   measurement.Metadata{Timestamp: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Version: "v1", SourceNode: "n"},
		Measurements: []measurement.Measurement{{Type: measurement.TypeOS, Subtypes: []measurement.Subtype{{
			Name: "s",
			Data: map[string]measurement.Reading{
				"bool": measurement.Bool(false), "zero": measurement.Int(0), "negative": measurement.Int(-1), "large": measurement.Uint(uint64(math.MaxUint64)),
				"float": measurement.Float(1.5), "whole": measurement.Float(2), "huge": measurement.Float(1e300), "empty": measurement.Str(""),
				"number-like": measurement.Str("1.30"), "yes-like": measurement.Str("on"), "time-like": measurement.Str("12:30:45"),
				"lines": measurement.Str("a\n b\tc\n"), "html": measurement.Str("<a href='x'>&"),
			},
			Context: map[string]string{"source": "x"},
			Items: []measurement.Item{
				{Name: "b", Data: map[string]measurement.Reading{"v": measurement.Bool(true)}},
				{Name: "a", Data: map[string]measurement.Reading{}},
			},
		}}}},
		Collectors: []measurement.CollectorStatus{{Name: "os", State: measurement.StatePartial, Reason: "r", Subtypes: []measurement.SubtypeStatus{{Name: "s", State: measurement.StatePartial, Reason: "y"}}, Unread: []measurement.Unread{{Key: "s/x", Reason: "y"}}, DurationMS: 7}},
	}
}

func TestSnapshotRoundTrips(t *testing.T) {
	for name, format := range map[string]struct {
		marshal   func(any) ([]byte, error)
		unmarshal func([]byte, any) error
	}{
		"json": {json.Marshal, json.Unmarshal},
		"yaml": {func(v any) ([]byte, error) { return yaml.Marshal(v) }, func(b []byte, v any) error { return yaml.UnmarshalStrict(b, v) }},
	} {
		b, err := format.marshal(example())
		if err != nil {
			t.Fatal(name, err)
		}
		var got measurement.Snapshot
		if err := format.unmarshal(b, &got); err != nil {
			t.Fatal(name, err)
		}
		if diff := cmp.Diff(example(), &got); diff != "" {
			t.Errorf("%s: %s\n%s", name, diff, b)
		}
	}
}

func TestNormalizeGivesTheSameBytesWhateverTheOrder(t *testing.T) {
	snapshot := func(flip bool) *measurement.Snapshot {
		s := &measurement.Snapshot{
			Measurements: []measurement.Measurement{
				{Type: "B", Subtypes: []measurement.Subtype{{Name: "y"}, {Name: "x", Items: []measurement.Item{{Name: "2"}, {Name: "1"}}}}},
				{Type: "A"},
			},
			Collectors: []measurement.CollectorStatus{
				{
					Name: "q", Subtypes: []measurement.SubtypeStatus{{Name: "y"}, {Name: "x"}},
					Unread: []measurement.Unread{{Key: "2", Reason: "b"}, {Key: "2", Reason: "a"}, {Key: "1"}},
				},
				{Name: "p"},
			},
		}
		if flip {
			m, c := s.Measurements, s.Collectors
			m[0], m[1], c[0], c[1] = m[1], m[0], c[1], c[0]
		}
		s.Normalize()
		return s
	}
	const want = `{"apiVersion":"","kind":"","metadata":{"timestamp":"0001-01-01T00:00:00Z","version":"","source-node":""},` +
		`"measurements":[{"type":"A","subtypes":[]},{"type":"B","subtypes":[{"subtype":"x","data":{},"items":[{"name":"2","data":{}},{"name":"1","data":{}}]},{"subtype":"y","data":{}}]}],` +
		`"collectors":[{"name":"p","state":"","duration-ms":0},{"name":"q","state":"","subtypes":[{"name":"x","state":""},{"name":"y","state":""}],"unread":[{"key":"1","reason":""},{"key":"2","reason":"a"},{"key":"2","reason":"b"}],"duration-ms":0}]}`
	for _, flip := range []bool{false, true} {
		b, err := json.Marshal(snapshot(flip))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(b)); diff != "" {
			t.Error(diff)
		}
	}
	empty := &measurement.Snapshot{}
	empty.Normalize()
	if b, _ := json.Marshal(empty); !json.Valid(b) || empty.Measurements == nil || empty.Collectors == nil {
		t.Errorf("%s", b)
	}
}

func TestSubtypeFindsByTypeAndName(t *testing.T) {
	s := example()
	if st, ok := s.Subtype(measurement.TypeOS, "s"); !ok || st.Name != "s" {
		t.Error(st, ok)
	}
	if _, ok := s.Subtype(measurement.TypeGPU, "s"); ok {
		t.Error("found in another type")
	}
}

func TestReadingRefusesWhatIsNoScalar(t *testing.T) {
	for _, r := range []measurement.Reading{{}, measurement.Float(math.NaN()), measurement.Float(math.Inf(1))} {
		if b, err := json.Marshal(r); err == nil {
			t.Errorf("%v marshals as %s", r.Any(), b)
		}
	}
	for _, text := range []string{"null", "[1]", `{"a":1}`, "", "nope"} {
		var r measurement.Reading
		if err := json.Unmarshal([]byte(text), &r); err == nil {
			t.Errorf("%q reads as %v", text, r)
		}
	}
}

func TestReadingsOfOneNumberAreEqual(t *testing.T) {
	for _, c := range []struct{ a, b measurement.Reading }{
		{measurement.Int(7), measurement.Uint(uint8(7))},
		{measurement.Float(7), measurement.Int(7)},
		{measurement.Float(math.Copysign(0, -1)), measurement.Int(0)},
		{measurement.Float(1 << 63), measurement.Uint(uint64(1 << 63))},
		{measurement.Float(-(1 << 63)), measurement.Int(int64(math.MinInt64))},
	} {
		if !c.a.Equal(c.b) {
			t.Errorf("%T %v and %T %v", c.a.Any(), c.a, c.b.Any(), c.b)
		}
	}
	if measurement.Str("7").Equal(measurement.Int(7)) {
		t.Error("text equals a number")
	}
}

func roundTrip(t *testing.T, key string, r measurement.Reading) {
	t.Helper()
	want := map[string]measurement.Reading{key: r}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]measurement.Reading
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("json %s: %s", b, diff)
	}
	y, err := yaml.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got = nil
	if err := yaml.Unmarshal(y, &got); err != nil {
		t.Fatalf("yaml %q: %v", y, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("yaml %q: %s", y, diff)
	}
}

func FuzzReadingRoundTripsText(f *testing.F) {
	for _, s := range []string{"", "on", "0x1f", "1_000", "~", "null", "1e3", ".5", "12:30:45", "a: b", "- x", "\t", "\x00", "\x7f", "\u0085", "\u2028", "\ufeff", "\xff", "\uffff", "<<", "2026-01-02"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { roundTrip(t, measurement.Key(s), measurement.Str(s)) })
}

func FuzzReadingRoundTripsNumbers(f *testing.F) {
	f.Add(0.0, uint64(0))
	f.Add(1e21, uint64(math.MaxUint64))
	f.Add(-1.5e-7, uint64(math.MaxInt64)+1)
	f.Add(math.MaxFloat64, uint64(1))
	f.Fuzz(func(t *testing.T, x float64, u uint64) {
		roundTrip(t, "k", measurement.Uint(u))
		roundTrip(t, "k", measurement.Int(int64(u)))
		if !math.IsNaN(x) && !math.IsInf(x, 0) {
			roundTrip(t, "k", measurement.Float(x))
		}
	})
}

func FuzzReadingReadsOnlyWhatItWritesAlike(f *testing.F) {
	for _, s := range []string{`1`, `"a"`, `true`, `-0`, `1.0`, `1e400`, `18446744073709551616`, `null`, `[]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var r measurement.Reading
		if json.Unmarshal(b, &r) == nil {
			roundTrip(t, "k", r)
		}
	})
}
