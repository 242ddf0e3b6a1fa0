package gpu

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/NVIDIA/aicr/pkg/collector/host"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

// pciGPU is a GPU as the bus shows it.
type pciGPU struct {
	// address is as in sysfs: 0000:3b:00.0.
	address string
	// driver is the name of the driver bound, or "".
	driver string
	data   map[string]measurement.Reading
}

// deviceReader reads the attributes of one device. A missing file means that
// the device, or this kernel, does not have the attribute.
type deviceReader struct {
	dir    *host.Root
	data   map[string]measurement.Reading
	unread func(key string, err error)
}

func (d deviceReader) attribute(key, file string) (string, bool) {
	text, err := d.dir.ReadString(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.unread(key, err)
	}
	return text, err == nil
}

func (d deviceReader) numaNode() {
	const key = "numa-node"
	text, ok := d.attribute(key, "numa_node")
	if !ok {
		return
	}
	node, err := strconv.Atoi(text)
	switch {
	case err != nil:
		d.unread(key, fmt.Errorf("the kernel tells %q", text))
	case node >= 0: // -1 tells that the device belongs to none
		d.data[key] = measurement.Int(node)
	}
}

// link returns what a symbolic link of the device's is named after, or "".
func (d deviceReader) link(key, file string) string {
	name, err := d.dir.LinkName(file)
	switch {
	case err == nil:
		return name
	case !errors.Is(err, fs.ErrNotExist):
		d.unread(key, err)
	}
	return ""
}

func (d deviceReader) iommuGroup() {
	const key = "iommu-group"
	name := d.link(key, "iommu_group")
	if name == "" {
		return
	}
	group, err := strconv.ParseUint(name, 10, 32)
	if err != nil {
		d.unread(key, fmt.Errorf("the kernel names it %q", name))
		return
	}
	d.data[key] = measurement.Uint(group)
}

// pcieLink reads speed and width of the link to the device. Which files there
// are, and how they read, is in the kernel's drivers/pci/pci-sysfs.c.
func (d deviceReader) pcieLink(suffix, speedFile, widthFile string) {
	speedKey, widthKey := "link-speed"+suffix+"-gtps", "link-width"+suffix
	speed, hasSpeed := d.attribute(speedKey, speedFile)
	width, hasWidth := d.attribute(widthKey, widthFile)
	if width == "0" || width == "255" {
		return // a device in a virtual machine need not have a link
	}
	if hasWidth {
		if lanes, err := parseLinkWidth(width); err != nil {
			d.unread(widthKey, err)
		} else {
			d.data[widthKey] = measurement.Int(lanes)
		}
	}
	if hasSpeed {
		if gtps, err := parseLinkSpeed(speed); err != nil {
			d.unread(speedKey, err)
		} else {
			d.data[speedKey] = measurement.Float(gtps)
		}
	}
}

// parseLinkSpeed reads "16.0 GT/s PCIe", or "8 GT/s" of older kernels, which
// is in 10^9 transfers a second.
func parseLinkSpeed(text string) (float64, error) {
	digits, _, ok := strings.Cut(text, " GT/s")
	speed, err := strconv.ParseFloat(digits, 64)
	if !ok || err != nil || !plainNumber.MatchString(digits) {
		return 0, fmt.Errorf("the kernel tells %q", text)
	}
	return speed, nil
}

// parseLinkWidth reads a number of lanes. A device that fell off the bus reads
// as all ones, which is 63 lanes.
func parseLinkWidth(text string) (int, error) {
	switch lanes, err := strconv.Atoi(text); lanes {
	case 1, 2, 4, 8, 12, 16, 32:
		return lanes, err
	}
	return 0, fmt.Errorf("the kernel tells %q lanes", text)
}
