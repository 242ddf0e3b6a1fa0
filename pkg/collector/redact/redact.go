// Package redact takes what looks like a secret out of settings and command
// lines before they reach a document or a log.
//
// It goes by names (password, token, secret, key and the like) and by where
// URLs keep passwords, and by the looks of well-known keys. It rather redacts too much; a secret in the plain, under
// a name that tells nothing, it cannot find.
package redact

import (
	"regexp"
	"strings"
)

// Marker stands for what was taken out.
const Marker = "[redacted]"

var (
	// A name counts where it holds one of the long words anywhere
	// (adminPassword), ends in "key" (authkey), or has one of the short
	// words as a word of its own (db_pass, but not bypass).
	secretName = regexp.MustCompile(`(?i)passw(?:or)?d|passphrase|secret|token|credential|authorization|signature|private[._-]?key|api[._-]?key` +
		`|keys?$|(?:^|[^a-z0-9])(?:key|pass|pwd|psk|sig)(?:$|[^a-z0-9])`)
	// https://user:password@host, and user:password@host as in dracut's
	// netroot=iscsi:user:password@host. A password may hold an "@" itself.
	urlUser = regexp.MustCompile(`://[^/\s]+@`)
	// What follows tells it from an image's tag before a digest.
	plainUser = regexp.MustCompile(`[^\s/:@=]+:[^\s/]+@(?:sha(?:256|512):)?`)
	// A setting inside a value: ?token=x, ;password=x, or at its start as in
	// systemd.setenv=TOKEN=x.
	inner = regexp.MustCompile(`(^|[?&;,\s])([\w.-]+)=([^&;\s]+)`)
	// A command inside a value: --token x, and a header of HTTP's.
	innerFlag  = regexp.MustCompile(`(^|\s)(--?[\w.-]+)(\s+)([^\s-]\S*)`)
	authHeader = regexp.MustCompile(`(?i)\b(authorization:|bearer)(\s*)(?:(?:basic|bearer)\s+)?[^\s"']+`)
	// What is a secret by its own looks: keys of NGC, GitHub, GitLab, Hugging
	// Face, Slack and AWS, and signed tokens (RFC 7519).
	secretShape = regexp.MustCompile(`\b(?:(?:nvapi-|gh[pousr]_|github_pat_|glpat-|hf_|xox[abprs]-)[\w-]{16,}` +
		`|AKIA[0-9A-Z]{16}|eyJ[\w-]{8,}\.[\w-]+\.[\w-]*)`)
)

// Value returns the value of a setting of that name, which may be empty, with
// what looks like a secret replaced by [Marker]. An empty value stays empty.
func Value(name, value string) string {
	switch {
	case value == "":
		return ""
	case secretName.MatchString(name):
		return Marker
	}
	value = commands(secretShape.ReplaceAllString(value, Marker))
	value = urlUser.ReplaceAllString(value, "://"+Marker+"@")
	value = plainUser.ReplaceAllStringFunc(value, user)
	return inner.ReplaceAllStringFunc(value, func(s string) string {
		m := inner.FindStringSubmatch(s)
		if !secretName.MatchString(m[2]) {
			return s
		}
		return m[1] + m[2] + "=" + Marker
	})
}

// user redacts a match of plainUser.
func user(match string) string {
	i := strings.LastIndexByte(match, '@')
	if isDigest(match[i+1:]) {
		return plainUser.ReplaceAllStringFunc(match[:i], user) + match[i:]
	}
	return Marker + "@"
}

// Args returns a command line's arguments redacted: --token=x as well as
// --token x. The arguments given are left as they are.
func Args(args []string) []string {
	out := make([]string, len(args))
	secretNext := false
	for i, a := range args {
		flag := strings.HasPrefix(a, "-")
		name, value, assigns := strings.Cut(a, "=")
		switch {
		case secretNext && !flag:
			out[i] = Marker
		case assigns:
			out[i] = Value("", name) + "=" + Value(strings.TrimLeft(name, "-"), value)
		default:
			out[i] = Value("", a)
		}
		secretNext = flag && !assigns && secretName.MatchString(a)
	}
	return out
}

// commands redacts a command line that stands inside a value.
func commands(line string) string {
	line = authHeader.ReplaceAllString(line, "$1$2"+Marker)
	return innerFlag.ReplaceAllStringFunc(line, func(s string) string {
		m := innerFlag.FindStringSubmatch(s)
		if !secretName.MatchString(m[2]) {
			return s
		}
		return m[1] + m[2] + m[3] + Marker
	})
}
