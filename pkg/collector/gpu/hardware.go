package gpu

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
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

type pciGPU struct {
	// address is as in sysfs: 0000:3b:00.0.
	address string
	// driver is the name of the driver bound, or "".
	driver string
	data   map[string]measurement.Reading
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
			f.Unread(SubtypeHardware+"/"+e.Name(), err.Error())
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
	unread := func(key string, err error) {
		f.Unread(SubtypeHardware+"/"+address+"/"+key, err.Error())
	}
	if id, err := dev.ReadString("device"); err != nil {
		unread("device", err)
	} else {
		g.data["device"] = measurement.Str(id)
	}
	// -1 tells that the device belongs to no NUMA node.
	if text, err := dev.ReadString("numa_node"); err == nil {
		node, err := strconv.Atoi(text)
		if err != nil {
			unread("numa-node", err)
		} else if node >= 0 {
			g.data["numa-node"] = measurement.Int(node)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		unread("numa-node", err)
	}
	if g.driver, err = dev.LinkName("driver"); err == nil {
		g.data["driver"] = measurement.Str(g.driver)
	} else if g.driver = ""; !errors.Is(err, fs.ErrNotExist) {
		unread("driver", err)
	}
	b.gpus = append(b.gpus, g)
	return nil
}

// subtype reports the GPUs; driverState is "" where there are none.
func (b bus) subtype(driverState string) measurement.Subtype {
	s := measurement.Subtype{
		Name:    SubtypeHardware,
		Data:    map[string]measurement.Reading{KeyCount: measurement.Int(len(b.gpus))},
		Context: map[string]string{"source": "/" + busDir},
	}
	if driverState != "" {
		s.Data[KeyDriverState] = measurement.Str(driverState)
	}
	if b.virtualFunctions > 0 {
		s.Data["virtual-functions"] = measurement.Int(b.virtualFunctions)
	}
	for _, g := range b.gpus {
		s.Items = append(s.Items, measurement.Item{Name: g.address, Data: g.data})
	}
	return s
}
