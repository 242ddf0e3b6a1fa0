package os

import (
	"path"

	"github.com/NVIDIA/aicr/pkg/measurement"
)

const iommuGroupsDir = "sys/kernel/iommu_groups"

// iommu reports whether the kernel uses an IOMMU, how many units there are,
// and how many groups of devices, by the type of their domain: DMA and DMA-FQ
// are translated, identity is not (iommu=pt).
func (m machineReader) iommu() {
	if units, ok := m.list("iommu-units", "sys/class/iommu"); ok {
		m.data["iommu-units"] = measurement.Int(len(units))
	}
	groups, ok := m.list("iommu-groups", iommuGroupsDir)
	if !ok {
		return
	}
	m.data["iommu"] = measurement.Bool(len(groups) > 0)
	m.data["iommu-groups"] = measurement.Int(len(groups))
	types := map[string]int{}
	for _, g := range groups {
		if t, ok := m.read("iommu-groups/"+g, path.Join(iommuGroupsDir, g, "type")); ok {
			types[t]++
		}
	}
	for t, n := range types {
		m.data[measurement.Key("iommu-groups."+t)] = measurement.Int(n)
	}
}
