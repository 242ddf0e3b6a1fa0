package os

import (
	"context"
	stdos "os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/NVIDIA/aicr/pkg/collector"
	"github.com/NVIDIA/aicr/pkg/collector/host"
	"github.com/NVIDIA/aicr/pkg/collector/host/hosttest"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

// smallHost is a host with one key of each kind.
func smallHost() map[string]string {
	return map[string]string{
		"etc/os-release":     "-> /usr/lib/os-release",
		"usr/lib/os-release": "# a comment\nNAME=\"Example Linux\"\nID=example\nVERSION_ID='1.30'\nnonsense\nPRETTY_NAME=\"A \\\"quoted\\\" name\"\n",
		"proc/version":       "Linux version 6.8.0\n",
		"proc/cpuinfo":       "processor\t: 0\nmodel name\t: Example CPU\nflags\t\t: fpu\n", "proc/meminfo": "MemTotal:  1024 kB\nMemFree: 7 kB\n",
		"proc/cmdline": "root=UUID=1-2 console=tty0 console=ttyS0,115200 dyndbg=\"file a.c +p\" quiet rd.iscsi.password=hunter2 -- --token hunter2 single\n",
		"proc/modules": "nvidia_uvm 1384448 2 - Live 0x0000000000000000 (POE)\nnvidia 9000000 3 nvidia_uvm, Live 0x0000000000000000 (POE)\n" +
			"leaving 1 0 - Unloading 0x0000000000000000\n\n",
		"proc/sys/kernel/osrelease": "6.8.0-41-generic\n", "proc/sys/kernel/version": "#41-Ubuntu SMP\n", "proc/sys/kernel/arch": "x86_64\n",
		"proc/sys/kernel/hostname": "node-1\n", "proc/sys/kernel/domainname": "(none)\n",
		"proc/sys/kernel/shmmax": "18446744073692774399\n", "proc/sys/kernel/msgmax": "8192\n", "proc/sys/kernel/sem": "32000\t1024000000\t500\t32000\n",
		"proc/sys/kernel/pid_max": "4194304\n", "proc/sys/kernel/ns_last_pid": "4711\n", "proc/sys/kernel/panic": "-1\n",
		"proc/sys/kernel/random/uuid": "5ad3\n", "proc/sys/kernel/pty/nr": "3\n", "proc/sys/kernel/pty/max": "4096\n",
		"proc/sys/kernel/watchdog_cpumask": "0-63\n", "proc/sys/kernel/core_pattern": "|/usr/bin/core %p\n", "proc/sys/kernel/empty": "\n",
		"proc/sys/kernel/perf_event_max_sample_rate":      "63250\n",
		"proc/sys/kernel/sched_domain/cpu0/domain0/flags": "1\n",
		"proc/sys/fs/file-nr":                             "9024\t0\t9223372036854775807\n", "proc/sys/fs/file-max": "9223372036854775807\n", "proc/sys/fs/mqueue/msg_max": "10\n",
		"proc/sys/fs/binfmt_misc/status": "enabled\n", "proc/sys/fs/quota/syncs": "7\n", "proc/sys/fs/quota/warnings": "1\n",
		"proc/sys/vm/swappiness": "60\n", "proc/sys/vm/stat_refresh": "\n", "proc/sys/vm/mask": "007\n", "proc/sys/vm/memfd_noexec": "0\n",
		"proc/sys/user/max_user_namespaces": "100\n",
		"proc/sys/net/ipv4/tcp_rmem":        "4096\t131072\t6291456\n", "proc/sys/net/ipv4/tcp_fastopen_key": "hunter2\n", "proc/sys/net/core/netdev_rss_key": "00:01\n",
		"proc/sys/net/netfilter/nf_conntrack_count": "812\n", "proc/sys/net/netfilter/nf_conntrack_max": "262144\n",
		"proc/sys/net/ipv4/conf/all/rp_filter": "2\n", "proc/sys/net/ipv4/conf/eth0.7/rp_filter": "1\n", "proc/sys/net/ipv4/conf/veth12ab/rp_filter": "0\n",
		"proc/sys/net/ipv4/conf/bond0/rp_filter": "0\n", "proc/sys/net/ipv6/conf/default/stable_secret": "hunter2\n",
		"sys/class/net/eth0.7/device": "-> ../../../devices/x", "sys/devices/x/vendor": "",
		"sys/class/net/bond0/bonding/mode": "802.3ad 4\n", "sys/class/net/veth12ab/mtu": "1500\n",
	}
}

func collect(t *testing.T, view host.View) collector.Result {
	t.Helper()
	r := New(view).Collect(context.Background())
	s := measurement.Snapshot{Measurements: r.Measurements}
	s.Normalize() // in place
	return r
}

const everything = host.Net | host.IPC | host.UTS | host.PID | host.User

func TestHostIsReadWhole(t *testing.T) {
	root := hosttest.Tree(t, smallHost())
	hosttest.Golden(t, "host.golden.yaml", collect(t, host.View{Root: root, Files: true, Shared: everything}))
}

func TestC27_PrivilegedPodTellsNothingOfItsOwnIPCNamespace(t *testing.T) {
	root := hosttest.Tree(t, smallHost())
	hosttest.Golden(t, "privileged.golden.yaml", collect(t, host.View{Root: root, Files: true, Shared: everything &^ (host.IPC | host.UTS)}))
}

func TestC27_ContainerTellsOnlyWhatIsTheHostsByNature(t *testing.T) {
	root := hosttest.Tree(t, smallHost())
	hosttest.Golden(t, "container.golden.yaml", collect(t, host.View{Root: root}))
}

func TestSecretsAndVolatileKeysAppearNowhere(t *testing.T) {
	for _, golden := range []string{"host", "privileged", "container"} {
		b, err := stdos.ReadFile(filepath.Join("testdata", golden+".golden.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []string{"hunter2", "ns_last_pid", "5ad3", "812", "file-nr", "veth", "binfmt_misc", "63250"} {
			if strings.Contains(string(b), s) {
				t.Errorf("%s: %q is told", golden, s)
			}
		}
	}
}

func unreadOf(r collector.Result) map[string]string {
	m := map[string]string{}
	for _, u := range r.Status.Unread {
		m[u.Key] = u.Reason
	}
	return m
}

func TestWhatCannotBeReadIsUnreadAndCostsOnlyItself(t *testing.T) {
	files := smallHost()
	delete(files, "usr/lib/os-release")
	delete(files, "proc/cmdline")
	delete(files, "proc/version")
	delete(files, "proc/modules")
	files["proc/sys/kernel/version"] = "-> nowhere"
	files["proc/modules/x"] = "a folder"
	files["proc/sys/vm/large"] = strings.Repeat("1", maxSysctl+1)
	r := collect(t, host.View{Root: hosttest.Tree(t, files), Files: true, Shared: everything})
	want := map[string]string{
		"release":         "no such file or directory",
		"kernel/version":  "no such file or directory",
		"grub":            "no such file or directory",
		"kmod":            "proc/modules is no regular file",
		"sysctl/vm.large": "large is larger than 65536 bytes",
	}
	if diff := cmp.Diff(want, unreadOf(r)); diff != "" {
		t.Error(diff)
	}
	if r.Status.State != measurement.StatePartial {
		t.Error(r.Status.State)
	}
}

func TestReleaseFollowsOsReleasesOrder(t *testing.T) {
	const usr, etc = "usr/lib/os-release", "etc/os-release"
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"etc first":                        {map[string]string{etc: "ID=a", usr: "ID=b"}, "a"},
		"usr where etc has none":           {map[string]string{usr: "ID=b"}, "b"},
		"usr where the link leads nowhere": {map[string]string{etc: "-> ../gone", usr: "ID=b"}, "b"},
		"relative link":                    {map[string]string{etc: "-> ../usr/lib/os-release", usr: "ID=b"}, "b"},
		"absolute link, below the root":    {map[string]string{etc: "-> /usr/lib/os-release", usr: "ID=b"}, "b"},
	} {
		r := collect(t, host.View{Root: hosttest.Tree(t, c.files), Files: true})
		s := measurement.Snapshot{Measurements: r.Measurements}
		got, _ := s.Subtype(measurement.TypeOS, subtypeRelease)
		if got.Data["ID"].String() != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestKernelWithoutAnArchFileHasThisProgramsArchitecture(t *testing.T) {
	files := smallHost()
	delete(files, "proc/sys/kernel/arch")
	delete(files, "proc/modules")
	r := collect(t, host.View{Root: hosttest.Tree(t, files), Files: true, Shared: everything})
	s := measurement.Snapshot{Measurements: r.Measurements}
	k, _ := s.Subtype(measurement.TypeOS, subtypeKernel)
	if got := k.Data["arch"].String(); got != machine(runtime.GOARCH) {
		t.Error(got)
	}
	if machine("amd64") != "x86_64" || machine("arm64") != "aarch64" {
		t.Error("uname's names")
	}
	m, _ := s.Subtype(measurement.TypeOS, subtypeKmod)
	if diff := cmp.Diff(measurement.Subtype{
		Name: subtypeKmod, Data: map[string]measurement.Reading{},
		Context: map[string]string{"modules": "the kernel has no loadable modules"},
	}, m); diff != "" {
		t.Error(diff)
	}
}

func TestMissingRootFailsTheCollector(t *testing.T) {
	r := collect(t, host.View{Root: filepath.Join(t.TempDir(), "gone"), Files: true})
	if r.Status.State != measurement.StateFailed || !strings.Contains(r.Status.Reason, "open the host's root") {
		t.Errorf("%+v", r.Status)
	}
}

func TestCollectorStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r := New(host.View{Root: hosttest.Tree(t, smallHost()), Files: true, Shared: everything}).Collect(ctx)
	if got := unreadOf(r)["sysctl"]; !strings.Contains(got, "not all were read") {
		t.Errorf("%+v", r.Status)
	}
}
