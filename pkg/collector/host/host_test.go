//go:build unix

package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/NVIDIA/aicr/pkg/collector/host/hosttest"
)

func open(t *testing.T, dir string) *Root {
	t.Helper()
	r, err := View{Root: dir}.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func TestReadFileFollowsLinksAsTheHostWould(t *testing.T) {
	r := open(t, hosttest.Tree(t, map[string]string{
		"usr/lib/os-release": "ID=x\n",
		"etc/os-release":     "-> ../usr/lib/os-release",
		"etc/absolute":       "-> /usr/lib/os-release",
		"etc/chain":          "-> absolute",
		"lib":                "-> usr/lib",
		"etc/through":        "-> ../lib/os-release",
		"etc/above":          "-> ../../../../usr/lib/os-release",
	}))
	for _, name := range []string{
		"usr/lib/os-release", "/usr/lib/os-release", "etc/os-release", "etc/absolute", "etc/chain",
		"etc/through", "etc/above", "../usr/lib/os-release", "etc/./../lib/os-release",
	} {
		got, err := r.ReadString(name)
		if err != nil || got != "ID=x" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestReadFileNeverLeavesTheRoot(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("outside"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := open(t, hosttest.Tree(t, map[string]string{
		"etc/absolute": "-> " + outside,
		"etc/relative": "-> ../../../../../../../../../.." + outside,
		"etc/dir":      "-> " + filepath.Dir(outside),
	}))
	for _, name := range []string{"etc/absolute", "etc/relative", "etc/dir/secret", outside, "../../../../../../../.." + outside} {
		if got, err := r.ReadFile(name, 100); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestReadFileRefusesWhatIsNoReadableFile(t *testing.T) {
	dir := hosttest.Tree(t, map[string]string{"loop": "-> loop", "large": "123456", "dir/x": "", "dangling": "-> nowhere"})
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := open(t, dir)
	for name, want := range map[string]string{
		"loop": "too many symbolic links", "large": "larger than 5 bytes", "dir": "no regular file",
		"fifo": "no regular file", "dangling": "no such file", "missing": "no such file",
	} {
		_, err := r.ReadFile(name, 5)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

func TestReadHeadReadsNoMoreThanAskedFor(t *testing.T) {
	r := open(t, hosttest.Tree(t, map[string]string{"large": "123456", "small": "1", "dir/x": ""}))
	for name, want := range map[string]string{"large": "1234", "small": "1"} {
		if got, err := r.ReadHead(name, 4); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := r.ReadHead("dir", 4); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Error(err)
	}
}

func TestReasonLeavesOutThePath(t *testing.T) {
	_, err := open(t, t.TempDir()).ReadFile("missing", 5)
	if got := Reason(fmt.Errorf("read: %w", err)); got != "no such file or directory" {
		t.Error(got)
	}
	if got := Reason(errors.New("x")); got != "x" {
		t.Error(got)
	}
}

func TestReadDirSortsAndStatAndLinkNameFollow(t *testing.T) {
	r := open(t, hosttest.Tree(t, map[string]string{
		"sys/devices/pci/b/x": "", "sys/devices/pci/a/x": "", "sys/bus/devices": "-> ../devices/pci",
		"sys/devices/pci/a/driver": "-> ../../../bus/drivers/nvidia",
	}))
	entries, err := r.ReadDir("sys/bus/devices")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if diff := cmp.Diff([]string{"a", "b"}, names); diff != "" {
		t.Error(diff)
	}
	if fi, err := r.Stat("sys/bus/devices/a"); err != nil || !fi.IsDir() {
		t.Error(fi, err)
	}
	if got, err := r.LinkName("sys/bus/devices/a/driver"); err != nil || got != "nvidia" {
		t.Error(got, err)
	}
	if _, err := r.LinkName("sys/bus/devices/b/driver"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// namespaces makes a /proc whose own process has namespaces of its own where
// own names them.
func namespaces(own ...string) map[string]string {
	files := map[string]string{"1/root/proc/sys/x": "", "1/comm": "init\n"}
	for _, n := range []string{"mnt", "net", "ipc", "uts", "pid", "user"} {
		files["1/ns/"+n] = "-> " + n + ":[1]"
		files["self/ns/"+n] = "-> " + n + ":[1]"
	}
	for _, n := range own {
		files["self/ns/"+n] = "-> " + n + ":[2]"
	}
	return files
}

func TestC27_PrivilegedViewSharesWhatTheKernelSaysItShares(t *testing.T) {
	proc := hosttest.Tree(t, namespaces("mnt", "ipc"))
	want := View{Root: filepath.Join(proc, "1/root"), Files: true, Shared: Net | UTS | PID | User}
	got := fromProc(proc)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !got.Shares(Net) || got.Shares(IPC) || got.Shares(Net|IPC) || !got.Shares(Init) {
		t.Errorf("shares: %+v", got)
	}
}

func TestC27_PrivilegedViewIsAContainersWhereTheHostIsNotSeen(t *testing.T) {
	noProc := namespaces("mnt")
	delete(noProc, "1/root/proc/sys/x")
	for name, files := range map[string]map[string]string{
		"process 1 has the same mounts":     namespaces(),
		"process 1 cannot be looked at":     {},
		"process 1's root shows no kernel":  noProc,
		"process 2 is a process of the pod": guarded("sh\n"),
	} {
		if diff := cmp.Diff(Container(), fromProc(hosttest.Tree(t, files))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// guarded makes a /proc where only process 2, of that name, may be looked at.
func guarded(comm string) map[string]string {
	files := map[string]string{}
	for name, content := range namespaces("mnt") {
		if rest, ok := strings.CutPrefix(name, "1/"); ok {
			name = "2/" + rest
		}
		files[name] = content
	}
	files["2/comm"] = comm
	return files
}

func TestC27_KernelThreadsStandInWhereProcess1IsGuarded(t *testing.T) {
	proc := hosttest.Tree(t, guarded("kthreadd\n"))
	want := View{Root: filepath.Join(proc, "2/root"), Files: true, Shared: Net | IPC | UTS | PID | User}
	if diff := cmp.Diff(want, fromProc(proc)); diff != "" {
		t.Error(diff)
	}
}
