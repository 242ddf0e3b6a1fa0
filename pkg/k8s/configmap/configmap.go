// Package configmap tells how a snapshot lies in a ConfigMap, and names one by
// a cm:// URI. The agent that writes and the controller that reads share it.
package configmap

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/NVIDIA/aicr/pkg/errors"
)

// Scheme starts a URI that names a ConfigMap.
const Scheme = "cm://"

// Keys of the ConfigMap's data.
const (
	// KeyFormat holds the format, such as "yaml"; the document itself lies
	// under DocumentKey of it.
	KeyFormat = "format"
	// KeyTimestamp holds the time of writing, RFC 3339 in UTC.
	KeyTimestamp = "timestamp"
)

// FieldManager is the field manager of what the agent applies.
const FieldManager = "aicr"

// DocumentKey returns the data key of a document in that format.
func DocumentKey(format string) string { return "snapshot." + format }

// Ref names a ConfigMap.
type Ref struct{ Namespace, Name string }

// String returns the cm:// URI.
func (r Ref) String() string { return Scheme + r.Namespace + "/" + r.Name }

// IsURI reports whether s names, or tries to name, a ConfigMap.
func IsURI(s string) bool { return strings.HasPrefix(s, Scheme) }

// ParseURI reads cm://namespace/name. Anything else is InvalidRequest.
func ParseURI(s string) (Ref, error) {
	bad := func(why string) (Ref, error) {
		return Ref{}, errors.New(errors.InvalidRequest, "output %q: %s", s, why).
			WithAdvice("name a ConfigMap as %snamespace/name", Scheme)
	}
	rest, ok := strings.CutPrefix(s, Scheme)
	if !ok {
		return bad("no " + Scheme + " URI")
	}
	ns, name, ok := strings.Cut(rest, "/")
	switch {
	case !ok || name == "":
		return bad("the ConfigMap's name is missing")
	case ns == "":
		return bad("the namespace is missing")
	}
	if msgs := validation.IsDNS1123Label(ns); len(msgs) > 0 {
		return bad("namespace " + strings.Join(msgs, "; "))
	}
	if msgs := validation.IsDNS1123Subdomain(name); len(msgs) > 0 {
		return bad("name " + strings.Join(msgs, "; "))
	}
	return Ref{Namespace: ns, Name: name}, nil
}
