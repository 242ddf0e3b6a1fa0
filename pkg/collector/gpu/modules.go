package gpu

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/NVIDIA/aicr/pkg/collector"
	"github.com/NVIDIA/aicr/pkg/collector/host"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

const modulesDir = "sys/module"

// kernelModules reports which of NVIDIA's kernel modules are loaded, the
// driver's version, and whether it is the open or the proprietary one.
func kernelModules(root *host.Root, data map[string]measurement.Reading, f *collector.Findings) {
	unread := func(key string, err error) { f.Unread(SubtypeHardware+"/"+key, host.Reason(err)) }
	if _, err := root.Stat(modulesDir); err != nil {
		unread("module", err)
		return
	}
	loaded := func(names ...string) bool {
		for _, name := range names {
			if _, err := root.Stat(path.Join(modulesDir, name)); err == nil {
				return true
			}
		}
		return false
	}
	// nv_peer_mem is peermem's older self, of Mellanox OFED.
	data["module.nvidia-uvm"] = measurement.Bool(loaded("nvidia_uvm"))
	data["module.nvidia-peermem"] = measurement.Bool(loaded("nvidia_peermem", "nv_peer_mem"))
	data["module.nvidia"] = measurement.Bool(loaded("nvidia"))
	if !loaded("nvidia") {
		return
	}
	for key, file := range map[string]string{"module.version": "version", "module.kind": "taint"} {
		text, err := root.ReadString(path.Join(modulesDir, "nvidia", file))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			unread(key, err)
		case file == "taint":
			data[key] = measurement.Str(moduleKind(text))
		default:
			data[key] = measurement.Str(strings.TrimSpace(text))
		}
	}
}

// moduleKind tells a module's licence by how it taints the kernel: P stands
// for a proprietary one (Documentation/admin-guide/tainted-kernels.rst).
func moduleKind(taint string) string {
	if strings.Contains(taint, "P") {
		return "proprietary"
	}
	return "open"
}
