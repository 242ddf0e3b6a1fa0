//go:build unix

package gpu

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/NVIDIA/aicr/pkg/collector/host"
	"github.com/NVIDIA/aicr/pkg/collector/host/hosttest"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

// script writes a nvidia-smi and returns its folder. In it, $here is the
// folder, and sample.xml lies there.
func script(t *testing.T, body string) string {
	t.Helper()
	return hosttest.Tree(t, map[string]string{
		"nvidia-smi": "script #!/bin/sh\nhere=${0%/*}\necho $$ > $here/pid\n" + body + "\n",
		"sample.xml": string(read(t, "testdata/h100-v13.xml")),
	})
}

func TestDriverThatAnswersIsReported(t *testing.T) {
	dir := script(t, `[ "$1 $2" = "-q -x" ] && [ -z "$SECRET" ] && cat $here/sample.xml`)
	t.Setenv("SECRET", "hunter2")
	r := collect(t.Context(), t, h100Host(), dir)
	s := measurement.Snapshot{Measurements: r.Measurements}
	smi, ok := s.Subtype(measurement.TypeGPU, SubtypeSMI)
	if !ok || smi.Context["source"] != filepath.Join(dir, "nvidia-smi") {
		t.Errorf("%+v, %+v", smi, r.Status)
	}
	if got := hardwareOf(r).Data[KeyState].String(); got != DriverAnswering {
		t.Error(got)
	}
}

func TestGPUThatNvidiaSMILeavesOutIsUnread(t *testing.T) {
	files := join(h100Host(), device("0000:9b:00.0", "0x030200", "0x10de", "0x2330", "1", "nvidia"))
	r := collect(t.Context(), t, files, script(t, "cat $here/sample.xml"))
	for _, u := range r.Status.Unread {
		if u.Key == "devices/0000:9b:00.0" && u.Reason == "nvidia-smi told nothing of it" {
			if lost := hardwareOf(r).Items[1]; lost.Name != "0000:9b:00.0" || lost.Data[KeyState].String() != DriverNotAnswering {
				t.Errorf("%+v", lost)
			}
			return
		}
	}
	t.Errorf("%+v", r.Status)
}

func TestDriverThatDoesNotAnswerIsToldFromNone(t *testing.T) {
	for name, c := range map[string]struct{ body, want, state string }{
		"exit 9": {
			`echo "NVIDIA-SMI has failed because it could not talk to the driver." ; exit 9`,
			"ended with code 9 (the NVIDIA driver is not loaded): NVIDIA-SMI has failed because it could not talk to the driver.", DriverNotAnswering,
		},
		"exit 255":      {`echo "Failed to initialize NVML" >&2; exit 255`, "ended with code 255 (another error or an internal driver error): Failed to initialize NVML", DriverNotAnswering},
		"exit 77":       {`exit 77`, "ended with code 77: no message", DriverNotAnswering},
		"half":          {`head -n 20 $here/sample.xml`, "told no valid XML: line 21, column 1: unexpected EOF", DriverNotAnswering},
		"half, exit 15": {`head -n 20 $here/sample.xml; echo "GPU is lost" >&2; exit 15`, "ended with code 15 (a GPU has fallen off the bus or cannot be reached): GPU is lost", DriverNotAnswering},
		"killed":        {`kill -9 $$`, "was ended by signal: killed", DriverNotAnswering},
		"text":          {`echo No devices were found`, "told no valid XML", DriverNotAnswering},
		"no GPU":        {`sed '/<gpu /,/<.gpu>/d' $here/sample.xml`, "told of no GPU", DriverNotAnswering},
		"flood":         {`head -c 17000000 /dev/zero; exit 1`, "printed more than 16 MiB", DriverNotAnswering},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := collect(t.Context(), t, h100Host(), script(t, c.body))
			if !strings.Contains(r.Status.Reason, c.want) || r.Status.State != measurement.StatePartial {
				t.Errorf("%+v", r.Status)
			}
			hw := hardwareOf(r)
			if hw.Data[KeyState].String() != c.state || !hw.Data[KeyCount].Equal(measurement.Int(2)) {
				t.Errorf("%+v", hw.Data)
			}
			if len(r.Measurements[0].Subtypes) != 1 {
				t.Error("told more than the bus did")
			}
			if !strings.HasPrefix(r.Status.Reason, "driver not answering: ") || hw.Items[1].Data[KeyState].String() != DriverNotAnswering {
				t.Errorf("%s, %+v", r.Status.Reason, hw.Items[1])
			}
		})
	}
}

func TestWarningBesideAnAnswerIsTold(t *testing.T) {
	r := collect(t.Context(), t, h100Host(), script(t, "cat $here/sample.xml; echo 'WARNING: infoROM is corrupted'; exit 14"))
	for _, u := range r.Status.Unread {
		if u.Key == SubtypeSMI && u.Reason == "ended with code 14 (an infoROM is corrupted)" {
			return
		}
	}
	t.Errorf("%+v", r.Status)
}

func TestMissingNvidiaSMIIsToldFromOneThatCannotStart(t *testing.T) {
	noLoader := hosttest.Tree(t, map[string]string{"nvidia-smi": "script #!/gone/ld.so\n"})
	noProgram := hosttest.Tree(t, map[string]string{"nvidia-smi": "not executable"})
	for path, want := range map[string]string{
		"":        "nvidia-smi not found",
		noProgram: "nvidia-smi not found",
		"rel":     "nvidia-smi not found",
		noLoader:  "nvidia-smi cannot be started: " + noLoader + "/nvidia-smi: the loader that it needs is not in this image",
	} {
		r := collect(t.Context(), t, h100Host(), path)
		if !strings.Contains(r.Status.Reason, want) || hardwareOf(r).Data[KeyState].String() != DriverNotAsked {
			t.Errorf("%q: %+v", path, r.Status)
		}
	}
}

func TestAnotherNvidiaSMIIsTriedWhereOneLacksItsLibrary(t *testing.T) {
	for _, code := range []string{"9", "12", "127"} {
		broken, good := script(t, "exit "+code), script(t, "cat $here/sample.xml")
		r := collect(t.Context(), t, h100Host(), broken+":"+good)
		if hardwareOf(r).Data[KeyState].String() != DriverAnswering {
			t.Errorf("code %s: %+v", code, r.Status)
		}
	}
	noLoader := hosttest.Tree(t, map[string]string{"nvidia-smi": "script #!/gone/ld.so\n"})
	for _, path := range []string{script(t, "exit 9") + ":" + noLoader, noLoader + ":" + script(t, "exit 9")} {
		r := collect(t.Context(), t, h100Host(), path)
		if hardwareOf(r).Data[KeyState].String() != DriverNotAnswering || !strings.Contains(r.Status.Reason, "ended with code 9") {
			t.Errorf("%s: %+v", path, r.Status)
		}
	}
	ran := script(t, "cat $here/sample.xml")
	r := collect(t.Context(), t, h100Host(), script(t, "exit 255")+":"+ran)
	if _, err := os.Stat(filepath.Join(ran, "pid")); err == nil || hardwareOf(r).Data[KeyState].String() != DriverNotAnswering {
		t.Errorf("after code 255 another was run: %+v", r.Status)
	}
}

func pidOf(t *testing.T, dir string) int {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(string(read(t, filepath.Join(dir, "pid")))))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// gone waits until no process of the script's group is left.
func gone(t *testing.T, dir string) {
	t.Helper()
	pid := pidOf(t, dir)
	for deadline := time.Now().Add(5 * time.Second); !errors.Is(syscall.Kill(-pid, 0), syscall.ESRCH); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("group %d is still there", pid)
		}
	}
}

func TestHangingNvidiaSMIIsAskedToEndThenKilledWithinTheLimit(t *testing.T) {
	for name, body := range map[string]string{
		"hangs":                 "sleep 600",
		"prints half and hangs": "head -n 20 $here/sample.xml; sleep 600",
		"ends when asked":       "trap 'touch $here/asked; exit 0' TERM; sleep 600 & wait",
		"ignores being asked":   "trap 'touch $here/asked' TERM; while :; do sleep 600 & wait; done",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const limit = 1500 * time.Millisecond
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			dir := script(t, body)
			start := time.Now()
			r := collect(ctx, t, h100Host(), dir)
			// The runner waits half a second beyond the limit.
			if took := time.Since(start); took > limit+400*time.Millisecond {
				t.Errorf("took %v", took)
			}
			if hardwareOf(r).Data[KeyState].String() != DriverNotAnswering || !hardwareOf(r).Data[KeyCount].Equal(measurement.Int(2)) {
				t.Errorf("%+v", r)
			}
			if !strings.Contains(r.Status.Reason, "driver not answering: "+dir+"/nvidia-smi gave no answer within 1s") {
				t.Errorf("%q", r.Status.Reason)
			}
			gone(t, dir)
			if _, err := os.Stat(filepath.Join(dir, "asked")); err != nil && strings.Contains(body, "asked") {
				t.Error("it was not asked to end")
			}
		})
	}
}

func TestAnswerCountsThoughAChildOfNvidiaSMIKeepsThePipe(t *testing.T) {
	dir := script(t, "cat $here/sample.xml; sleep 600 &")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r := collect(ctx, t, h100Host(), dir)
	// It is left alone, as the answer came; here it is ours to end.
	if err := syscall.Kill(-pidOf(t, dir), syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	if got := hardwareOf(r).Data[KeyState].String(); got != DriverAnswering {
		t.Errorf("%s: %+v", got, r.Status)
	}
}

func TestCallersEndEndsNvidiaSMI(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	dir := script(t, "echo started > $here/fifo; sleep 600")
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = os.ReadFile(filepath.Join(dir, "fifo")) // blocks until the script runs
		cancel()
	}()
	collect(ctx, t, h100Host(), dir)
	gone(t, dir)
}

func TestPlacesPutTheHintsSystemFirst(t *testing.T) {
	view := host.View{Root: "/proc/1/root", Files: true}
	names := func(hint, own string) []string {
		var out []string
		for _, p := range places(view, hint, own) {
			out = append(out, p.chroot+":"+p.file())
		}
		return out
	}
	const r = "/proc/1/root:"
	want := []string{
		":/bin/nvidia-smi", r + "/usr/bin/nvidia-smi", r + "/home/kubernetes/bin/nvidia/bin/nvidia-smi", r + "/usr/libexec/nvidia/tesla/bin/nvidia-smi",
		r + "/usr/local/bin/nvidia-smi", r + "/opt/bin/nvidia-smi", r + "/run/current-system/sw/bin/nvidia-smi",
		"/proc/1/root/run/nvidia/driver:/usr/bin/nvidia-smi",
	}
	if diff := cmp.Diff(want, names("", "/bin:relative::/bin/")); diff != "" {
		t.Error(diff)
	}
	for hint, first := range map[string]string{
		"cos": r + "/home/kubernetes/bin/nvidia/bin/nvidia-smi", "talos": r + "/usr/local/bin/nvidia-smi",
		"Bottlerocket": r + "/usr/libexec/nvidia/tesla/bin/nvidia-smi", "ubuntu": ":/bin/nvidia-smi",
	} {
		if got := names(hint, "/bin"); got[0] != first || len(got) != len(want) {
			t.Errorf("%s: %v", hint, got)
		}
	}
	for _, p := range places(host.Container(), "", "/bin:/usr/local/nvidia/bin") {
		if p.chroot != "" || p.inHost {
			t.Errorf("a container looks at %+v", p)
		}
	}
	for _, p := range places(host.Local(), "", "/usr/bin") {
		if p.chroot != "" && p.view != driverRoot {
			t.Errorf("on the host itself the root is changed: %+v", p)
		}
	}
}

func TestNvidiaSMIRunsInTheHostsAndTheDriverContainersRoot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("changing the root needs root")
	}
	fake := filepath.Join(t.TempDir(), "fakesmi")
	build := exec.Command("go", "build", "-o", fake, "./testdata/fakesmi")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	binary, sample := "script "+string(read(t, fake)), string(read(t, "testdata/h100-v13.xml"))
	for source, files := range map[string]map[string]string{
		"/usr/bin/nvidia-smi": {"usr/bin/nvidia-smi": "-> /opt/real", "opt/real": binary, "smi.xml": sample},
		"/run/nvidia/driver/usr/bin/nvidia-smi": {
			"usr/bin/nvidia-smi":                   binary, // of an older installation: it exits 12
			"run/nvidia/driver/usr/bin/nvidia-smi": binary, "run/nvidia/driver/smi.xml": sample,
		},
	} {
		c := Collector{view: host.View{Root: hosttest.Tree(t, join(h100Host(), files)), Files: true}}
		r := c.Collect(t.Context())
		s := measurement.Snapshot{Measurements: r.Measurements}
		smi, _ := s.Subtype(measurement.TypeGPU, SubtypeSMI)
		if smi.Context["source"] != source {
			t.Errorf("%s: %+v, %+v", source, smi, r.Status)
		}
	}
}

// What is no XML, or is cut, is no answer: the GPUs are known from the bus.
func TestSMIRealFilesThatAreNoXMLAreUnreadable(t *testing.T) {
	for _, pattern := range []string{"nvidia-smi/*.invalid", "nvidia-smi/*.q.txt"} {
		for _, f := range hosttest.Shared(t, pattern) {
			r := collect(t.Context(), t, h100Host(), script(t, "cat "+f))
			want := []measurement.SubtypeStatus{
				{Name: SubtypeDevices, State: measurement.StateFailed}, {Name: SubtypeHardware, State: measurement.StateOK}, {Name: SubtypeSMI, State: measurement.StateFailed},
			}
			if diff := cmp.Diff(want, r.Status.Subtypes, cmpopts.IgnoreFields(measurement.SubtypeStatus{}, "Reason")); diff != "" {
				t.Errorf("%s: %s", f, diff)
			}
			if !strings.Contains(r.Status.Reason, "driver not answering: ") || !strings.Contains(r.Status.Reason, "told no valid XML") {
				t.Errorf("%s: %s", f, r.Status.Reason)
			}
			if state := hardwareOf(r).Items[0].Data[KeyState].String(); state != DriverNotAnswering {
				t.Errorf("%s: %s", f, state)
			}
		}
	}
}
