package os

import (
	"strings"

	"github.com/NVIDIA/aicr/pkg/collector/redact"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

// param is one kernel parameter. A parameter without "=" is a flag.
type param struct {
	name, value string
	flag        bool
}

// parseCommandLine splits the kernel's command line as the kernel does
// (next_arg in lib/cmdline.c): at white space outside double quotes, a
// parameter at its first "=", with the quotes around a whole parameter or
// value taken off. What follows a lone "--" is for init, and is returned apart.
func parseCommandLine(text string) (params []param, init []string) {
	words := splitQuoted(text)
	for i, w := range words {
		if w == "--" {
			return params, words[i+1:]
		}
		params = append(params, parseParam(w))
	}
	return params, nil
}

func splitQuoted(text string) []string {
	inQuote := false
	return strings.FieldsFunc(text, func(r rune) bool {
		if r == '"' {
			inQuote = !inQuote
		}
		// The kernel's isspace knows ASCII only here.
		return !inQuote && strings.ContainsRune(" \t\n\v\f\r", r)
	})
}

func parseParam(w string) param {
	w, quoted := strings.CutPrefix(w, `"`)
	if quoted {
		w = strings.TrimSuffix(w, `"`)
	}
	// A "=" in the first place starts no value.
	eq := strings.IndexByte(w, '=')
	if eq <= 0 {
		return param{name: w, flag: true}
	}
	value, quoted := strings.CutPrefix(w[eq+1:], `"`)
	if quoted {
		value = strings.TrimSuffix(value, `"`)
	}
	return param{name: w[:eq], value: value}
}

// grub returns the parameters twice: all of them as items, in order, repeated
// ones too; and by name in the data, where the last of several stands, as for
// most parameters the kernel lets it win. A flag reads true. What looks like a
// secret is redacted. Items for init carry no value and say so.
func grub(params []param, init []string) measurement.Subtype {
	s := measurement.Subtype{Name: subtypeGrub, Data: map[string]measurement.Reading{}, Context: map[string]string{keySource: "/proc/cmdline"}}
	for _, p := range params {
		reading := measurement.Bool(true)
		if !p.flag {
			reading = measurement.Str(redact.Value(p.name, p.value))
		}
		name := measurement.Text(redact.Value("", p.name))
		s.Data[measurement.Key(name)] = reading
		s.Items = append(s.Items, measurement.Item{Name: name, Data: map[string]measurement.Reading{"value": reading}})
	}
	for _, arg := range redact.Args(init) {
		s.Items = append(s.Items, measurement.Item{
			Name: measurement.Text(arg), Data: map[string]measurement.Reading{}, Context: map[string]string{"for": "init"},
		})
	}
	return s
}
