// Package serializer writes documents: in which format, and where to.
//
// A [Format] turns a value into bytes, the same value into the same bytes. A
// [Destination] takes those bytes: standard output, a file that is written
// whole or not at all, or a ConfigMap. Destinations know nothing of what they
// carry but the kind and the version in [Document].
package serializer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

// Format is the text format of a document. Its text is also the extension of a
// file and of a ConfigMap's key.
type Format string

// The formats.
const (
	YAML Format = "yaml"
	JSON Format = "json"
)

// ParseFormat reads a format's name. Any other text is InvalidRequest.
func ParseFormat(s string) (Format, error) {
	switch f := Format(s); f {
	case YAML, JSON:
		return f, nil
	}
	return "", errors.New(errors.InvalidRequest, "unknown format %q", s).WithAdvice("choose yaml or json")
}

// Encode returns v in the format, by its json tags and with keys sorted: the
// same value gives the same bytes, whichever way it went before, and Convert of
// one format gives what Encode gives for the other. Text ends with a newline.
func Encode(f Format, v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, errors.Wrap(errors.Internal, err, "encode as %s", f)
	}
	return fromJSON(f, b)
}

// Decode reads a snapshot in either format. A text that is neither, or no
// snapshot of this API version, is InvalidRequest. Fields that this version
// does not know are passed over.
func Decode(b []byte) (*measurement.Snapshot, error) {
	j, err := toJSON(b)
	if err != nil {
		return nil, errors.Wrap(errors.InvalidRequest, err, "decode snapshot")
	}
	var s measurement.Snapshot
	if err := json.Unmarshal(j, &s); err != nil {
		return nil, errors.Wrap(errors.InvalidRequest, err, "decode snapshot")
	}
	if s.APIVersion != measurement.APIVersion || s.Kind != measurement.Kind {
		return nil, errors.New(errors.InvalidRequest, "decode snapshot: the document is %q of %q, not %q of %q",
			s.Kind, s.APIVersion, measurement.Kind, measurement.APIVersion)
	}
	return &s, nil
}

// Convert returns a document of any kind in the format. What is in that format
// already is returned untouched, byte for byte.
func Convert(to Format, b []byte) ([]byte, error) {
	if Detect(b) == to {
		return b, nil
	}
	j, err := toJSON(b)
	if err != nil {
		return nil, errors.Wrap(errors.InvalidRequest, err, "convert to %s", to)
	}
	return fromJSON(to, j)
}

// Detect tells a document's format: JSON opens with a brace, and YAML as aicr
// writes it does not.
func Detect(b []byte) Format {
	if bytes.HasPrefix(bytes.TrimLeft(b, " \t\r\n"), []byte("{")) {
		return JSON
	}
	return YAML
}

func toJSON(b []byte) ([]byte, error) {
	if json.Valid(b) {
		return b, nil
	}
	return yaml.YAMLToJSON(b)
}

// fromJSON writes JSON text in the format with sorted keys.
func fromJSON(f Format, b []byte) ([]byte, error) {
	if _, err := ParseFormat(string(f)); err != nil {
		return nil, err
	}
	b, err := sortedJSON(b)
	if err == nil && f == YAML {
		b, err = yaml.JSONToYAML(escapeForYAML(b))
	}
	if err != nil {
		return nil, errors.Wrap(errors.Internal, err, "encode as %s", f)
	}
	return b, nil
}

// escapeForYAML escapes, in JSON text, the characters that JSON strings may
// hold as they are and YAML may not: without it one odd byte in a reading, such
// as DEL, would cost the whole document.
func escapeForYAML(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		if r >= 0x7f && r < 0xa0 || r == 0xfeff || r == 0xfffe || r == 0xffff {
			out = fmt.Appendf(out, `\u%04x`, r)
		} else {
			out = append(out, b[:size]...)
		}
		b = b[size:]
	}
	return out
}

// sortedJSON indents JSON text and sorts its keys. Numbers keep their digits.
func sortedJSON(b []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
