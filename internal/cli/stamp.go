package cli

import (
	"strings"

	"github.com/NVIDIA/aicr/pkg/k8s/client"
)

// Stamped by the linker and changed by nothing else:
//
//	-X github.com/NVIDIA/aicr/internal/cli.version=v1.2.3
//	-X github.com/NVIDIA/aicr/internal/cli.defaultImage=ghcr.io/nvidia/aicr:v1.2.3
var version, defaultImage string

// thisVersion is the stamped version, or the one that the Go toolchain put
// into the binary.
func thisVersion() string {
	if v := strings.TrimSpace(version); v != "" {
		return v
	}
	return client.ModuleVersion()
}
