package gpu

import "strings"

// sense tells what a printed value means.
type sense int

const (
	isValue sense = iota
	// isAbsent: the GPU or the driver does not have it.
	isAbsent
	// isUnreadable: the driver did not tell.
	isUnreadable
)

// judge returns the bare value and what it means. nvidia-smi writes errors
// (nvmlErrorString's) in brackets, and some without.
func judge(printed string) (string, sense) {
	v := strings.TrimSpace(printed)
	bare, opened := strings.CutPrefix(v, "[")
	bare, closed := strings.CutSuffix(bare, "]")
	switch strings.ToLower(bare) {
	case "", "n/a", "not supported", "requested functionality has been deprecated":
		return "", isAbsent
	case "err!", "error", "unknown", "unknown error", "not found", "function not found", "gpu is lost",
		"gpu requires reset", "insufficient permissions", "no permission", "timeout", "uninitialized", "invalid argument", "driver not loaded",
		"corrupted inforom", "interrupt request issue", "in use by another client", "insufficient memory", "no data":
		return bare, isUnreadable
	}
	if opened && closed {
		return bare, isUnreadable
	}
	return v, isValue
}
