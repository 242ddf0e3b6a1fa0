// Package os reads the operating system of a host: its release, kernel,
// kernel command line, loaded modules, sysctls and the machine it runs on.
//
// The release is a file of the host's, the rest is the kernel's. From a
// container that has files and namespaces of its own, only what is the host's
// by nature is reported; the status names the rest. prometheus/procfs would
// serve little here: it splits quoted kernel parameters and knows neither
// modules nor a walk over all sysctls.
package os

import (
	"context"
	"errors"
	"io/fs"
	stdos "os"
	"runtime"
	"strconv"

	"github.com/NVIDIA/aicr/pkg/collector"
	"github.com/NVIDIA/aicr/pkg/collector/host"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

// The subtypes.
const (
	subtypeRelease  = "release"
	subtypeKernel   = "kernel"
	subtypeGrub     = "grub"
	subtypeKmod     = "kmod"
	subtypeSysctl   = "sysctl"
	subtypeHardware = "hardware"
)

// keySource is the context key that names the file or folder read.
const keySource = "source"

// Collector reads the operating system. It is immutable.
type Collector struct{ view host.View }

var _ collector.Collector = Collector{}

// New returns a collector for the host as view shows it.
func New(view host.View) Collector { return Collector{view} }

// Name implements [collector.Collector].
func (Collector) Name() string { return "os" }

// Collect implements [collector.Collector].
func (c Collector) Collect(ctx context.Context) collector.Result {
	var f collector.Findings
	root, err := c.view.Open()
	if err != nil {
		f.Because("%v", err)
		return f.Result(measurement.TypeOS)
	}
	defer func() { _ = root.Close() }()

	if c.view.Files {
		release(root, &f)
	} else {
		f.Skip(subtypeRelease, "only the container's files were seen, not the host's; run privileged to read it")
		f.Because("only the container was seen: the host's release and the sysctls of its namespaces are left out; run privileged to read them")
	}
	kernel(root, &f)
	commandLine(root, &f)
	modules(root, &f)
	hardware(root, stdos.Getpagesize(), &f)
	sysctls(ctx, c.view, root, &f)
	return f.Result(measurement.TypeOS)
}

func release(root *host.Root, f *collector.Findings) {
	// The order is os-release(5)'s: the first file that exists counts.
	var err error
	for _, name := range []string{"etc/os-release", "usr/lib/os-release"} {
		var text string
		if text, err = root.ReadString(name); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			break
		}
		data, bad := parseRelease(text)
		for _, line := range bad {
			f.Unread(subtypeRelease+"/line "+strconv.Itoa(line), "no KEY=value as in os-release(5)")
		}
		f.Add(measurement.Subtype{Name: subtypeRelease, Data: data, Context: map[string]string{keySource: "/" + name}})
		return
	}
	f.Unread(subtypeRelease, host.Reason(err))
}

func kernel(root *host.Root, f *collector.Findings) {
	data := map[string]measurement.Reading{}
	for key, name := range map[string]string{"release": "osrelease", "version": "version", "arch": "arch"} {
		v, err := root.ReadString("proc/sys/kernel/" + name)
		switch {
		case err == nil:
			data[key] = measurement.Str(v)
		case key == "arch" && errors.Is(err, fs.ErrNotExist):
			// Before Linux 6.1. This program runs on that kernel.
			data[key] = measurement.Str(machine(runtime.GOARCH))
		default:
			f.Unread(subtypeKernel+"/"+key, host.Reason(err))
		}
	}
	f.Add(measurement.Subtype{Name: subtypeKernel, Data: data})
}

// machine returns uname's name of Go's architecture.
func machine(goarch string) string {
	switch goarch {
	case "amd64":
		return "x86_64"
	case "arm64":
		return "aarch64"
	}
	return goarch
}

func commandLine(root *host.Root, f *collector.Findings) {
	text, err := root.ReadString("proc/cmdline")
	if err != nil {
		f.Unread(subtypeGrub, host.Reason(err))
		return
	}
	f.Add(grub(parseCommandLine(text)))
}

func modules(root *host.Root, f *collector.Findings) {
	s := measurement.Subtype{Name: subtypeKmod, Data: map[string]measurement.Reading{}}
	text, err := root.ReadString("proc/modules")
	if errors.Is(err, fs.ErrNotExist) {
		if _, errProc := root.Stat("proc/version"); errProc == nil {
			// A kernel built without modules has no such file.
			s.Context = map[string]string{"modules": "the kernel has no loadable modules"}
			f.Add(s)
			return
		}
	}
	if err != nil {
		f.Unread(subtypeKmod, host.Reason(err))
		return
	}
	names, bad := parseModules(text)
	for _, n := range names {
		s.Data[measurement.Key(n)] = measurement.Bool(true)
	}
	for _, line := range bad {
		f.Unread(subtypeKmod+"/line "+strconv.Itoa(line), "not as in proc_modules(5)")
	}
	f.Add(s)
}
