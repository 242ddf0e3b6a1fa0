package os

import (
	stdos "os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/NVIDIA/aicr/pkg/collector/host"
	"github.com/NVIDIA/aicr/pkg/collector/host/hosttest"
)

func TestPermissionDeniedIsUnreadButATriggerIsNot(t *testing.T) {
	files := smallHost()
	files["proc/sys/vm/trigger"], files["proc/sys/vm/private"] = "1\n", "1\n"
	root := hosttest.Tree(t, files)
	// Read bits, yet none for who reads: nobody in root's case, else the owner.
	private := stdos.FileMode(0o040)
	if stdos.Getuid() == 0 {
		private = 0o400
	}
	for name, mode := range map[string]stdos.FileMode{"trigger": 0o200, "private": private} {
		if err := stdos.Chmod(filepath.Join(root, "proc/sys/vm", name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if stdos.Getuid() == 0 {
		// Nothing keeps root out of a file: to the file system, this
		// goroutine's thread becomes nobody for a while.
		if err := stdos.Chmod(filepath.Dir(root), 0o755); err != nil {
			t.Fatal(err)
		}
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := syscall.Setfsuid(65534); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = syscall.Setfsuid(0) }()
	}
	r := collect(t, host.View{Root: root, Files: true, Shared: everything})
	got := unreadOf(r)
	delete(got, "release/line 5")
	if diff := cmp.Diff(map[string]string{"sysctl/vm.private": "permission denied"}, got); diff != "" {
		t.Error(diff)
	}
}
