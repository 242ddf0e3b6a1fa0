package os

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/NVIDIA/aicr/pkg/collector"
	"github.com/NVIDIA/aicr/pkg/collector/host"
	"github.com/NVIDIA/aicr/pkg/collector/host/hosttest"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

func TestHardwareOfMachines(t *testing.T) {
	archives, err := filepath.Glob("testdata/machines/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatal(archives, err)
	}
	for _, archive := range archives {
		root, err := host.View{Root: hosttest.Tree(t, hosttest.Archive(t, archive))}.Open()
		if err != nil {
			t.Fatal(err)
		}
		var f collector.Findings
		hardware(root, 4096, &f)
		_ = root.Close()
		hosttest.Golden(t, strings.TrimSuffix(strings.TrimPrefix(archive, "testdata/"), "txtar")+"golden.yaml", f.Result(measurement.TypeOS))
	}
}

func TestParseListIsTheKernels(t *testing.T) {
	for text, want := range map[string][]int{
		"": nil, "0": {0}, "0-3": {0, 1, 2, 3}, "0,2-3,8": {0, 2, 3, 8},
	} {
		got, err := parseList(text)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: %v %s", text, err, diff)
		}
	}
	for _, text := range []string{"x", "1-", "-1", "3-1", "0-70000", "0-65535,0", "0-40000,0-40000", ",", " 1"} {
		if got, err := parseList(text); err == nil {
			t.Errorf("%q reads as %d numbers", text, len(got))
		}
	}
}

func TestParseMemInfoKeepsSizesInKiB(t *testing.T) {
	got := parseMemInfo("MemTotal:  10 kB\nHugePages_Total:  8\nMemFree:5 kB\nBad: x kB\nOther: 5 MB\nNeg: -1 kB\n")
	if diff := cmp.Diff(map[string]uint64{"MemTotal": 10, "MemFree": 5}, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseZoneInfoAddsUpANodesZones(t *testing.T) {
	got := parseZoneInfo("Node 0, zone DMA\n  present  5\n  managed 3\nNode 0, zone Normal\n  present 7\nNode 1, zone Movable\n present 0\nNode x, zone y\n present 9\n")
	if diff := cmp.Diff(map[int]uint64{0: 12, 1: 0}, got); diff != "" {
		t.Error(diff)
	}
}

func TestChosenIsTheWordInBrackets(t *testing.T) {
	for text, want := range map[string]string{"always [madvise] never": "madvise", "never": "never", "[open": "[open", "": ""} {
		if got := chosen(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func FuzzParseList(f *testing.F) {
	f.Add("0-3,8,10-11")
	f.Add("0-65535")
	f.Fuzz(func(t *testing.T, text string) {
		numbers, err := parseList(text)
		if len(numbers) > maxListed || (err != nil && numbers != nil) {
			t.Errorf("%d numbers, %v", len(numbers), err)
		}
	})
}

func FuzzParseZoneInfo(f *testing.F) {
	f.Add("Node 0, zone      DMA\n  pages free     3840\n        present  3998\nNode 1, zone   Normal\n        present  1\n")
	f.Fuzz(func(t *testing.T, text string) {
		for node := range parseZoneInfo(text) {
			if node < 0 || !strings.Contains(text, "Node ") {
				t.Errorf("node %d", node)
			}
		}
	})
}

func FuzzParseMemInfo(f *testing.F) {
	f.Add("MemTotal:       24683664 kB\nHugePages_Total:       0\n")
	f.Add("MemTotal: -1 kB")
	f.Fuzz(func(t *testing.T, text string) {
		for name, size := range parseMemInfo(text) {
			if size == 0 && !strings.Contains(text, "0") {
				t.Errorf("%s reads as zero", name)
			}
		}
	})
}

func FuzzParseFirstCPU(f *testing.F) {
	f.Add("processor\t: 0\nmodel name\t: A: B\n\nprocessor\t: 1\n")
	f.Fuzz(func(t *testing.T, text string) {
		for name, value := range parseFirstCPU(text) {
			if strings.TrimSpace(name) != name || strings.TrimSpace(value) != value || strings.Contains(name, ":") {
				t.Errorf("%q: %q", name, value)
			}
		}
	})
}
