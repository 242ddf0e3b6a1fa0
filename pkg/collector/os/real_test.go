package os

import (
	stdos "os"
	"path/filepath"
	"testing"

	"github.com/NVIDIA/aicr/pkg/collector"
	"github.com/NVIDIA/aicr/pkg/collector/host"
	"github.com/NVIDIA/aicr/pkg/collector/host/hosttest"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

// TestRealFiles reads files of real hosts in the place where a host has them.
func TestRealFiles(t *testing.T) {
	for _, c := range []struct {
		pattern, place string
		read           func(*host.Root, *collector.Findings)
	}{
		{"os-release/*", "etc/os-release", release},
		{"proc/modules.*", "proc/modules", modules},
	} {
		t.Run(c.place, func(t *testing.T) {
			for _, file := range hosttest.Shared(t, c.pattern) {
				text, err := stdos.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				root, err := host.View{Root: hosttest.Tree(t, map[string]string{c.place: string(text)})}.Open()
				if err != nil {
					t.Fatal(err)
				}
				var f collector.Findings
				c.read(root, &f)
				_ = root.Close()
				hosttest.Golden(t, filepath.Join("real", filepath.Base(file)+".golden.yaml"), f.Result(measurement.TypeOS))
			}
		})
	}
}
