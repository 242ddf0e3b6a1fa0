//go:build unix

package gpu

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/NVIDIA/aicr/pkg/collector"
	"github.com/NVIDIA/aicr/pkg/collector/host"
	"github.com/NVIDIA/aicr/pkg/collector/host/hosttest"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

// device makes a PCI device as sysfs shows it.
func device(address, class, vendor, id, numa, driver string) map[string]string {
	dir := "sys/devices/pci0000:00/" + address + "/"
	files := map[string]string{
		"sys/bus/pci/devices/" + address: "-> ../../../devices/pci0000:00/" + address,
		dir + "class":                    class + "\n", dir + "vendor": vendor + "\n", dir + "device": id + "\n",
	}
	if numa != "" {
		files[dir+"numa_node"] = numa + "\n"
	}
	if driver != "" {
		files[dir+"driver"] = "-> ../../../bus/pci/drivers/" + driver
	}
	return files
}

func join(all ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}

// h100Host is one GPU of the file h100-v13.xml's two, and what sits beside GPUs.
func h100Host() map[string]string {
	return join(
		device("0000:1b:00.0", "0x030200", "0x10de", "0x2330", "1", "nvidia"),
		device("0001:43:00.0", "0x030200", "0x10de", "0x2330", "-1", "nvidia"),
		device("0000:05:00.0", "0x068000", "0x10de", "0x22a3", "0", "nvidia"),           // NVSwitch
		device("0000:1b:00.1", "0x040300", "0x10de", "0x10f8", "1", "snd_hda_intel"),    // audio
		device("0000:02:00.0", "0x030000", "0x1a03", "0x2000", "0", "ast"),              // the board's own VGA
		device("0000:3a:00.0", "0x020700", "0x15b3", "0x1021", "0", "mlx5_core"),        // network
		device("0000:1b:01.0", "0x030200", "0x10de", "0x2330", "1", "nvidia-vgpu-vfio"), // a virtual function of the first
		map[string]string{"sys/devices/pci0000:00/0000:1b:01.0/physfn": "-> ../0000:1b:00.0", "sys/module/nvidia/taint": "POE\n"},
	)
}

// collect runs the collector on a host of those files, with nvidia-smi only
// where path names it.
func collect(ctx context.Context, t *testing.T, files map[string]string, path string) collector.Result {
	t.Helper()
	return collectView(ctx, t, host.View{Root: hosttest.Tree(t, files), Files: true}, path)
}

func collectView(ctx context.Context, t *testing.T, view host.View, path string) collector.Result {
	t.Helper()
	r := Collector{view: view, path: path}.Collect(ctx)
	s := measurement.Snapshot{Measurements: r.Measurements}
	s.Normalize() // in place
	return r
}

func hardwareOf(r collector.Result) measurement.Subtype {
	s := measurement.Snapshot{Measurements: r.Measurements}
	hw, _ := s.Subtype(measurement.TypeGPU, SubtypeHardware)
	return hw
}

func TestHardwareFindsGPUsAmongDevices(t *testing.T) {
	hosttest.Golden(t, "hardware.golden.yaml", collect(t.Context(), t, h100Host(), ""))
}

func TestNoGPUIsOKAndRunsNothing(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"other devices": device("0000:02:00.0", "0x030000", "0x1a03", "0x2000", "0", "ast"),
		"no PCI bus":    {"sys/bus/platform/uevent": ""},
	} {
		files["sys/module/kernel/parameters/panic"] = "0\n"
		dir := script(t, "exit 1")
		r := collect(t.Context(), t, files, dir)
		if _, err := os.Stat(filepath.Join(dir, "pid")); err == nil {
			t.Errorf("%s: nvidia-smi was run", name)
		}
		hosttest.Golden(t, "none.golden.yaml", r)
	}
}

// TestHosts reads whole small hosts, with an nvidia-smi that prints their
// smi.xml.
func TestHosts(t *testing.T) {
	archives, err := filepath.Glob("testdata/hosts/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatal(archives, err)
	}
	for _, archive := range archives {
		files := hosttest.Archive(t, archive)
		files["nvidia-smi"] = "script #!/bin/sh\ncat ${0%/*}/smi.xml\n"
		root := hosttest.Tree(t, files)
		r := collectView(t.Context(), t, host.View{Root: root, Files: true}, root)
		withoutPath(r, root)
		hosttest.Golden(t, strings.TrimSuffix(strings.TrimPrefix(archive, "testdata/"), "txtar")+"golden.yaml", r)
	}
}

func TestGoldenHostsShowNoProcess(t *testing.T) {
	goldens, err := filepath.Glob("testdata/hosts/*.golden.yaml")
	if err != nil || len(goldens) == 0 {
		t.Fatal(goldens, err)
	}
	for _, golden := range goldens {
		for _, s := range []string{"hunter2", "/usr/bin/train", "4711"} {
			if strings.Contains(string(read(t, golden)), s) {
				t.Errorf("%s tells %s", golden, s)
			}
		}
	}
}

// withoutPath takes the temporary root out of the path of nvidia-smi.
func withoutPath(r collector.Result, root string) {
	for _, m := range r.Measurements {
		for _, s := range m.Subtypes {
			if source, ok := s.Context["source"]; ok {
				s.Context["source"] = strings.TrimPrefix(source, root)
			}
		}
	}
}

func TestHostWithoutSysfsIsNoHostWithoutGPUs(t *testing.T) {
	r := collect(t.Context(), t, map[string]string{"etc/hosts": ""}, "")
	sees := func(view host.View) bool {
		r := collectView(t.Context(), t, view, script(t, "cat $here/sample.xml"))
		s := measurement.Snapshot{Measurements: r.Measurements}
		smi, ok := s.Subtype(measurement.TypeGPU, SubtypeSMI)
		_, counted := smi.Data[KeyCount]
		return ok && counted
	}
	root := hosttest.Tree(t, map[string]string{"etc/hosts": ""})
	if !sees(host.View{Root: root, Files: true}) || sees(host.View{Root: root}) {
		t.Error("the count is the host's, or a container's")
	}
	if r.Status.State != measurement.StateFailed || !strings.Contains(r.Status.Reason+r.Status.Unread[1].Reason, "the PCI bus cannot be read") {
		t.Errorf("%+v", r)
	}
}

func TestGPUsHeldByOtherDriversAreNotAsked(t *testing.T) {
	r := collect(t.Context(), t, join(
		device("0000:01:00.0", "0x030200", "0x10de", "0x2330", "0", "vfio-pci"),
		device("0000:02:00.0", "0x030200", "0x10de", "0x2330", "0", "vfio-pci"),
		device("0000:03:00.0", "0x030000", "0x10de", "0x2330", "0", ""),
	), script(t, "echo ran; exit 1"))
	if want := "the nvidia driver is bound to none of the GPUs: 1 by no driver, 2 by vfio-pci"; r.Status.Reason != want {
		t.Errorf("%q", r.Status.Reason)
	}
	if got := hardwareOf(r).Data[KeyState].String(); got != DriverNotBound || r.Status.State != measurement.StatePartial {
		t.Error(got, r.Status.State)
	}
}

func TestWhatADeviceDoesNotTellIsUnread(t *testing.T) {
	files := device("0000:01:00.0", "0x030200", "0x10de", "0x2330", "many", "nvidia")
	files["sys/module/nvidia/version/x"] = "a folder"
	files["sys/devices/pci0000:00/0000:01:00.0/iommu_group"] = "-> ../groups/none"
	files["sys/devices/pci0000:00/0000:01:00.0/max_link_speed"] = "fast\n"
	delete(files, "sys/devices/pci0000:00/0000:01:00.0/device")
	files["sys/devices/pci0000:00/0000:02:00.0/x"] = ""
	files["sys/bus/pci/devices/0000:02:00.0"] = "-> ../../../devices/pci0000:00/0000:02:00.0"
	r := collect(t.Context(), t, files, "")
	var keys []string
	for _, u := range r.Status.Unread {
		keys = append(keys, u.Key)
	}
	want := []string{
		"devices", "hardware/0000:01:00.0/device", "hardware/0000:01:00.0/iommu-group", "hardware/0000:01:00.0/link-speed-max-gtps",
		"hardware/0000:01:00.0/numa-node", "hardware/0000:02:00.0", "hardware/module.version", "smi",
	}
	if diff := cmp.Diff(want, keys); diff != "" {
		t.Error(diff)
	}
	if n := hardwareOf(r).Data[KeyCount]; !n.Equal(measurement.Int(1)) {
		t.Errorf("%v GPUs", n)
	}
}

func TestC27_ContainerWithoutNvidiaSMITellsHowToAskTheDriver(t *testing.T) {
	r := collectView(t.Context(), t, host.View{Root: hosttest.Tree(t, h100Host())}, "")
	if want := notFound + "; run privileged, or with --runtime-class nvidia, to ask their driver"; r.Status.Reason != want {
		t.Errorf("%q", r.Status.Reason)
	}
	if hw := hardwareOf(r); !hw.Data[KeyCount].Equal(measurement.Int(2)) || hw.Data[KeyState].String() != DriverNotAsked {
		t.Errorf("%+v", hw)
	}
}

func TestC27_ContainerTellsOfItsOwnGPUsOnlyAndCountsNone(t *testing.T) {
	files := join(h100Host(), device("0000:9b:00.0", "0x030200", "0x10de", "0x2330", "1", "nvidia"))
	r := collectView(t.Context(), t, host.View{Root: hosttest.Tree(t, files)}, script(t, "cat $here/sample.xml"))
	s := measurement.Snapshot{Measurements: r.Measurements}
	smi, _ := s.Subtype(measurement.TypeGPU, SubtypeSMI)
	if n, ok := smi.Data[KeyCount]; ok || smi.Context["scope"] != "what this container was given" {
		t.Errorf("%v, %+v", n, smi.Context)
	}
	states := map[string]string{}
	for _, item := range hardwareOf(r).Items {
		states[item.Name] = item.Data[KeyState].String()
	}
	want := map[string]string{"0000:1b:00.0": DriverAnswering, "0001:43:00.0": DriverAnswering, "0000:9b:00.0": DriverNotAsked}
	if diff := cmp.Diff(want, states); diff != "" {
		t.Error(diff)
	}
	for _, u := range r.Status.Unread {
		if u.Key == "devices/0000:9b:00.0" && u.Reason == "it was not given to this container" {
			return
		}
	}
	t.Errorf("%+v", r.Status)
}
