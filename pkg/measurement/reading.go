package measurement

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"unicode"
)

// Reading is one scalar that was read: a string, a bool, an integer or a
// float. The zero Reading is invalid and does not marshal, so that a value
// never read cannot pass for one. A Reading is immutable.
type Reading struct{ value any }

// Str returns a Reading of a string, made fit for a document by Text.
func Str(v string) Reading { return Reading{Text(v)} }

// Text returns s with the replacement character for what a document cannot
// carry in every format: bytes that are not UTF-8, and the characters that
// YAML does not allow or reads as line breaks (DEL, C1, U+FFFE, U+FFFF). Names
// that come from outside go through it, as Str's values do.
func Text(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 0x7f && r <= 0x9f || r == 0xfffe || r == 0xffff {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(s, string(unicode.ReplacementChar)))
}

// Key returns s made fit for a key: as by Text, cut to 500 bytes, because YAML
// allows keys of 1024 characters, and not "<<", which YAML readers take for a
// merge however it is quoted.
func Key(s string) string {
	const limit = 500
	if len(s) > limit {
		s = s[:limit]
	}
	if s == "<<" {
		s = "< <"
	}
	return Text(s)
}

// Bool returns a Reading of a bool.
func Bool(v bool) Reading { return Reading{v} }

// Int returns a Reading of an integer.
func Int[T ~int | ~int8 | ~int16 | ~int32 | ~int64](v T) Reading { return Reading{int64(v)} }

// Uint returns a Reading of an unsigned integer; it equals Int's of the same
// number.
func Uint[T ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64](v T) Reading {
	if uint64(v) <= math.MaxInt64 {
		return Reading{int64(v)}
	}
	return Reading{uint64(v)}
}

// Float returns a Reading of a floating point number. A whole number equals
// Int's of it: formats write both alike, and a reader could not tell.
func Float(v float64) Reading {
	// Both bounds are powers of two and exact; beyond them there are no ints.
	if v == math.Trunc(v) {
		switch {
		case v >= math.MinInt64 && v < math.MaxInt64:
			return Reading{int64(v)}
		case v > 0 && v < math.MaxUint64:
			return Uint(uint64(v))
		}
	}
	return Reading{v}
}

// Any returns the value: string, bool, int64, float64, or uint64 for what is
// larger than an int64; nil for the zero Reading.
func (r Reading) Any() any { return r.value }

// String returns the value as text.
func (r Reading) String() string { return fmt.Sprint(r.value) }

// Equal reports whether both hold the same value of the same type.
func (r Reading) Equal(o Reading) bool { return r.value == o.value }

// MarshalJSON writes the bare scalar. NaN, infinities and the zero Reading are
// errors.
func (r Reading) MarshalJSON() ([]byte, error) {
	if r.value == nil {
		return nil, fmt.Errorf("a reading without a value")
	}
	// The encoder around this one decides whether to escape HTML.
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(r.value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// UnmarshalJSON reads a bare scalar: a whole number that fits becomes int64, a
// larger one uint64, any other number float64. null, arrays and objects are
// errors.
func (r *Reading) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return err
	}
	switch t := v.(type) {
	case string:
		*r = Str(t)
		return nil
	case bool:
		*r = Bool(t)
		return nil
	case json.Number:
		if i, err := t.Int64(); err == nil {
			r.value = i
			return nil
		}
		var u uint64
		if err := json.Unmarshal(b, &u); err == nil {
			r.value = u
			return nil
		}
		f, err := t.Float64()
		if err != nil {
			return fmt.Errorf("reading %s: %w", t, err)
		}
		*r = Float(f)
		return nil
	}
	return fmt.Errorf("a reading is a string, a bool or a number, not %s", b)
}
