//go:build unix

package serializer

import (
	"io/fs"
	"os"
	"syscall"
)

// noModes tells that the platform has no permission bits to keep.
const noModes = false

// keepOwner gives f the owner of the file that it replaces. Only root may give
// a file away; for everyone else a file becomes the writer's, as with any
// editor that replaces.
func keepOwner(f *os.File, old fs.FileInfo) {
	if st, ok := old.Sys().(*syscall.Stat_t); ok {
		_ = f.Chown(int(st.Uid), int(st.Gid))
	}
}

// syncFolder makes a rename in the folder outlast a power cut. The file is
// complete either way, and not all file systems can do it, so it may fail.
func syncFolder(dir string) {
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	_ = d.Sync()
	_ = d.Close()
}
