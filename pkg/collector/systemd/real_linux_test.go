package systemd_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/NVIDIA/aicr/internal/devcluster/devtest"
	"github.com/NVIDIA/aicr/pkg/collector"
	"github.com/NVIDIA/aicr/pkg/collector/host"
	"github.com/NVIDIA/aicr/pkg/collector/host/hosttest"
	"github.com/NVIDIA/aicr/pkg/collector/systemd"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

// boot makes below /run what a host that runs systemd has: a systemd, a
// user's, since there can be only one of the system's, and the bus that it
// starts by the units below.
const boot = `set -eu
for h in /sys/fs/cgroup/systemd /sys/fs/cgroup/unified /sys/fs/cgroup; do
	if [ -e $h/cgroup.procs ]; then mkdir $h/$GROUP; echo 0 >$h/$GROUP/cgroup.procs; fi
done
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system
cp -rP "$UNITS" /run/units
unset LISTEN_FDS NOTIFY_SOCKET
export HOME=/run XDG_RUNTIME_DIR=/run SYSTEMD_UNIT_PATH=/run/units DBUS_SESSION_BUS_ADDRESS=unix:path=/run/dbus/system_bus_socket
exec "$SYSTEMD" --user --log-target=console`

const (
	systemdProgram = "/usr/lib/systemd/systemd"
	// envInside is set in the process that runs a test with a systemd.
	envInside = "AICR_TEST_INSIDE"
)

// inside reports whether this process may boot a systemd. It otherwise runs
// the test once more, as process 1 of namespaces of its own: what is started
// there ends with it, and systemd sees its callers' process IDs, as it does
// those of a pod with the host's PIDs.
func inside(t *testing.T) bool {
	t.Helper()
	if os.Getenv(envInside) != "" {
		return true
	}
	_, errSystemd := os.Stat(systemdProgram)
	_, errBus := exec.LookPath("dbus-daemon")
	if err := errors.Join(errSystemd, errBus); err != nil || os.Getuid() != 0 {
		if os.Getenv(devtest.EnvRequireNode) == "1" {
			t.Fatalf("needs root, systemd and dbus-daemon: %v", err)
		}
		t.Skipf("needs root, systemd and dbus-daemon: %v", err)
	}
	group := fmt.Sprintf("aicr-systemd-%d", os.Getpid())
	cmd := exec.Command(os.Args[0], "-test.v", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), envInside+"="+group)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	removeGroups(t, group)
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("%v\n%s", err, out)
	}
	return false
}

// realHost boots a systemd with those unit files, and returns a view of its
// host once default.target has been reached.
func realHost(t *testing.T, units map[string]string) host.View {
	t.Helper()
	cmd := exec.Command("sh", "-c", boot)
	cmd.Env = append(os.Environ(), "GROUP="+os.Getenv(envInside), "UNITS="+hosttest.Tree(t, units), "SYSTEMD="+systemdProgram)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	view := host.View{Root: "/proc/self/root", Files: true}
	devtest.Eventually(t, "systemd is up", time.Minute, func(ctx context.Context) error {
		r := systemd.New(view, []string{"default.target"}).Collect(ctx)
		if got := dataOf(r, "default.target")["ActiveState"]; got != "active" {
			return fmt.Errorf("default.target is %q, %s", got, r.Status.Reason)
		}
		return nil
	})
	return view
}

// removeGroups removes cgroups, innermost first, once the kernel has let go.
func removeGroups(t *testing.T, name string) {
	t.Helper()
	devtest.Eventually(t, "the cgroups go", 10*time.Second, func(context.Context) error {
		for _, top := range []string{"/sys/fs/cgroup/systemd/", "/sys/fs/cgroup/unified/", "/sys/fs/cgroup/"} {
			var dirs []string
			_ = filepath.WalkDir(top+name, func(p string, d os.DirEntry, err error) error {
				if err == nil && d.IsDir() {
					dirs = append(dirs, p)
				}
				return nil
			})
			for _, d := range slices.Backward(dirs) {
				if err := os.Remove(d); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func dataOf(r collector.Result, unit string) map[string]string {
	s := measurement.Snapshot{Measurements: r.Measurements}
	st, _ := s.Subtype(measurement.TypeSystemD, unit)
	out := map[string]string{}
	for k, v := range st.Data {
		out[k] = v.String()
	}
	return out
}

func units() map[string]string {
	return map[string]string{
		"default.target": "[Unit]\nRequires=containerd.service dbus.service\nAfter=containerd.service dbus.service\n",
		"dbus.socket":    "[Unit]\nDefaultDependencies=no\n[Socket]\nListenStream=/run/dbus/system_bus_socket\n",
		"dbus.service": `[Unit]
DefaultDependencies=no
Requires=dbus.socket
[Service]
ExecStart=dbus-daemon --session --address=systemd: --nofork --nopidfile
`,
		"containerd.service": `[Unit]
Description=a container runtime
After=late.target early.target
DefaultDependencies=no
[Service]
Type=simple
ExecStartPre=-/bin/false
ExecStartPre=/bin/true one "two three"
ExecStart=@/bin/sleep containerd 1000
ExecStopPost=/bin/true --token hunter2 --password=hunter2
Environment=HTTP_PROXY=http://me:hunter2@proxy:3128 "OPTIONS=--token hunter2 --v 2" DB_PASSWORD=hunter2 PLAIN=a=b
EnvironmentFile=-/etc/there-is-none
LimitNOFILE=1024:2048
LimitCORE=0
TasksMax=infinity
MemoryMax=1G
Restart=always
RestartSec=5s
UMask=0027
CPUAffinity=0 1
Delegate=yes
KillMode=process
`,
		"containerd.service.d/10-limits.conf": "[Service]\nTimeoutStopSec=infinity\n",
		"docker.service":                      "-> /dev/null",
		"extra.socket":                        "[Unit]\nDefaultDependencies=no\n[Socket]\nListenStream=/run/extra\n",
	}
}

func TestUnitsOfARealSystemdAreRead(t *testing.T) {
	if !inside(t) {
		return
	}
	view := realHost(t, units())
	collect := func() collector.Result {
		r := systemd.New(view, []string{"extra.socket", "containerd"}).Collect(t.Context())
		if r.Status.State != measurement.StateOK {
			t.Fatalf("%+v", r.Status)
		}
		return r
	}
	r := collect()
	got := dataOf(r, "containerd.service")
	for key, want := range map[string]string{
		"Description": "a container runtime", "LoadState": "loaded", "ActiveState": "active", "SubState": "running",
		"FragmentPath": "/run/units/containerd.service", "DropInPaths": "/run/units/containerd.service.d/10-limits.conf",
		"ExecStartPre.1": "-/bin/false", "ExecStartPre.2": `/bin/true one "two three"`, "ExecStart": "@/bin/sleep containerd 1000",
		"ExecStopPost":           "/bin/true --token [redacted] --password=[redacted]",
		"Environment.HTTP_PROXY": "http://[redacted]@proxy:3128", "Environment.OPTIONS": "--token [redacted] --v 2",
		"Environment.DB_PASSWORD": "[redacted]", "Environment.PLAIN": "a=b", "EnvironmentFiles": "-/etc/there-is-none",
		"LimitNOFILE": "2048", "LimitNOFILESoft": "1024", "LimitCORE": "0", "LimitLOCKS": "infinity", "TasksMax": "infinity",
		"MemoryMax": "1073741824", "MemoryHigh": "infinity", "CPUWeight": "", "Restart": "always", "RestartUSec": "5000000",
		"TimeoutStopUSec": "infinity", "UMask": "0027", "CPUAffinity": "0-1", "Delegate": "true", "KillMode": "process",
		"NeedDaemonReload": "false", "Result": "success", "User": "", "PIDFile": "",
	} {
		if got[key] != want {
			t.Errorf("%s: %q, want %q", key, got[key], want)
		}
	}
	if after := strings.Fields(got["After"]); !strings.Contains(got["After"], "early.target late.target") {
		t.Errorf("not sorted: %q", after)
	}
	for key := range got {
		for _, volatile := range []string{"Timestamp", "PID", "InvocationID", "Current", "Peak", "NSec", "NRestarts"} {
			if strings.Contains(key, volatile) && key != "GuessMainPID" {
				t.Errorf("%s is no configuration", key)
			}
		}
	}
	for unit, want := range map[string]string{"docker.service": "masked", "kubelet.service": "not-found", "nvidia-imex.service": "not-found", "extra.socket": "loaded"} {
		data := dataOf(r, unit)
		if data["LoadState"] != want {
			t.Errorf("%s: %v", unit, data)
		}
		if want == "not-found" && len(data) != 1 {
			t.Errorf("an absent unit has no more to tell: %v", data)
		}
	}

	doc, err := json.Marshal(r)
	if err != nil || strings.Contains(string(doc), "hunter2") {
		t.Errorf("a secret is shown, or %v: %s", err, doc)
	}
	if diff := cmp.Diff(r, collect()); diff != "" {
		t.Errorf("the same state is told in two ways: %s", diff)
	}
	// Without a bus, systemd's own socket tells the same, and every time.
	if err := os.Remove(view.Root + "/run/dbus/system_bus_socket"); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if diff := cmp.Diff(r, collect()); diff != "" {
			t.Fatalf("over systemd's own socket: %s", diff)
		}
	}
}
