package os

import (
	"slices"
	"strings"

	"github.com/NVIDIA/aicr/pkg/measurement"
)

// virtualization reports who made the machine, and whether it is a virtual
// one. Where nothing tells, as on Arm without a device tree, that is absent.
func (m machineReader) virtualization(cpu map[string]string) {
	m.text("system-vendor", "sys/class/dmi/id/sys_vendor")
	m.text("system-product", "sys/class/dmi/id/product_name")
	const key = "virtual-machine"
	if flags, ok := cpu["flags"]; ok { // x86: CPUID leaf 1, ECX bit 31
		m.data[key] = measurement.Bool(slices.Contains(strings.Fields(flags), "hypervisor"))
	}
	for _, file := range []string{"sys/hypervisor/type", "sys/firmware/devicetree/base/hypervisor/compatible"} {
		if v, ok := m.read("hypervisor", file); ok {
			// The device tree's strings end in NUL.
			m.data["hypervisor"] = measurement.Str(strings.TrimRight(v, "\x00"))
			m.data[key] = measurement.Bool(true)
			return
		}
	}
}
