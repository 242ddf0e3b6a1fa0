package gpu

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/NVIDIA/aicr/pkg/collector"
	"github.com/NVIDIA/aicr/pkg/collector/host"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

const (
	busDir = "sys/bus/pci/devices"
	// vendorNVIDIA and classDisplay are from the PCI ID repository; the class
	// covers VGA (0300) and 3D (0302) controllers.
	vendorNVIDIA = "0x10de"
	classDisplay = "0x03"
	nvidiaDriver = "nvidia"
)

// bus is what the PCI bus tells. It is read from sysfs directly: go-nvlib's
// nvpci reads the same few files, and brings a list of PCI IDs of 1.6 MB that
// it parses on each use, configuration space that needs root, and warnings on
// a log of its own.
type bus struct {
	gpus []pciGPU
	// virtualFunctions counts SR-IOV functions, which are parts of GPUs here.
	virtualFunctions int
}

// readBus finds the GPUs, in order of address. A host without a PCI bus has
// none; one whose sysfs cannot be read is an error.
func readBus(root *host.Root, f *collector.Findings) (bus, error) {
	var b bus
	entries, err := root.ReadDir(busDir)
	if errors.Is(err, fs.ErrNotExist) {
		if _, errSys := root.Stat("sys/bus"); errSys == nil {
			return b, nil
		}
	}
	if err != nil {
		return b, fmt.Errorf("the PCI bus cannot be read: %w", err)
	}
	for _, e := range entries {
		if err := b.add(root, e.Name(), f); err != nil {
			f.Unread(SubtypeHardware+"/"+e.Name(), host.Reason(err))
		}
	}
	return b, nil
}

// add takes in the device at address where it is a GPU.
func (b *bus) add(root *host.Root, address string, f *collector.Findings) error {
	dev, err := root.Sub(path.Join(busDir, address))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // unplugged since the folder was read
	}
	if err != nil {
		return err
	}
	defer func() { _ = dev.Close() }()

	class, err := dev.ReadString("class")
	if err != nil {
		return err
	}
	if !strings.HasPrefix(class, classDisplay) {
		return nil
	}
	vendor, err := dev.ReadString("vendor")
	if err != nil || vendor != vendorNVIDIA {
		return err
	}
	if _, err := dev.LinkName("physfn"); err == nil {
		b.virtualFunctions++
		return nil
	}
	g := pciGPU{address: address, data: map[string]measurement.Reading{
		"class": measurement.Str(class), "vendor": measurement.Str(vendor),
	}}
	d := deviceReader{dir: dev, data: g.data, unread: func(key string, err error) {
		f.Unread(SubtypeHardware+"/"+address+"/"+key, host.Reason(err))
	}}
	if id, err := dev.ReadString("device"); err != nil {
		d.unread("device", err) // every device has one
	} else {
		g.data["device"] = measurement.Str(id)
	}
	if g.driver = d.link("driver", "driver"); g.driver != "" {
		g.data["driver"] = measurement.Str(g.driver)
	}
	d.numaNode()
	d.iommuGroup()
	d.pcieLink("", "current_link_speed", "current_link_width")
	d.pcieLink("-max", "max_link_speed", "max_link_width")
	b.gpus = append(b.gpus, g)
	return nil
}

// unbound lists the drivers that hold the GPUs, where none is nvidia's.
func (b bus) unbound() string {
	counts := map[string]int{}
	for _, g := range b.gpus {
		if g.driver == nvidiaDriver {
			return ""
		}
		counts[g.driver]++
	}
	var held []string
	for d, n := range counts {
		if d == "" {
			d = "no driver"
		}
		held = append(held, fmt.Sprintf("%d by %s", n, d))
	}
	slices.Sort(held)
	return strings.Join(held, ", ")
}

// subtype reports the GPUs. The state of each was set before.
func (b bus) subtype(state string) measurement.Subtype {
	s := measurement.Subtype{
		Name:    SubtypeHardware,
		Data:    map[string]measurement.Reading{KeyCount: measurement.Int(len(b.gpus))},
		Context: map[string]string{"source": "/" + busDir},
	}
	if len(b.gpus) > 0 {
		s.Data[KeyState] = measurement.Str(state)
	}
	if b.virtualFunctions > 0 {
		s.Data["virtual-functions"] = measurement.Int(b.virtualFunctions)
	}
	for _, g := range b.gpus {
		s.Items = append(s.Items, measurement.Item{Name: g.address, Data: g.data})
	}
	return s
}
