//go:build unix

package gpu

import (
	"context"
	"maps"
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
		map[string]string{"sys/devices/pci0000:00/0000:1b:01.0/physfn": "-> ../0000:1b:00.0"},
	)
}

// collect runs the collector on a host of those files, with nvidia-smi only
// where path names it.
func collect(ctx context.Context, t *testing.T, files map[string]string, path string) collector.Result {
	t.Helper()
	c := Collector{view: host.View{Root: hosttest.Tree(t, files)}, path: path}
	r := c.Collect(ctx)
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
		ran := script(t, "echo ran; exit 1")
		r := collect(t.Context(), t, files, ran)
		want := collector.Result{
			Measurements: []measurement.Measurement{{Type: measurement.TypeGPU, Subtypes: []measurement.Subtype{{
				Name: SubtypeHardware, Data: map[string]measurement.Reading{KeyCount: measurement.Int(0)},
				Context: map[string]string{"source": "/sys/bus/pci/devices"},
			}}}},
			Status: measurement.CollectorStatus{State: measurement.StateOK},
		}
		if diff := cmp.Diff(want, r); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestHostWithoutSysfsIsNoHostWithoutGPUs(t *testing.T) {
	r := collect(t.Context(), t, map[string]string{"etc/hosts": ""}, "")
	if r.Status.State != measurement.StateFailed || !strings.Contains(r.Status.Unread[1].Reason, "the PCI bus cannot be read") {
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
	if got := hardwareOf(r).Data[KeyDriverState].String(); got != DriverNotBound || r.Status.State != measurement.StatePartial {
		t.Error(got, r.Status.State)
	}
}

func TestWhatADeviceDoesNotTellIsUnread(t *testing.T) {
	files := device("0000:01:00.0", "0x030200", "0x10de", "0x2330", "many", "nvidia")
	delete(files, "sys/devices/pci0000:00/0000:01:00.0/device")
	files["sys/devices/pci0000:00/0000:02:00.0/x"] = ""
	files["sys/bus/pci/devices/0000:02:00.0"] = "-> ../../../devices/pci0000:00/0000:02:00.0"
	r := collect(t.Context(), t, files, "")
	var keys []string
	for _, u := range r.Status.Unread {
		keys = append(keys, u.Key)
	}
	want := []string{"devices", "hardware/0000:01:00.0/device", "hardware/0000:01:00.0/numa-node", "hardware/0000:02:00.0", "smi"}
	if diff := cmp.Diff(want, keys); diff != "" {
		t.Error(diff)
	}
	if n := hardwareOf(r).Data[KeyCount]; !n.Equal(measurement.Int(1)) {
		t.Errorf("%v GPUs", n)
	}
}
