// Package host tells what of a host this process can truly see, and reads
// below a root that stands for the host's.
//
// A pod has files and namespaces of its own. What a collector reads there is
// the host's only where the pod shares it, or where it belongs to the kernel
// that all share. A [View] holds that knowledge, so that no collector tells a
// container's state as the host's.
package host

import (
	"os"
	"path/filepath"
)

// Namespace is a set of kernel namespaces (namespaces(7)).
type Namespace uint8

// The namespaces that values in /proc/sys can belong to.
const (
	Net Namespace = 1 << iota
	IPC
	UTS
	PID
	User
	// Init, the empty set, stands for what belongs to the kernel itself.
	Init Namespace = 0
)

const all = Net | IPC | UTS | PID | User

// View is what a process can see of its host. It is immutable.
type View struct {
	// Root is the folder that stands for the host's "/".
	Root string
	// Files tells that the files below Root are the host's. Otherwise they
	// are a container's, and only what the kernel shows there (/proc, /sys)
	// can be the host's.
	Files bool
	// Shared holds the namespaces that this process shares with the host.
	Shared Namespace
}

// Shares reports whether the process shares all namespaces of n with the host.
func (v View) Shares(n Namespace) bool { return v.Shared&n == n }

// Local is the view of a process that runs on the host itself.
func Local() View { return View{Root: "/", Files: true, Shared: all} }

// Container is the view from an unprivileged container.
func Container() View { return View{Root: "/"} }

// Privileged is the view from a pod with the host's PIDs, through the root of
// process 1. It does not trust that the pod was made so: where process 1 is
// not in a mount namespace of its own, or cannot be looked at, the process
// sees its own container only, and the view says so.
//
// Some security modules guard process 1 even from root. There the kernel's
// thread daemon stands in, which shares its root and namespaces.
func Privileged() View { return fromProc("/proc") }

func fromProc(proc string) View {
	for _, pid := range []string{"1", "2"} {
		if v, ok := throughProcess(proc, pid); ok {
			return v
		}
	}
	return Container()
}

// throughProcess returns the view through that process' root, if it is the
// host's.
func throughProcess(proc, pid string) (View, bool) {
	if comm, err := os.ReadFile(filepath.Join(proc, pid, "comm")); pid == "2" && (err != nil || string(comm) != "kthreadd\n") {
		return View{}, false
	}
	same := func(ns string) (same, known bool) {
		self, err1 := os.Readlink(filepath.Join(proc, "self", "ns", ns))
		its, err2 := os.Readlink(filepath.Join(proc, pid, "ns", ns))
		return self == its, err1 == nil && err2 == nil
	}
	root := filepath.Join(proc, pid, "root")
	if own, known := same("mnt"); own || !known {
		return View{}, false
	}
	if _, err := os.Stat(filepath.Join(root, "proc", "sys")); err != nil {
		return View{}, false
	}
	v := View{Root: root, Files: true}
	for name, n := range map[string]Namespace{"net": Net, "ipc": IPC, "uts": UTS, "pid": PID, "user": User} {
		if shared, known := same(name); shared && known {
			v.Shared |= n
		}
	}
	return v, true
}
