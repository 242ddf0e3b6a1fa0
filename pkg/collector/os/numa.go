package os

import (
	"path"
	"strconv"
	"strings"

	"github.com/NVIDIA/aicr/pkg/measurement"
)

const (
	nodeDir = "sys/devices/system/node"
	// maxZoneInfo is enough for thousands of processors: each has a few lines
	// in each zone of memory.
	maxZoneInfo = 16 << 20
)

// numaNodes counts the NUMA nodes and returns an item for each. Where GPUs'
// memory is the machine's too, as with Grace, nodes without processors hold it.
//
// A node's memory is what is present. Its MemTotal would not do: it grows
// while the kernel is still putting a large memory to use.
func (m machineReader) numaNodes() []measurement.Item {
	const key, memoryKey = "numa-nodes", "memory-present-kib"
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
	zones, err := m.root.ReadFile("proc/zoneinfo", maxZoneInfo)
	if err != nil {
		m.unread("numa-nodes/"+memoryKey, err)
	}
	present := parseZoneInfo(string(zones))
	var items []measurement.Item
	for _, n := range nodes {
		name := "node" + strconv.Itoa(n)
		item := measurement.Item{Name: name, Data: map[string]measurement.Reading{}}
		if cpus, ok := m.read(name+"/cpus", path.Join(nodeDir, name, "cpulist")); ok {
			item.Data["cpus"] = measurement.Str(cpus)
		}
		if pages, ok := present[n]; ok {
			item.Data[memoryKey] = measurement.Uint(pages * uint64(m.pageSize) >> 10)
		}
		items = append(items, item)
	}
	return items
}

// parseZoneInfo returns the pages present in each NUMA node, which
// proc_zoneinfo(5) tells by zone: "Node 0, zone Normal", then "present 4711".
func parseZoneInfo(text string) map[int]uint64 {
	pages := map[int]uint64{}
	node := -1
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "Node "); ok {
			number, _, _ := strings.Cut(rest, ",")
			n, err := strconv.ParseUint(number, 10, 16)
			if node = int(n); err != nil {
				node = -1
			}
			continue
		}
		fields := strings.Fields(line)
		if node < 0 || len(fields) != 2 || fields[0] != "present" {
			continue
		}
		if n, err := strconv.ParseUint(fields[1], 10, 48); err == nil {
			pages[node] += n
		}
	}
	return pages
}
