package os

import (
	"errors"
	"regexp"
	"strings"

	"github.com/NVIDIA/aicr/pkg/measurement"
)

var releaseKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// parseRelease reads os-release(5), which is a subset of shell: KEY=value, the
// value quoted as in a shell, the last of several assignments counting. It
// also returns the numbers, from 1, of the lines that are none.
func parseRelease(text string) (data map[string]measurement.Reading, bad []int) {
	data = map[string]measurement.Reading{}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		key, raw, ok := strings.Cut(line, "=")
		value, err := unquote(raw)
		if !ok || err != nil || !releaseKey.MatchString(key) {
			bad = append(bad, i+1)
			continue
		}
		data[key] = measurement.Str(value)
	}
	return data, bad
}

var errQuoting = errors.New("bad quoting")

// unquote takes the quotes off one word as a POSIX shell does (XCU 2.2),
// without expanding anything.
func unquote(s string) (string, error) {
	var out strings.Builder
	var quote byte // ', " or 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quote == '\'' && c != '\'':
			out.WriteByte(c)
		case c == quote && quote != 0:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case c == '\\':
			if i++; i == len(s) {
				return "", errQuoting
			}
			if quote == '"' && !strings.ContainsRune("$`\"\\", rune(s[i])) {
				out.WriteByte('\\')
			}
			out.WriteByte(s[i])
		case quote == 0 && (c == ' ' || c == '\t'):
			return "", errQuoting
		default:
			out.WriteByte(c)
		}
	}
	if quote != 0 {
		return "", errQuoting
	}
	return out.String(), nil
}
