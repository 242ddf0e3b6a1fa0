package snapshotter

import (
	"bytes"
	"context"
	"encoding/json"
	stderrors "errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/NVIDIA/aicr/pkg/collector/gpu"
	"github.com/NVIDIA/aicr/pkg/collector/host"
	"github.com/NVIDIA/aicr/pkg/collector/host/hosttest"
	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

// captureHost is a node whose one GPU is given away to a virtual machine.
func captureHost(t *testing.T) host.View {
	const dev = "sys/bus/pci/devices/0000:01:00.0/"
	return host.View{Files: true, Shared: host.Net | host.UTS, Root: hosttest.Tree(t, map[string]string{
		"etc/os-release": "ID=example\nVERSION_ID=\"1\"\n",
		"proc/version":   "Linux\n", "proc/meminfo": "MemTotal: 1024 kB\n", "proc/cmdline": "quiet token=hunter2 \"a=--password hunter2\" inst.ks=http://u:hunter2@h/?sig=hunter2 -- --api-key hunter2\n",
		"proc/sys/kernel/osrelease": "6.8.0\n", "proc/sys/kernel/version": "#1\n", "proc/sys/kernel/arch": "x86_64\n", "proc/sys/kernel/hostname": "own-name\n",
		dev + "class": "0x030200\n", dev + "vendor": "0x10de\n", dev + "device": "0x2330\n", dev + "driver": "-> ../drivers/vfio-pci", "sys/module/vfio_pci/taint": "",
	})}
}

func captureOptions(t *testing.T) CaptureOptions {
	kube := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}})
	kube.Discovery().(*fakediscovery.FakeDiscovery).FakedServerVersion = &version.Info{GitVersion: "v1.35.4"}
	return CaptureOptions{
		Host: captureHost(t), Version: "v1.2.3", NodeName: "node-1", Kube: kube,
		Now: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 678, time.FixedZone("x", 3600)) },
	}
}

// settle takes out what may differ between snapshots of the same state.
func settle(s *measurement.Snapshot) *measurement.Snapshot {
	for i := range s.Collectors {
		s.Collectors[i].DurationMS = 0
	}
	return s
}

func TestCaptureGivesTheWholeDocument(t *testing.T) {
	s, err := Capture(t.Context(), captureOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	hosttest.Golden(t, "capture.golden.yaml", settle(s))
}

func TestCaptureOfTheSameStateGivesTheSameBytes(t *testing.T) {
	var docs [2][]byte
	for i := range docs {
		s, err := Capture(t.Context(), CaptureOptions{Host: HostLocal(), Version: "v", Now: func() time.Time { return time.Unix(0, 0) }})
		if err != nil {
			t.Fatal(err)
		}
		if docs[i], err = json.Marshal(settle(s)); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(docs[0]), string(docs[1])); diff != "" {
		t.Error(diff)
	}
}

func TestCaptureNamesTheHostWhereItIsSeen(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*CaptureOptions)
		want   string
	}{
		"the node's name":             {func(*CaptureOptions) {}, "node-1"},
		"the host's name":             {func(o *CaptureOptions) { o.NodeName = "" }, "own-name"},
		"a container's is not theirs": {func(o *CaptureOptions) { o.NodeName, o.Host.Shared = "", 0 }, ""},
	} {
		o := captureOptions(t)
		c.change(&o)
		s, err := Capture(t.Context(), o)
		if err != nil || s.Metadata.SourceNode != c.want {
			t.Errorf("%s: %q, %v", name, s.Metadata.SourceNode, err)
		}
	}
}

func TestCaptureShowsNoSecret(t *testing.T) {
	var log bytes.Buffer
	o := captureOptions(t)
	o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s, err := Capture(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(doc)+log.String(), "hunter2") || !strings.Contains(log.String(), "collector=gpu") {
		t.Errorf("%s\n%s", doc, log.String())
	}
}

func TestCaptureEndedByItsCallerReturnsWhatItHas(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s, err := Capture(ctx, captureOptions(t))
	if !stderrors.Is(err, context.Canceled) || s == nil || len(s.Collectors) != 5 {
		t.Error(s, err)
	}
}

func TestC28_RequireGPUTellsNoGPUFromOneThatDoesNotAnswer(t *testing.T) {
	o := captureOptions(t)
	o.RequireGPU = true
	s, err := Capture(t.Context(), o)
	if !stderrors.Is(err, errors.Unavailable) || s == nil || !strings.Contains(err.Error(), "1, which do not answer: the nvidia driver is bound to none of the GPUs: 1 by vfio-pci") {
		t.Error(err)
	}
	if err := os.RemoveAll(o.Host.Root + "/sys/bus/pci/devices/0000:01:00.0"); err != nil {
		t.Fatal(err)
	}
	s, err = Capture(t.Context(), o)
	if !stderrors.Is(err, errors.NotFound) || s == nil {
		t.Error(err)
	}
	if err := os.RemoveAll(o.Host.Root + "/sys"); err != nil {
		t.Fatal(err)
	}
	_, err = Capture(t.Context(), o)
	if !stderrors.Is(err, errors.Unavailable) || !strings.Contains(err.Error(), "could not be looked for") {
		t.Error(err)
	}
}

func TestC28_RequireGPUTellsWhichWayTheDriverDoesNotAnswer(t *testing.T) {
	for script, want := range map[string]string{
		"echo broken >&2; exit 255":       "ended with code 255 (another error or an internal driver error): broken",
		"echo '<nvidia_smi_log><gpu><uu'": "told no valid XML",
		"kill -TERM $$":                   "was ended by signal: terminated",
	} {
		o := captureOptions(t)
		o.RequireGPU = true
		const driver = "sys/bus/pci/devices/0000:01:00.0/driver"
		if err := stderrors.Join(os.Remove(filepath.Join(o.Host.Root, driver)), os.Symlink("../drivers/nvidia", filepath.Join(o.Host.Root, driver))); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", hosttest.Tree(t, map[string]string{"nvidia-smi": "script #!/bin/sh\n" + script + "\n"}))
		s, err := Capture(t.Context(), o)
		if !stderrors.Is(err, errors.Unavailable) || !strings.Contains(err.Error(), "1, which do not answer: driver not answering: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", script, err)
		}
		hw, _ := s.Subtype(measurement.TypeGPU, gpu.SubtypeHardware)
		if len(hw.Items) != 1 || hw.Items[0].Data[gpu.KeyState].String() != gpu.DriverNotAnswering {
			t.Errorf("%s: %+v", script, hw)
		}
	}
}

func TestC28_RequireGPUIsContentWhereNobodyCouldAsk(t *testing.T) {
	for state, want := range map[string]error{
		gpu.DriverAnswering: nil, gpu.DriverNotAsked: nil,
		gpu.DriverNotAnswering: errors.Unavailable, gpu.DriverNotBound: errors.Unavailable,
	} {
		err := requireGPU(&measurement.Snapshot{Measurements: []measurement.Measurement{{Type: measurement.TypeGPU, Subtypes: []measurement.Subtype{{
			Name: gpu.SubtypeHardware,
			Data: map[string]measurement.Reading{gpu.KeyCount: measurement.Int(8), gpu.KeyState: measurement.Str(state)},
		}}}}})
		if !stderrors.Is(err, want) {
			t.Errorf("%s: %v", state, err)
		}
	}
	if err := requireGPU(&measurement.Snapshot{Measurements: []measurement.Measurement{{
		Type: measurement.TypeGPU, Subtypes: []measurement.Subtype{{Name: gpu.SubtypeSMI}},
	}}}); err != nil {
		t.Error("the driver answered and the bus did not:", err)
	}
}

func TestC27_UnprivilegedPodSeesItsContainer(t *testing.T) {
	if diff := cmp.Diff(host.Container(), HostForPod(false)); diff != "" {
		t.Error(diff)
	}
}
