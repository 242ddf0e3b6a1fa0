package os

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/NVIDIA/aicr/pkg/collector/host"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

func texts(data map[string]measurement.Reading) map[string]string {
	m := map[string]string{}
	for k, v := range data {
		m[k] = v.String()
	}
	return m
}

// release is one line of each kind that distributions write, and some that
// none should.
const releaseSample = `# comment
NAME=Example
VERSION="1.0 (A \"B\" \$HOME \\ ` + "\\`" + `)"
SINGLE='it is $raw \ here'
EMPTY=
EMPTY_QUOTED=""
ESCAPED=a\ b
KEPT="a\nb"
MIXED="a"'b'c
TWICE=1
TWICE=2
  INDENTED=x` + "  \r" + `

no equals
SPACED = x
UNTERMINATED="x
TRAILING=\
TWO WORDS
TWO=words here
1DIGIT=x
=x
`

func TestParseReleaseQuotesAsAShell(t *testing.T) {
	data, bad := parseRelease(releaseSample)
	want := map[string]string{
		"NAME": "Example", "VERSION": "1.0 (A \"B\" $HOME \\ `)", "SINGLE": `it is $raw \ here`, "EMPTY": "", "EMPTY_QUOTED": "",
		"ESCAPED": "a b", "KEPT": `a\nb`, "MIXED": "abc", "TWICE": "2", "INDENTED": "x",
	}
	if diff := cmp.Diff(want, texts(data)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int{14, 15, 16, 17, 18, 19, 20, 21}, bad); diff != "" {
		t.Error(diff)
	}
}

func FuzzParseRelease(f *testing.F) {
	f.Add(releaseSample)
	f.Add("A=\"\\")
	f.Add("A='\nB=\"'\"")
	f.Fuzz(func(t *testing.T, text string) {
		data, bad := parseRelease(text)
		if lines := strings.Count(text, "\n") + 1; len(data)+len(bad) > lines {
			t.Errorf("%d settings and %d bad lines of %d", len(data), len(bad), lines)
		}
		for k, v := range data {
			if !releaseKey.MatchString(k) {
				t.Errorf("key %q", k)
			}
			// What was read reads the same when it is quoted.
			again, bad := parseRelease(k + "='" + strings.ReplaceAll(v.String(), "'", `'\''`) + "'")
			if !strings.Contains(v.String(), "\n") && (len(bad) > 0 || !again[k].Equal(v)) {
				t.Errorf("%q reads as %q, %v", v, again[k], bad)
			}
		}
	})
}

func TestParseCommandLineSplitsAsTheKernel(t *testing.T) {
	for text, want := range map[string][]param{
		"":                               nil,
		" quiet\t ro\n":                  {{name: "quiet", flag: true}, {name: "ro", flag: true}},
		"console=tty0 console=ttyS0":     {{name: "console", value: "tty0"}, {name: "console", value: "ttyS0"}},
		"a=":                             {{name: "a"}},
		"a==b=c":                         {{name: "a", value: "=b=c"}},
		"=a":                             {{name: "=a", flag: true}},
		`a="b c" d`:                      {{name: "a", value: "b c"}, {name: "d", flag: true}},
		`"a=b c" d`:                      {{name: "a", value: "b c"}, {name: "d", flag: true}},
		`a=b" "c`:                        {{name: "a", value: `b" "c`}},
		`a="b`:                           {{name: "a", value: "b"}},
		`dyndbg="file a.c +p;func b -p"`: {{name: "dyndbg", value: "file a.c +p;func b -p"}},
		"rd.luks.uuid=1 rd-x rd_x=2":     {{name: "rd.luks.uuid", value: "1"}, {name: "rd-x", flag: true}, {name: "rd_x", value: "2"}},
	} {
		got, init := parseCommandLine(text)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(param{})); diff != "" || init != nil {
			t.Errorf("%q: %s %q", text, diff, init)
		}
	}
	params, init := parseCommandLine("a -- b c=d -- e")
	if len(params) != 1 || !slices.Equal(init, []string{"b", "c=d", "--", "e"}) {
		t.Error(params, init)
	}
}

func FuzzParseCommandLine(f *testing.F) {
	f.Add(`root=/dev/sda1 ro console=tty0 console=ttyS0 a="b c" "d=e f" -- x`)
	f.Add(`"`)
	f.Add(`="" a="`)
	f.Fuzz(func(t *testing.T, text string) {
		params, init := parseCommandLine(text)
		s := grub(params, init)
		if len(s.Items) != len(params)+len(init) || len(s.Data) > len(params) {
			t.Errorf("%d items, %d data of %d parameters and %d for init", len(s.Items), len(s.Data), len(params), len(init))
		}
		if _, err := yaml.Marshal(s); err != nil {
			t.Error(err)
		}
	})
}

func TestParseModulesKeepsTheLive(t *testing.T) {
	names, bad := parseModules("b 10 2 a,c, Live 0x0 (POE)\na 1 0 - Live 0x0\n\nc 1 0 - Loading 0x0\nshort 1 0\nd x 0 - Live 0x0\n")
	if !slices.Equal(names, []string{"a", "b"}) || !slices.Equal(bad, []int{5, 6}) {
		t.Error(names, bad)
	}
}

func FuzzParseModules(f *testing.F) {
	f.Add("nvidia_uvm 1384448 2 - Live 0x0000000000000000 (POE)\n")
	f.Add("a 1 0 - Live\n\x00 1 0 - Live 0x0")
	f.Fuzz(func(t *testing.T, text string) {
		names, bad := parseModules(text)
		if len(names)+len(bad) > strings.Count(text, "\n")+1 || !slices.IsSorted(names) {
			t.Error(names, bad)
		}
	})
}

func TestParseSysctlKeepsWhatANumberWouldLose(t *testing.T) {
	for text, want := range map[string]measurement.Reading{
		"60\n": measurement.Int(60), "-1\n": measurement.Int(-1), "0": measurement.Int(0),
		"18446744073692774399\n": measurement.Uint(uint64(18446744073692774399)),
		"007\n":                  measurement.Str("007"), "-0\n": measurement.Str("-0"), "+1": measurement.Str("+1"), "": measurement.Str(""), "\n": measurement.Str(""),
		"99999999999999999999\n": measurement.Str("99999999999999999999"),
		"1\t2\t3\n":              measurement.Str("1 2 3"), "a\nb\n": measurement.Str("a\nb"), " 1\n": measurement.Str(" 1"),
	} {
		if got := parseSysctl(text); !got.Equal(want) {
			t.Errorf("%q: %T %v", text, got.Any(), got)
		}
	}
}

func FuzzParseSysctl(f *testing.F) {
	f.Add("4096\t131072\t6291456\n")
	f.Add("-9223372036854775808")
	f.Fuzz(func(t *testing.T, text string) {
		want := measurement.Str(strings.ReplaceAll(strings.TrimRight(text, "\n"), "\t", " ")).String()
		if got := parseSysctl(text).String(); got != want {
			t.Errorf("%q reads as %q", text, got)
		}
	})
}

func TestC27_SysctlNamespacesAreTheKernels(t *testing.T) {
	for p, want := range map[string]host.Namespace{
		"net/core/somaxconn": host.Net, "net": host.Net, "user/max_user_namespaces": host.User,
		"kernel/shmmax": host.IPC, "kernel/shm_rmid_forced": host.IPC, "kernel/msgmni": host.IPC, "kernel/msg_next_id": host.IPC, "kernel/sem": host.IPC,
		"fs/mqueue": host.IPC, "fs/mqueue/msg_max": host.IPC, "kernel/hostname": host.UTS, "kernel/domainname": host.UTS,
		"kernel/pid_max": host.PID, "vm/memfd_noexec": host.PID,
		"kernel": host.Init, "kernel/panic": host.Init, "kernel/seccomp/actions_avail": host.Init, "fs/mqueued": host.Init, "vm/swappiness": host.Init,
		"fs/inotify/max_user_watches": host.Init, "kernel/threads-max": host.Init,
	} {
		if got := sysctlNamespace(p); got != want {
			t.Errorf("%s: %v, want %v", p, got, want)
		}
	}
}

func TestSysctlNamesAreSysctl8s(t *testing.T) {
	if got := sysctlName("net/ipv4/conf/eth0.7/rp_filter"); got != "net.ipv4.conf.eth0/7.rp_filter" {
		t.Error(got)
	}
}
