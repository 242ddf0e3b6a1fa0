//go:build !linux

package snapshotter

import (
	"runtime"

	"github.com/NVIDIA/aicr/pkg/errors"
)

func checkPlatform() error {
	return errors.New(errors.InvalidRequest, "a local snapshot needs Linux, and this is %s", runtime.GOOS).
		WithAdvice("take the snapshot of a cluster's node instead: aicr snapshot without --local")
}
