package os

import (
	"path"
	"strings"

	"github.com/NVIDIA/aicr/pkg/collector/host"
)

// sysctlNamespace tells whose value the kernel shows at a path below
// /proc/sys: that of the reader's namespace, whichever /proc it is read
// through.
func sysctlNamespace(p string) host.Namespace {
	switch top, rest, _ := strings.Cut(p, "/"); top {
	case "net":
		return host.Net
	case "user":
		return host.User // ucounts, kernel/ucount.c
	case "fs":
		if rest == "mqueue" || strings.HasPrefix(rest, "mqueue/") {
			return host.IPC
		}
	case "vm":
		if rest == "memfd_noexec" {
			return host.PID // kernel/pid_sysctl.h
		}
	case "kernel":
		return kernelNamespace(rest)
	}
	return host.Init
}

func kernelNamespace(name string) host.Namespace {
	switch name {
	case "hostname", "domainname":
		return host.UTS
	case "pid_max", "cad_pid":
		return host.PID // pid_max: one for each namespace since Linux 6.14
	case "sem", "sem_next_id", "auto_msgmni":
		return host.IPC // ipc/ipc_sysctl.c
	}
	for _, prefix := range []string{"shm", "msg"} {
		if strings.HasPrefix(name, prefix) {
			return host.IPC
		}
	}
	return host.Init
}

// sysctlFilter tells what of /proc/sys is no lasting setting.
type sysctlFilter struct {
	// ifaces are the interfaces whose settings are kept.
	ifaces map[string]bool
}

// leavesOut reports whether the file or folder at p is left out.
func (f sysctlFilter) leavesOut(p string) bool {
	switch p {
	case "fs/aio-nr", "fs/dentry-state", "fs/file-nr", "fs/inode-nr", "fs/inode-state",
		"kernel/hung_task_detect_count", "kernel/ns_last_pid", "kernel/pty/nr",
		"net/netfilter/nf_conntrack_count":
		return true // counters
	case "kernel/perf_event_max_sample_rate":
		return true // the kernel lowers it by what it measured
	case "vm/drop_caches", "vm/compact_memory", "fs/xfs/stats_clear", "net/ipv4/route/flush", "net/ipv6/route/flush":
		return true // triggers; old kernels let some be read
	case "vm/stat_refresh":
		return true // reading it makes every CPU fold its counters
	case "kernel/random", "net/core/netdev_rss_key":
		return true // random, new with each boot
	case "net/ipv4/tcp_fastopen_key":
		return true // a secret
	case "fs/binfmt_misc":
		return true // often an automount, which reading would mount
	case "kernel/sched_domain", "kernel/spl/kmem", "sunrpc/transports", "lnet":
		return true // state, up to thousands of values
	}
	if dir, name := path.Split(p); dir == "fs/quota/" {
		return name != "warnings" // counters
	}
	return path.Base(p) == "stable_secret" || f.leavesOutInterface(p)
}

// leavesOutInterface reports whether p is the folder of an interface that is
// not kept: net/ipv4/conf/<interface> and the like.
func (f sysctlFilter) leavesOutInterface(p string) bool {
	dir, name := path.Split(p)
	switch dir {
	case "net/ipv4/conf/", "net/ipv4/neigh/", "net/ipv6/conf/", "net/ipv6/neigh/", "net/mpls/conf/":
		return name != "all" && name != "default" && !f.ifaces[name]
	}
	return false
}

// deviceInterfaces names the interfaces that a device or a bond of devices
// stands behind. Interfaces of pods are many and come and go.
func deviceInterfaces(root *host.Root) map[string]bool {
	const class = "sys/class/net"
	kept := map[string]bool{}
	entries, err := root.ReadDir(class)
	if err != nil {
		return kept
	}
	for _, e := range entries {
		for _, mark := range []string{"device", "bonding"} {
			if _, err := root.Stat(path.Join(class, e.Name(), mark)); err == nil {
				kept[e.Name()] = true
			}
		}
	}
	return kept
}
