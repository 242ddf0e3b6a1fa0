package os

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/NVIDIA/aicr/pkg/collector"
	"github.com/NVIDIA/aicr/pkg/collector/host"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

// machineReader reads what the kernel tells of the machine. It is the host's from
// wherever it is read. A missing file means that the machine, or this kernel,
// does not have what it tells.
type machineReader struct {
	root *host.Root
	data map[string]measurement.Reading
	f    *collector.Findings
	// pageSize is the kernel's, in bytes.
	pageSize int
}

// hardware reports the machine: processors, memory, IOMMU, and whether it is a
// virtual one. The NUMA nodes are the items.
func hardware(root *host.Root, pageSize int, f *collector.Findings) {
	m := machineReader{root: root, data: map[string]measurement.Reading{}, f: f, pageSize: pageSize}
	cpu := m.cpuInfo()
	m.processors(cpu)
	m.memory()
	m.iommu()
	m.virtualization(cpu)
	items := m.numaNodes()
	if len(m.data) == 0 && len(items) == 0 {
		f.Unread(subtypeHardware, "neither /proc nor /sys tells of the machine")
		return
	}
	f.Add(measurement.Subtype{Name: subtypeHardware, Data: m.data, Items: items})
}

func (m machineReader) unread(key string, err error) {
	m.f.Unread(subtypeHardware+"/"+key, host.Reason(err))
}

// read returns a file's content without the white space around it, and whether
// there is such a file.
func (m machineReader) read(key, file string) (string, bool) {
	text, err := m.root.ReadString(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.unread(key, err)
	}
	return strings.TrimSpace(text), err == nil
}

// list returns the names in a folder, and whether there is one.
func (m machineReader) list(key, dir string) ([]string, bool) {
	entries, err := m.root.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.unread(key, err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err == nil
}

// text reports a file's content where it has any.
func (m machineReader) text(key, file string) {
	if v, _ := m.read(key, file); v != "" {
		m.data[key] = measurement.Str(v)
	}
}
