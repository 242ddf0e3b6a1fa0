// Package gpu finds a host's NVIDIA GPUs on the PCI bus and asks their driver,
// through nvidia-smi, what they are.
//
// The two are told apart, because a driver that hangs must not read as a host
// without GPUs: hardware tells what sits on the bus and whether the driver
// answered, smi and devices tell what the driver said.
package gpu

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

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
	// KeyDriverState is one of the Driver states; absent without GPUs.
	KeyDriverState = "driver-state"
)

// What KeyDriverState reads.
const (
	// DriverAnswering: the driver answered nvidia-smi.
	DriverAnswering = "answering"
	// DriverNotAnswering: nvidia-smi ran, and failed or hung.
	DriverNotAnswering = "not answering"
	// DriverNotBound: the nvidia driver holds none of the GPUs.
	DriverNotBound = "not bound"
	// DriverNotAsked: there is no nvidia-smi that can be run.
	DriverNotAsked = "not asked"
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
	}
	if err == nil && len(bus.gpus) == 0 {
		f.Add(bus.subtype(""))
		return f.Result(measurement.TypeGPU)
	}
	state, log := DriverNotBound, smiLog{}
	var reason string
	if unbound := bus.unbound(); err == nil && unbound != "" {
		// nvidia-smi could only fail; as root it would load the driver's
		// module first, and a snapshot changes nothing.
		reason = "the nvidia driver is bound to none of the GPUs: " + unbound
	} else {
		log, state, reason = c.ask(ctx, root)
	}
	if err == nil {
		f.Add(bus.subtype(state))
	}
	if state != DriverAnswering {
		f.Unread(SubtypeSMI, reason)
		f.Unread(SubtypeDevices, reason)
		f.Because("%s", reason)
		return f.Result(measurement.TypeGPU)
	}
	if reason != "" {
		f.Unread(SubtypeSMI, reason)
	}
	log.report(&f)
	reportMissing(bus, log, &f)
	return f.Result(measurement.TypeGPU)
}

// reportMissing tells of GPUs that the driver holds and yet said nothing of,
// as of one that fell off the bus.
func reportMissing(bus bus, log smiLog, f *collector.Findings) {
	for _, g := range bus.gpus {
		if g.driver != nvidiaDriver {
			continue
		}
		told := slices.ContainsFunc(log.GPUs, func(s smiGPU) bool { return s.address() == g.address })
		if !told {
			f.Unread(SubtypeDevices+"/"+g.address, "nvidia-smi told nothing of it")
		}
	}
}

// ask runs the first nvidia-smi that can tell something. Unless the state is
// DriverAnswering, the reason tells why not; with it, a reason is a warning.
func (c Collector) ask(ctx context.Context, root *host.Root) (log smiLog, state, reason string) {
	state, reason = DriverNotAsked, "nvidia-smi not found: GPUs are known from the PCI bus alone"
	for _, p := range places(c.view, c.hint, c.path) {
		if !p.exists(root) {
			continue
		}
		a := runChild(ctx, p)
		switch {
		case a.startErr != nil:
			reason = fmt.Sprintf("nvidia-smi cannot be started: %s: %v", p.name(), a.startErr)
			continue
		case a.hung:
			return log, DriverNotAnswering, fmt.Sprintf("driver not answering: %s gave no answer within %v", p.name(), a.took)
		}
		parsed, err := parseSMI(a.out)
		if err == nil {
			parsed.source = p.name()
			return parsed, DriverAnswering, a.ending()
		}
		state = DriverNotAnswering
		reason = fmt.Sprintf("driver not answering: %s %s: %s", p.name(), a.ending(), a.firstLine())
		if a.code == 0 && !a.flooded {
			reason = fmt.Sprintf("%s told no valid XML: %v", p.name(), err)
		}
		if !a.otherMayAnswer() {
			break
		}
	}
	return log, state, reason
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
