package cli

import (
	"context"
	"log/slog"

	"k8s.io/client-go/kubernetes"

	"github.com/NVIDIA/aicr/pkg/collector/host"
	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/measurement"
	"github.com/NVIDIA/aicr/pkg/snapshotter"
)

// captureRequest is what a capture of this machine needs.
type captureRequest struct {
	Host             host.View
	Version          string
	NodeName         string
	Kube             kubernetes.Interface // nil: no cluster
	OS               string
	RequireGPU       bool
	MaxNodesPerEntry int
	Log              *slog.Logger
}

// deps are the use cases behind the commands; tests put others in their place.
type deps struct {
	run     func(context.Context, snapshotter.RunOptions) (*snapshotter.Result, error)
	capture func(context.Context, captureRequest) (*measurement.Snapshot, error)
}

func realDeps() deps {
	return deps{
		run: snapshotter.Run,
		capture: func(context.Context, captureRequest) (*measurement.Snapshot, error) {
			return nil, errors.New(errors.Internal, "capturing is not built yet")
		},
	}
}
