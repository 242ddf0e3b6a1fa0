// Package runid makes the identifiers that scope a snapshot run.
package runid

import (
	"crypto/rand"
	"encoding/hex"
	"time"
)

// Length is the number of characters of a generated run ID.
const Length = len(timeLayout) + 1 + 2*randomBytes

const (
	timeLayout  = "20060102-150405"
	randomBytes = 8
)

// Generate returns a new run ID: YYYYMMDD-HHMMSS-<16 lower-case hex>, the time
// in UTC and the digits from crypto/rand. Run IDs sort by time and are valid
// DNS-1123 labels and label values. Generate is safe for concurrent use.
func Generate() string {
	var b [randomBytes]byte
	// Read never fails: where the platform has no entropy the process ends.
	_, _ = rand.Read(b[:])
	return time.Now().UTC().Format(timeLayout) + "-" + hex.EncodeToString(b[:])
}
