package gpu

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/NVIDIA/aicr/pkg/collector"
	"github.com/NVIDIA/aicr/pkg/collector/host/hosttest"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func report(t testing.TB, text []byte) collector.Result {
	t.Helper()
	log, err := parseSMI(text)
	if err != nil {
		t.Fatal(err)
	}
	var f collector.Findings
	log.report(&f)
	return f.Result(measurement.TypeGPU)
}

func TestSMIReportsNumbersAndNothingUnreadAsZero(t *testing.T) {
	for _, name := range []string{"h100-v13", "gb200-v12", "old"} {
		hosttest.Golden(t, name+".golden.yaml", report(t, read(t, "testdata/"+name+".xml")))
	}
}

func TestSMIReadsRealFiles(t *testing.T) {
	type gpu struct{ driver, cuda, address, product, memory, ecc, mig string }
	want := map[string]gpu{
		"a100-sxm4-v12.xml":        {"535.54.03", "12.2", "0000:01:00.0", "NVIDIA A100-SXM4-80GB", "81920", "Enabled", "Enabled"},
		"a10g.xml":                 {"515.105.01", "11.7", "0000:00:1e.0", "NVIDIA A10G", "23028", "Enabled", "absent"},
		"dual_a5000-v13.xml":       {"590.44.01", "13.1", "0000:81:00.0", "NVIDIA RTX A5000", "24564", "Disabled", "absent"},
		"quadro-p400.xml":          {"418.43", "10.1", "0000:43:00.0", "Quadro P400", "1998", "absent", "absent"},
		"rtx-3060-v12.xml":         {"570.124.04", "12.8", "0000:2d:00.0", "NVIDIA GeForce RTX 3060", "12288", "absent", "absent"},
		"rtx-4000-sff-ada-v13.xml": {"595.84", "13.2", "0000:06:00.0", "NVIDIA RTX 4000 SFF Ada Generation", "20475", "Disabled", "absent"},
		"tesla-t4.xml":             {"515.105.01", "11.7", "0000:00:1e.0", "Tesla T4", "15360", "Enabled", "absent"},
	}
	got := map[string]gpu{}
	for _, f := range hosttest.Shared(t, "nvidia-smi/*.xml") {
		r := report(t, read(t, f))
		s := measurement.Snapshot{Measurements: r.Measurements}
		smi, _ := s.Subtype(measurement.TypeGPU, SubtypeSMI)
		devices, _ := s.Subtype(measurement.TypeGPU, SubtypeDevices)
		first := devices.Items[0].Data
		text := func(data map[string]measurement.Reading, key string) string {
			if r, ok := data[key]; ok {
				return r.String()
			}
			return "absent"
		}
		got[filepath.Base(f)] = gpu{
			text(smi.Data, "driver-version"), text(smi.Data, "cuda-version"), text(first, "pci-address"), text(first, "product"),
			text(first, "memory-total-mib"), text(first, "ecc-mode"), text(first, "mig-mode"),
		}
		// Of the A100's file, all but the first of four GPUs was cut out.
		wantState := measurement.StateOK
		if strings.Contains(f, "a100") {
			wantState = measurement.StatePartial
		}
		if r.Status.State != wantState {
			t.Errorf("%s: %+v", f, r.Status)
		}
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(gpu{})); diff != "" {
		t.Error(diff)
	}
}

func TestSMICutOrMalformedIsAnErrorThatTellsWhere(t *testing.T) {
	whole := string(read(t, "testdata/h100-v13.xml"))
	for name, c := range map[string]struct{ text, want string }{
		"empty":              {"", "line 1, column 1: unexpected EOF"},
		"cut in a value":     {whole[:strings.Index(whole, "80GB HBM3")], "line 9, column"},
		"cut between GPUs":   {whole[:strings.Index(whole, `	<gpu id="00000001`)], "line 41, column 1: unexpected EOF"},
		"text only":          {"No devices were found\n", "unexpected EOF"},
		"another document":   {"<html></html>", "<html> in place of <nvidia_smi_log>"},
		"text in the middle": {strings.Replace(whole, "<minor_number>0</minor_number>", "<minor_number>0", 1), "line 40, column 8: element <minor_number> closed by </gpu>"},
		"query text":         {"==============NVSMI LOG==============\nTimestamp : x\nDriver Version : 535\n", "unexpected EOF"},
		"bad bytes":          {strings.Replace(whole, "Hopper", "\xff\xfe", 1), "invalid UTF-8"},
	} {
		log, err := parseSMI([]byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) || len(log.GPUs) > 0 || log.Driver != "" {
			t.Errorf("%s: %v, want %q; %+v", name, err, c.want, log)
		}
	}
}

func TestSMIPassesOverTextAround(t *testing.T) {
	whole := string(read(t, "testdata/h100-v13.xml"))
	log, err := parseSMI([]byte("WARNING: something\n" + whole + "\nWARNING: infoROM is corrupted & more <\n"))
	if err != nil || len(log.GPUs) != 2 {
		t.Errorf("%d GPUs, %v", len(log.GPUs), err)
	}
}

func TestSMIRealInvalidFileIsAnError(t *testing.T) {
	for _, f := range hosttest.Shared(t, "nvidia-smi/*.invalid") {
		if _, err := parseSMI(read(t, f)); err == nil {
			t.Error(f)
		}
	}
}

func TestJudgeTellsAbsentFromUnreadable(t *testing.T) {
	for printed, want := range map[string]struct {
		value string
		sense sense
	}{
		"Enabled": {"Enabled", isValue}, " 12.2\n": {"12.2", isValue}, "None": {"None", isValue}, "0": {"0", isValue},
		"N/A": {"", isAbsent}, "[N/A]": {"", isAbsent}, "Not Supported": {"", isAbsent}, "[Not Supported]": {"", isAbsent}, "": {"", isAbsent},
		"Requested functionality has been deprecated": {"", isAbsent},
		"ERR!": {"ERR!", isUnreadable}, "Unknown Error": {"Unknown Error", isUnreadable}, "[Unknown Error]": {"Unknown Error", isUnreadable},
		"[GPU is lost]": {"GPU is lost", isUnreadable}, "GPU is lost": {"GPU is lost", isUnreadable}, "[Some later error]": {"Some later error", isUnreadable},
		"[Insufficient Permissions]": {"Insufficient Permissions", isUnreadable},
		"[open":                      {"[open", isValue},
	} {
		v, s := judge(printed)
		if v != want.value || s != want.sense {
			t.Errorf("%q: %q, %v", printed, v, s)
		}
	}
}

func TestAddressIsAsInSysfs(t *testing.T) {
	for id, want := range map[string]string{
		"00000000:3B:00.0": "0000:3b:00.0", "0000:3B:00.0": "0000:3b:00.0", "00000008:01:00.0": "0008:01:00.0",
		"00010000:01:00.0": "10000:01:00.0", "": "", "N/A": "", "xyz:01:00.0": "",
	} {
		if got := (smiGPU{ID: id}).address(); got != want {
			t.Errorf("%q: %q", id, got)
		}
	}
}

func FuzzParseSMI(f *testing.F) {
	for _, name := range []string{"h100-v13", "gb200-v12", "old"} {
		f.Add(read(f, "testdata/"+name+".xml"))
	}
	f.Add([]byte("<nvidia_smi_log><gpu><gpu></gpu></gpu></nvidia_smi_log>"))
	f.Add([]byte("<nvidia_smi_log><attached_gpus>0</attached_gpus>"))
	f.Fuzz(func(t *testing.T, text []byte) {
		log, err := parseSMI(text)
		if err != nil {
			return
		}
		var findings collector.Findings
		log.report(&findings)
		s := measurement.Snapshot{Measurements: findings.Result(measurement.TypeGPU).Measurements}
		s.Normalize()
		devices, ok := s.Subtype(measurement.TypeGPU, SubtypeDevices)
		if !ok || len(devices.Items) != len(log.GPUs) {
			t.Errorf("%d items of %d GPUs", len(devices.Items), len(log.GPUs))
		}
		for i, g := range log.GPUs {
			m := devices.Items[i].Data["memory-total-mib"]
			if m.Equal(measurement.Int(0)) && !strings.HasPrefix(strings.TrimLeft(strings.TrimSpace(g.MemoryTotal), "+-"), "0") {
				t.Errorf("%q reads as zero", g.MemoryTotal)
			}
		}
	})
}
