// Package e2e runs whole snapshots on a real node: kubelet, containerd, and
// the agent's own image.
package e2e

import (
	"os"
	"testing"

	"github.com/NVIDIA/aicr/internal/devcluster/devtest"
)

func TestMain(m *testing.M) { os.Exit(devtest.Main(m, devtest.Options{Audit: true})) }
