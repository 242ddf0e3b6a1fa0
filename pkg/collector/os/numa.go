package os

import (
	"path"
	"strconv"

	"github.com/NVIDIA/aicr/pkg/measurement"
)

const nodeDir = "sys/devices/system/node"

// numaNodes counts the NUMA nodes and returns an item for each. Where GPUs'
// memory is the machine's too, as with Grace, nodes without processors hold it.
func (m machineReader) numaNodes() []measurement.Item {
	const key = "numa-nodes"
	text, ok := m.read(key, nodeDir+"/online")
	if !ok {
		return nil
	}
	nodes, err := parseList(text)
	if err != nil {
		m.unread(key, err)
		return nil
	}
	m.data[key] = measurement.Int(len(nodes))
	var items []measurement.Item
	for _, n := range nodes {
		name := "node" + strconv.Itoa(n)
		item := measurement.Item{Name: name, Data: map[string]measurement.Reading{}}
		if cpus, ok := m.read(name+"/cpus", path.Join(nodeDir, name, "cpulist")); ok {
			item.Data["cpus"] = measurement.Str(cpus)
		}
		if info, ok := m.read(name+"/memory-total-kib", path.Join(nodeDir, name, "meminfo")); ok {
			if total, ok := parseMemInfo(info)["MemTotal"]; ok {
				item.Data["memory-total-kib"] = measurement.Uint(total)
			}
		}
		items = append(items, item)
	}
	return items
}
