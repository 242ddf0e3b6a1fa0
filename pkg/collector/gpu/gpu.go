// Package gpu finds a host's NVIDIA GPUs on the PCI bus and asks their driver,
// through nvidia-smi, what they are.
//
// The two are told apart, because a driver that hangs must not read as a host
// without GPUs: hardware tells what sits on the bus and whether the driver
// answered, smi and devices tell what the driver said.
package gpu

import (
	"context"
	"os"

	"github.com/NVIDIA/aicr/pkg/collector"
	"github.com/NVIDIA/aicr/pkg/collector/host"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

// The subtypes, and the keys of hardware that tell whether GPUs can be used.
const (
	SubtypeHardware = "hardware"
	SubtypeSMI      = "smi"
	SubtypeDevices  = "devices"

	// KeyCount is the number of GPUs on the bus.
	KeyCount = "count"
	// KeyState is one of the Driver states, of all GPUs together and of each;
	// absent without GPUs.
	KeyState = "state"
)

// What KeyState reads.
const (
	// DriverAnswering: the driver answered nvidia-smi.
	DriverAnswering = "driver answering"
	// DriverNotAnswering: nvidia-smi ran, and failed or hung, or told nothing
	// of the GPU.
	DriverNotAnswering = "driver not answering"
	// DriverNotBound: the nvidia driver does not hold the GPU, or none of them.
	DriverNotBound = "driver not bound"
	// DriverNotAsked: there is no nvidia-smi that can be run, or it cannot see
	// the GPU from this container.
	DriverNotAsked = "driver not asked"
)

// Collector finds GPUs and asks their driver. It is immutable.
type Collector struct {
	view host.View
	// hint is the ID of the host's system in os-release, or "".
	hint string
	// path lists the folders that may hold an nvidia-smi of this process'
	// own files, the way that PATH does.
	path string
}

var _ collector.Collector = Collector{}

// New returns a collector for the host as view shows it. osID is the host's ID
// in os-release(5), such as "cos" or "talos", or ""; the places where that
// system keeps nvidia-smi are looked at first.
func New(view host.View, osID string) Collector {
	return Collector{view: view, hint: osID, path: os.Getenv("PATH") + ownPath}
}

// Name implements [collector.Collector].
func (Collector) Name() string { return "gpu" }

// Collect implements [collector.Collector]. Where the driver does not answer
// in time, it asks nvidia-smi to end, kills it, and returns by the end of ctx
// what the bus told.
func (c Collector) Collect(ctx context.Context) collector.Result {
	var f collector.Findings
	root, err := c.view.Open()
	if err != nil {
		f.Because("%v", err)
		return f.Result(measurement.TypeGPU)
	}
	defer func() { _ = root.Close() }()

	bus, err := readBus(root, &f)
	if err != nil {
		f.Unread(SubtypeHardware, err.Error())
	} else if len(bus.gpus) == 0 {
		c.addHardware(root, bus, "", &f)
		f.Skip(SubtypeSMI, noGPU)
		f.Skip(SubtypeDevices, noGPU)
		return f.Result(measurement.TypeGPU)
	}
	busRead := err == nil
	a := reply{state: DriverNotBound}
	if held := bus.unbound(); busRead && held != "" {
		// nvidia-smi could only fail; as root it would load the driver's
		// module first, and a snapshot changes nothing.
		a.reason = "the nvidia driver is bound to none of the GPUs: " + held
	} else {
		a = c.askInTime(ctx, root)
	}
	whole := c.compare(&bus, a, &f)
	if busRead {
		c.addHardware(root, bus, a.state, &f)
	}
	if a.state != DriverAnswering {
		f.Unread(SubtypeSMI, a.reason)
		f.Unread(SubtypeDevices, a.reason)
		f.Because("%s", a.reason)
		return f.Result(measurement.TypeGPU)
	}
	if a.reason != "" {
		f.Unread(SubtypeSMI, a.reason)
	}
	a.log.report(&f, whole)
	return f.Result(measurement.TypeGPU)
}

const noGPU = "there is no NVIDIA GPU on the PCI bus"

func (c Collector) addHardware(root *host.Root, bus bus, state string, f *collector.Findings) {
	s := bus.subtype(state)
	kernelModules(root, s.Data, f)
	f.Add(s)
}

// compare sets each GPU's state and tells of those that the driver holds and
// yet said nothing of, as of one that fell off the bus. It reports whether the
// reply is the host's: in a container it may be of the GPUs given to it alone.
func (c Collector) compare(bus *bus, a reply, f *collector.Findings) (whole bool) {
	whole = c.view.Files || len(bus.gpus) > 0
	for _, g := range bus.gpus {
		state := a.state
		switch {
		case g.driver != nvidiaDriver:
			state = DriverNotBound
		case a.state != DriverAnswering || a.log.tellsOf(g.address):
		case c.view.Files:
			state = DriverNotAnswering
			f.Unread(SubtypeDevices+"/"+g.address, "nvidia-smi told nothing of it")
		default:
			state, whole = DriverNotAsked, false
			f.Unread(SubtypeDevices+"/"+g.address, "it was not given to this container")
		}
		g.data[KeyState] = measurement.Str(state)
	}
	return whole
}
