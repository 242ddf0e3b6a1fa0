// Package collector runs collectors side by side, each within its own time
// limit, and gathers what they read and how each fared.
//
// A collector lives in a package of its own below this one, reads one source
// below a root it is given, and says what it could not read. A collector that
// fails, hangs or panics costs only itself.
package collector

import (
	"context"

	"github.com/NVIDIA/aicr/pkg/measurement"
)

// Collector reads one source.
type Collector interface {
	// Name is unique among the collectors of a run, such as "os".
	Name() string
	// Collect reads the source. It should return soon after ctx is done; the
	// runner does not wait for one that does not. It must not keep a
	// reference to what it returned.
	Collect(ctx context.Context) Result
}

// Result is what a collector read and how it fared. The runner fills in the
// status' name and duration.
type Result struct {
	Measurements []measurement.Measurement
	Status       measurement.CollectorStatus
}
