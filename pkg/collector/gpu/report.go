package gpu

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/NVIDIA/aicr/pkg/collector"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

// report adds what the driver said to the findings.
func (l smiLog) report(f *collector.Findings) {
	smi := readings{prefix: SubtypeSMI, data: map[string]measurement.Reading{}, f: f}
	smi.text("driver-version", l.Driver)
	smi.text("cuda-version", l.CUDA)
	smi.number(KeyCount, l.Attached, "")
	f.Add(measurement.Subtype{Name: SubtypeSMI, Data: smi.data, Context: map[string]string{"source": l.source}})

	devices := measurement.Subtype{Name: SubtypeDevices, Data: map[string]measurement.Reading{}}
	for i, g := range l.GPUs {
		devices.Items = append(devices.Items, g.item(i, f))
	}
	f.Add(devices)
	if n, ok := smi.data[KeyCount]; ok && !n.Equal(measurement.Int(len(l.GPUs))) {
		f.Unread(SubtypeDevices, fmt.Sprintf("nvidia-smi counts %v GPUs and told of %d", n, len(l.GPUs)))
	}
}

// item is named by the PCI address, as the item in hardware is. index is the
// place in nvidia-smi's order, which is its -i.
func (g smiGPU) item(index int, f *collector.Findings) measurement.Item {
	name := g.address()
	if name == "" {
		name = strconv.Itoa(index)
	}
	r := readings{prefix: SubtypeDevices + "/" + name, data: map[string]measurement.Reading{}, f: f}
	r.data["index"] = measurement.Int(index)
	r.text("uuid", g.UUID)
	r.text("pci-address", g.address())
	r.text("product", g.Product)
	r.text("architecture", g.Architecture)
	r.text("vbios", g.VBIOS)
	r.number("memory-total-mib", g.MemoryTotal, "MiB")
	r.text("ecc-mode", g.ECC)
	r.text("mig-mode", g.MIG)
	r.text("persistence-mode", g.Persistence)
	return measurement.Item{Name: name, Data: r.data}
}

// readings sorts printed values into what was read, what is absent and what
// could not be read.
type readings struct {
	prefix string
	data   map[string]measurement.Reading
	f      *collector.Findings
}

func (r readings) unread(key, reason string) { r.f.Unread(r.prefix+"/"+key, reason) }

func (r readings) text(key, printed string) {
	switch v, s := judge(printed); s {
	case isValue:
		r.data[key] = measurement.Str(v)
	case isUnreadable:
		r.unread(key, "nvidia-smi tells "+strconv.Quote(v))
	}
}

// number reads a whole number followed by that unit, or by none.
func (r readings) number(key, printed, unit string) {
	v, s := judge(printed)
	if s != isValue {
		r.text(key, printed)
		return
	}
	digits, ok := strings.CutSuffix(v, unit)
	n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
	if !ok || err != nil {
		r.unread(key, strings.TrimSpace(fmt.Sprintf("nvidia-smi tells %q, which is no number of %s", v, unit)))
		return
	}
	r.data[key] = measurement.Int(n)
}
