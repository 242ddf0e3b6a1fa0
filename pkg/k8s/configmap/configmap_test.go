package configmap

import (
	stderrors "errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/NVIDIA/aicr/pkg/errors"
)

func TestC7_URIIsParsedOrRefusedWithItsReason(t *testing.T) {
	tests := map[string]struct {
		in     string
		want   Ref
		reason string
	}{
		"namespace and name":  {"cm://ns/name", Ref{"ns", "name"}, ""},
		"name with dots":      {"cm://ns/a.b-c", Ref{"ns", "a.b-c"}, ""},
		"another scheme":      {"file:///x", Ref{}, "no cm:// URI"},
		"empty":               {"", Ref{}, "no cm:// URI"},
		"nothing":             {"cm://", Ref{}, "name is missing"},
		"no slash":            {"cm://name", Ref{}, "name is missing"},
		"no name":             {"cm://ns/", Ref{}, "name is missing"},
		"no namespace":        {"cm:///name", Ref{}, "namespace is missing"},
		"upper-case name":     {"cm://ns/Name", Ref{}, "name a lowercase"},
		"namespace with dots": {"cm://n.s/name", Ref{}, "namespace must not contain dots"},
		"a third part":        {"cm://ns/name/key", Ref{}, "name a lowercase"},
		"long namespace":      {"cm://" + strings.Repeat("n", 64) + "/name", Ref{}, "namespace must be"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseURI(tt.in)
			if got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if tt.reason == "" {
				if err != nil || got.String() != tt.in {
					t.Errorf("error %v, back to %q", err, got)
				}
				return
			}
			if !stderrors.Is(err, errors.InvalidRequest) || !strings.Contains(err.Error(), tt.reason) {
				t.Errorf("error %v, want one with %q", err, tt.reason)
			}
			if errors.AdviceOf(err) == "" {
				t.Error("no advice")
			}
		})
	}
}

func TestKeysAreThoseOfTheFormat(t *testing.T) {
	for format, want := range map[string]string{"yaml": "snapshot.yaml", "json": "snapshot.json"} {
		got := DocumentKey(format)
		if got != want || len(validation.IsConfigMapKey(got)) > 0 {
			t.Errorf("DocumentKey(%q) = %q", format, got)
		}
	}
}

// What is accepted names an object that the API server accepts, and comes back
// as it was given.
func FuzzParseURI(f *testing.F) {
	for _, s := range []string{"cm://ns/name", "cm://", "cm:///", "cm://ns/", "cm://a/b/c", "CM://ns/name", "cm://n\x00/x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ref, err := ParseURI(s)
		if err != nil {
			if !stderrors.Is(err, errors.InvalidRequest) {
				t.Errorf("code %q", errors.CodeOf(err))
			}
			return
		}
		if ref.String() != s || !IsURI(s) {
			t.Errorf("%q became %q", s, ref)
		}
		if msgs := append(validation.IsDNS1123Label(ref.Namespace), validation.IsDNS1123Subdomain(ref.Name)...); len(msgs) > 0 {
			t.Errorf("%q: %v", s, msgs)
		}
	})
}
