package cli

import (
	"context"

	"github.com/NVIDIA/aicr/pkg/measurement"
	"github.com/NVIDIA/aicr/pkg/snapshotter"
)

// deps are the use cases behind the commands; tests put others in their place.
type deps struct {
	run     func(context.Context, snapshotter.RunOptions) (*snapshotter.Result, error)
	capture func(context.Context, snapshotter.CaptureOptions) (*measurement.Snapshot, error)
}

func realDeps() deps {
	return deps{run: snapshotter.Run, capture: snapshotter.Capture}
}
