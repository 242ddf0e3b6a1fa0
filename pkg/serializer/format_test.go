package serializer

import (
	stderrors "errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

// snapshot has every kind of scalar, and strings that YAML might take for
// something else.
func snapshot() *measurement.Snapshot {
	return &measurement.Snapshot{
		APIVersion: measurement.APIVersion,
		Kind:       measurement.Kind,
		Metadata:   measurement.Metadata{Timestamp: time.Date(2026, 8, 21, 14, 22, 33, 0, time.UTC), Version: "v1.2.3", SourceNode: "node-1"},
		Measurements: []measurement.Measurement{{Type: measurement.TypeOS, Subtypes: []measurement.Subtype{{
			Name: "release",
			Data: map[string]measurement.Reading{
				"id": measurement.Str("ubuntu"), "version": measurement.Str("24.04"), "yes": measurement.Str("yes"),
				"null": measurement.Str("null"), "octal": measurement.Str("0123"), "exp": measurement.Str("1e3"),
				"html": measurement.Str("<a> & b"), "lines": measurement.Str("a\nb\n"), "bool": measurement.Bool(true),
				"int": measurement.Int(-7), "max": measurement.Uint(uint64(math.MaxUint64)), "float": measurement.Float(0.1),
			},
			Context: map[string]string{"source": "/etc/os-release"},
			Items:   []measurement.Item{{Name: "b", Data: map[string]measurement.Reading{"k": measurement.Int(1)}}, {Name: "a"}},
		}}}},
		Collectors: []measurement.CollectorStatus{{Name: "os", State: measurement.StateOK, DurationMS: 3}},
	}
}

var equal = cmp.Options{cmpopts.EquateEmpty()}

func TestSnapshotComesBackFromEitherFormat(t *testing.T) {
	for _, f := range []Format{YAML, JSON} {
		t.Run(string(f), func(t *testing.T) {
			b, err := Encode(f, snapshot())
			if err != nil {
				t.Fatal(err)
			}
			if Detect(b) != f {
				t.Errorf("detected as %s", Detect(b))
			}
			got, err := Decode(b)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(snapshot(), got, equal); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSameSnapshotGivesTheSameBytesHoweverConverted(t *testing.T) {
	encoded := map[Format][]byte{}
	for _, f := range []Format{YAML, JSON} {
		b, err := Encode(f, snapshot())
		if err != nil {
			t.Fatal(err)
		}
		again, _ := Encode(f, snapshot())
		if diff := cmp.Diff(string(b), string(again)); diff != "" {
			t.Errorf("%s twice: %s", f, diff)
		}
		encoded[f] = b
	}
	for _, from := range []Format{YAML, JSON} {
		for _, to := range []Format{YAML, JSON} {
			got, err := Convert(to, encoded[from])
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(encoded[to]), string(got)); diff != "" {
				t.Errorf("%s to %s: %s", from, to, diff)
			}
		}
	}
}

func TestConvertKeepsWhatIsInTheFormatByteForByte(t *testing.T) {
	in := []byte("# a comment of another version's\nkind:   Snapshot\n")
	got, err := Convert(YAML, in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(in), string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestConvertKeepsFieldsThatThisVersionDoesNotKnow(t *testing.T) {
	got, err := Convert(JSON, []byte("kind: Snapshot\nnew: {b: 18446744073709551615, a: \"<\"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := "{\n  \"kind\": \"Snapshot\",\n  \"new\": {\n    \"a\": \"<\",\n    \"b\": 18446744073709551615\n  }\n}\n"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestDecodeRefusesWhatIsNoSnapshot(t *testing.T) {
	tests := map[string]string{
		"nothing":           "",
		"no document":       "just text",
		"broken YAML":       "a: [",
		"broken JSON":       "{",
		"another kind":      "apiVersion: aicr.run/v1\nkind: Diff\n",
		"another version":   "apiVersion: aicr.run/v9\nkind: Snapshot\n",
		"a list as reading": "apiVersion: aicr.run/v1\nkind: Snapshot\nmeasurements: [{type: OS, subtypes: [{subtype: x, data: {k: [1]}}]}]\n",
	}
	for name, in := range tests {
		t.Run(name, func(t *testing.T) {
			if s, err := Decode([]byte(in)); !stderrors.Is(err, errors.InvalidRequest) {
				t.Errorf("got %v, error %v", s, err)
			}
		})
	}
}

func TestUnknownFormatIsInvalidRequestAndSaysWhichThereAre(t *testing.T) {
	for _, s := range []string{"yaml", "json"} {
		if f, err := ParseFormat(s); err != nil || string(f) != s {
			t.Errorf("ParseFormat(%q) = %q, %v", s, f, err)
		}
	}
	for _, s := range []string{"", "YAML", "xml", "yaml "} {
		_, err := ParseFormat(s)
		if !stderrors.Is(err, errors.InvalidRequest) || !strings.Contains(errors.AdviceOf(err), "yaml or json") {
			t.Errorf("ParseFormat(%q): %v, advice %q", s, err, errors.AdviceOf(err))
		}
	}
	if _, err := Encode("xml", 1); !stderrors.Is(err, errors.InvalidRequest) {
		t.Errorf("Encode: %v", err)
	}
}

func TestEncodeTellsWhatCannotBeEncoded(t *testing.T) {
	s := snapshot()
	s.Measurements[0].Subtypes[0].Data["never-read"] = measurement.Reading{}
	if b, err := Encode(YAML, s); err == nil {
		t.Errorf("a reading without a value became %s", b)
	}
}

// Any text that decodes is the same document by way of either format. The
// documents are compared as text: a float without a fraction comes back as an
// integer of the same digits.
func FuzzDecode(f *testing.F) {
	for _, format := range []Format{YAML, JSON} {
		f.Add(mustEncode(f, format, snapshot()))
	}
	f.Add([]byte("apiVersion: aicr.run/v1\nkind: Snapshot\nmetadata: {version: \"\\x7f\\u2028\\ufeff\\x85\"}\n"))
	f.Add([]byte(`{"apiVersion":"aicr.run/v1","kind":"Snapshot","metadata":{"version":"\ud83d\ude00\/\u0000"}}`))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte(`{"kind": 1e999}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		s, err := Decode(in)
		if err != nil {
			return
		}
		want := mustEncode(t, JSON, s)
		for _, format := range []Format{YAML, JSON} {
			again, err := Decode(mustEncode(t, format, s))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(mustEncode(t, JSON, again))); diff != "" {
				t.Errorf("by way of %s: %s", format, diff)
			}
		}
	})
}

func mustEncode(t testing.TB, f Format, v any) []byte {
	t.Helper()
	b, err := Encode(f, v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
