package gpu

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/NVIDIA/aicr/pkg/collector/host"
)

const smiName = "nvidia-smi"

// ownPath is where nvidia-smi lies in a container beside PATH: the NVIDIA
// container toolkit puts it in /usr/bin, GKE's device plugin in the other.
const ownPath = ":/usr/bin:/usr/local/nvidia/bin"

// driverRoot is where the GPU operator's driver container shows its files to
// the host.
const driverRoot = "run/nvidia/driver"

// place is where nvidia-smi may lie.
type place struct {
	// view is the root, relative to the host's, that the file is in: "" for
	// the host's own. It counts only where inHost is set.
	view   string
	inHost bool
	// chroot is the folder to run it in, or "" where that is this process' root.
	chroot string
	dir    string
	// libs is an LD_LIBRARY_PATH, where the system's loader needs one.
	libs string
	// os is the os-release ID of the system that keeps it there.
	os string
}

// systemPlaces are where systems keep nvidia-smi, in the order of how common
// they are. Talos and Bottlerocket install it by their own packages; COS has
// it from GKE's driver installer.
func systemPlaces() []place {
	return []place{
		{dir: "/usr/bin"},
		{dir: "/home/kubernetes/bin/nvidia/bin", libs: "/home/kubernetes/bin/nvidia/lib64", os: "cos"},
		{dir: "/usr/libexec/nvidia/tesla/bin", os: "bottlerocket"},
		{dir: "/usr/local/bin", libs: "/usr/local/glibc/usr/lib:/usr/local/lib", os: "talos"},
		{dir: "/opt/bin", os: "flatcar"},
		{dir: "/run/current-system/sw/bin", os: "nixos"},
	}
}

// places lists where to look, in order: this process' own files, the host's,
// those of a driver container on the host. The host's system hint goes first.
func places(view host.View, hint, ownPath string) []place {
	var out []place
	for _, dir := range filepath.SplitList(ownPath) {
		if !path.IsAbs(dir) {
			continue // the working folder must not matter
		}
		p := place{dir: path.Clean(dir)}
		if p.dir == "/usr/local/nvidia/bin" {
			p.libs = "/usr/local/nvidia/lib64"
		}
		out = append(out, p)
	}
	if view.Files {
		chroot := view.Root
		if filepath.Clean(chroot) == "/" {
			chroot = ""
		}
		for _, p := range systemPlaces() {
			p.inHost, p.chroot = true, chroot
			out = append(out, p)
		}
		out = append(out, place{inHost: true, view: driverRoot, chroot: filepath.Join(view.Root, driverRoot), dir: "/usr/bin"})
	}
	slices.SortStableFunc(out, func(a, b place) int {
		first := func(p place) bool { return p.os != "" && strings.EqualFold(p.os, hint) }
		switch {
		case first(a) == first(b):
			return 0
		case first(a):
			return -1
		}
		return 1
	})
	return dedup(out)
}

// dedup keeps the first of places that would run the same file.
func dedup(in []place) []place {
	type key struct{ chroot, dir string }
	seen := map[key]bool{}
	return slices.DeleteFunc(in, func(p place) bool {
		k := key{p.chroot, p.dir}
		was := seen[k]
		seen[k] = true
		return was
	})
}

// file is the path of nvidia-smi once the root is changed.
func (p place) file() string { return path.Join(p.dir, smiName) }

// name is the path as the host, or this container, knows it.
func (p place) name() string { return path.Join("/", p.view, p.file()) }

// exists reports whether there is a file to run. root is the host's.
func (p place) exists(root *host.Root) bool {
	stat := os.Stat
	if p.inHost {
		files, err := root.Sub(path.Join(".", p.view))
		if err != nil {
			return false
		}
		defer func() { _ = files.Close() }()
		stat = files.Stat
	}
	fi, err := stat(p.file())
	return err == nil && fi.Mode().IsRegular() && fi.Mode().Perm()&0o111 != 0
}
