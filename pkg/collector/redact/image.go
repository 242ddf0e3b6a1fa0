package redact

import "strings"

// Image returns an image reference without the user and password that some
// put before the registry's name. A digest stays.
func Image(ref string) string {
	name, digest := ref, ""
	if i := strings.LastIndexByte(ref, '@'); i >= 0 && isDigest(ref[i+1:]) {
		name, digest = ref[:i], ref[i:]
	}
	i := strings.LastIndexByte(name, '@')
	if i < 0 {
		return ref
	}
	return Marker + name[i:] + digest
}

// isDigest reports whether s begins as a digest does: algorithm and colon.
func isDigest(s string) bool {
	return strings.HasPrefix(s, "sha256:") || strings.HasPrefix(s, "sha512:")
}
