package gpu

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

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
	log.source = "/usr/bin/nvidia-smi"
	var f collector.Findings
	log.report(&f, true)
	return f.Result(measurement.TypeGPU)
}

func TestSMIReportsNumbersAndNothingUnreadAsZero(t *testing.T) {
	for _, name := range []string{"h100-v13", "gb200-v12", "old"} {
		hosttest.Golden(t, name+".golden.yaml", report(t, read(t, "testdata/"+name+".xml")))
	}
}

func TestSMIReadsRealFiles(t *testing.T) {
	for _, f := range hosttest.Shared(t, "nvidia-smi/*.xml") {
		name := strings.TrimSuffix(filepath.Base(f), ".xml")
		hosttest.Golden(t, "real/"+name+".golden.yaml", report(t, read(t, f)))
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
		if err == nil || !strings.Contains(err.Error(), c.want) || len(log.parts) > 0 {
			t.Errorf("%s: %v, want %q; %+v", name, err, c.want, log)
		}
	}
}

func TestSMIPassesOverTextAround(t *testing.T) {
	whole := string(read(t, "testdata/h100-v13.xml"))
	log, err := parseSMI([]byte("WARNING: something\n" + whole + "\nWARNING: infoROM is corrupted & more <\n"))
	if err != nil || len(log.parts) != 2 {
		t.Errorf("%d GPUs, %v", len(log.parts), err)
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
		"Corrupted infoROM":          {"Corrupted infoROM", isUnreadable},
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
		if got := addressOf(record{text: map[string]string{"@id": id}}); got != want {
			t.Errorf("%q: %q", id, got)
		}
	}
}

func FuzzParseSMI(f *testing.F) {
	for _, name := range []string{"h100-v13", "gb200-v12", "old"} {
		f.Add(read(f, "testdata/"+name+".xml"))
	}
	f.Add([]byte(hosttest.Archive(f, "testdata/hosts/h100-mig.txtar")["smi.xml"]))
	f.Add([]byte("<nvidia_smi_log><gpu><gpu></gpu></gpu></nvidia_smi_log>"))
	f.Add([]byte("<nvidia_smi_log><attached_gpus>0</attached_gpus>"))
	f.Fuzz(func(t *testing.T, text []byte) {
		log, err := parseSMI(text)
		if err != nil {
			return
		}
		var findings collector.Findings
		log.report(&findings, true)
		s := measurement.Snapshot{Measurements: findings.Result(measurement.TypeGPU).Measurements}
		s.Normalize()
		if _, err := yaml.Marshal(s); err != nil {
			t.Error(err)
		}
		devices, ok := s.Subtype(measurement.TypeGPU, SubtypeDevices)
		if !ok || len(devices.Items) != len(log.parts) {
			t.Errorf("%d items of %d GPUs", len(devices.Items), len(log.parts))
		}
		for i, gpu := range log.parts {
			for _, field := range deviceFields {
				printed := field.printed(gpu)
				if devices.Items[i].Data[field.key].Equal(measurement.Int(0)) && strings.Trim(printed, " \n\t0."+field.unit) != "" {
					t.Errorf("%s: %q reads as zero", field.key, printed)
				}
			}
		}
	})
}

func FuzzParseLink(f *testing.F) {
	for _, s := range []string{"32.0 GT/s PCIe", "2.5 GT/s", "8 GT/s", "Unknown", "Unknown speed", "0x1p3 GT/s", "16", "63"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if speed, err := parseLinkSpeed(text); err == nil && (speed < 0 || math.IsInf(speed, 0) || text[0] < '0' || text[0] > '9') {
			t.Errorf("%q reads as %v", text, speed)
		}
		if lanes, err := parseLinkWidth(text); err == nil && (lanes < 1 || lanes > 32) {
			t.Errorf("%q reads as %d lanes", text, lanes)
		}
	})
}

func TestSMIDeepNestingIsAnError(t *testing.T) {
	deep := "<nvidia_smi_log><gpu>" + strings.Repeat("<a>", 1e6)
	if _, err := parseSMI([]byte(deep)); err == nil || !strings.Contains(err.Error(), "nested too deep") {
		t.Error(err)
	}
	if log, err := parseSMI([]byte("<nvidia_smi_log>" + strings.Repeat("<gpu>", 1e4))); err == nil {
		t.Error(log, "was read")
	}
}

func TestGroupThatIsNotToldStandsForItsParts(t *testing.T) {
	r := record{text: map[string]string{"remapped_rows": "[GPU is lost]", "fabric": "N/A", "a/b": "x"}}
	for path, want := range map[string]string{
		"remapped_rows/remapped_row_unc": "[GPU is lost]", "fabric/health/summary": "N/A", "a/b": "x", "a/c": "", "": "",
	} {
		if got := r.lookup(path); got != want {
			t.Errorf("%s: %q", path, got)
		}
	}
}

func TestEveryFieldIsInTheSchemaAndItsText(t *testing.T) {
	schema, text := string(read(t, "../../../docs/schema/snapshot.json")), string(read(t, "../../../docs/schema.md"))
	for group, fields := range map[string][]field{"": deviceFields[:], "gpu.": firstGPUFields[:], "mig.<n>.": migFields[:]} {
		for _, f := range fields {
			told := group + strings.TrimPrefix(f.key, group)
			if !strings.Contains(text, "`"+told+"`") {
				t.Errorf("docs/schema.md does not tell of %s", told)
			}
			if group != "mig.<n>." && !strings.Contains(schema, `"`+f.key+`": {`) || !strings.Contains(schema, f.key) {
				t.Errorf("docs/schema/snapshot.json does not tell of %s", told)
			}
		}
	}
}
