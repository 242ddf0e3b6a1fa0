package os

import (
	"context"
	"errors"
	"io/fs"
	"strconv"
	"strings"

	"github.com/NVIDIA/aicr/pkg/collector"
	"github.com/NVIDIA/aicr/pkg/collector/host"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

// maxSysctl bounds one value; the longest that the kernel shows are lists of a
// few pages.
const maxSysctl = 64 << 10

// sysctls reads the settings below /proc/sys, under the names of sysctl(8).
// Left out are settings of a namespace that is not the host's, those of
// interfaces without a device, which come and go with pods, and what is no
// setting: counters, triggers, random values and keys.
func sysctls(ctx context.Context, view host.View, root *host.Root, f *collector.Findings) {
	dir, err := root.Sub("proc/sys")
	if err != nil {
		f.Unread(subtypeSysctl, host.Reason(err))
		return
	}
	defer func() { _ = dir.Close() }()
	w := &sysctlWalk{
		view: view, keep: sysctlFilter{ifaces: deviceInterfaces(root)},
		data: map[string]measurement.Reading{}, findings: f,
	}
	w.visit(ctx, dir, "")
	if err := ctx.Err(); err != nil {
		f.Unread(subtypeSysctl, "not all were read in time: "+err.Error())
	}
	leftOut := "counters, triggers, random values, keys; interfaces without a device"
	if own := ownNamespaces(view); own != "" {
		leftOut += "; settings of the container's own namespaces: " + own
		if !view.Files {
			f.Unread(subtypeSysctl, "only the container's "+own+" namespaces were seen, not the host's; run privileged to read their settings")
		}
	}
	f.Add(measurement.Subtype{Name: subtypeSysctl, Data: w.data, Context: map[string]string{
		keySource: "/proc/sys", "left-out": leftOut,
	}})
}

// ownNamespaces names the namespaces that are not the host's.
func ownNamespaces(view host.View) string {
	var own []string
	for _, n := range []struct {
		ns   host.Namespace
		name string
	}{{host.Net, "net"}, {host.IPC, "ipc"}, {host.UTS, "uts"}, {host.PID, "pid"}, {host.User, "user"}} {
		if !view.Shares(n.ns) {
			own = append(own, n.name)
		}
	}
	return strings.Join(own, ", ")
}

type sysctlWalk struct {
	view     host.View
	keep     sysctlFilter
	data     map[string]measurement.Reading
	findings *collector.Findings
}

// visit reads dir, which lies at prefix ("" or "net/ipv4/") below /proc/sys.
func (w *sysctlWalk) visit(ctx context.Context, dir *host.Root, prefix string) {
	entries, err := dir.ReadDir(".")
	if err != nil {
		w.unread(strings.TrimSuffix(prefix, "/"), err)
		return
	}
	for _, e := range entries {
		p := prefix + e.Name()
		if ctx.Err() != nil {
			return
		}
		if w.keep.leavesOut(p) || !w.view.Shares(sysctlNamespace(p)) {
			continue
		}
		if !e.IsDir() {
			w.read(dir, e.Name(), p)
			continue
		}
		sub, err := dir.Sub(e.Name())
		if err != nil {
			w.unread(p, err)
			continue
		}
		w.visit(ctx, sub, p+"/")
		_ = sub.Close()
	}
}

func (w *sysctlWalk) read(dir *host.Root, name, p string) {
	b, err := dir.ReadFile(name, maxSysctl)
	switch {
	case err == nil:
		w.data[measurement.Key(sysctlName(p))] = parseSysctl(string(b))
	case errors.Is(err, fs.ErrNotExist):
		// It went with its interface, or module, since the folder was read.
	case errors.Is(err, fs.ErrPermission) && writeOnly(dir, name):
	default:
		w.unread(p, err)
	}
}

func (w *sysctlWalk) unread(p string, err error) {
	w.findings.Unread(strings.TrimSuffix(subtypeSysctl+"/"+sysctlName(p), "/"), host.Reason(err))
}

// writeOnly tells a trigger, such as vm.compact_memory, which nobody can read.
func writeOnly(dir *host.Root, name string) bool {
	fi, err := dir.Stat(name)
	return err == nil && fi.Mode().Perm()&0o444 == 0
}

// sysctlName turns a path below /proc/sys into sysctl(8)'s name: dots and
// slashes change places, so that interface eth0.7 reads as eth0/7.
func sysctlName(p string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '/':
			return '.'
		case '.':
			return '/'
		}
		return r
	}, p)
}

// parseSysctl returns a number for what is one in its plain form, and text for
// the rest, tabs between values as blanks. Leading zeros mean more than a
// number, as in a mask, and stay.
func parseSysctl(text string) measurement.Reading {
	text = strings.ReplaceAll(strings.TrimRight(text, "\n"), "\t", " ")
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && strconv.FormatInt(n, 10) == text {
		return measurement.Int(n)
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil && strconv.FormatUint(n, 10) == text {
		return measurement.Uint(n)
	}
	return measurement.Str(text)
}
