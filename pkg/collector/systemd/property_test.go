package systemd

import (
	"math"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/NVIDIA/aicr/pkg/measurement"
)

func TestPropertiesBecomeReadings(t *testing.T) {
	variants := map[string]dbus.Variant{}
	for name, v := range map[string]any{
		"LoadState": "loaded", "Result": "", "Restart": "always", "OOMScoreAdjust": int32(-999), "UMask": uint32(0o22),
		"CPUWeight": uint64(math.MaxUint64), "CPUShares": uint64(1024), "TasksMax": uint64(math.MaxUint64), "LimitNOFILE": uint64(1 << 20),
		"CPUAffinity": []byte{0b1011, 0x80, 1}, "NUMAMask": []byte{}, "Wants": []string{"b", "a"}, "DropInPaths": []string{"/b c", "/a", ""},
		"MainPID": uint32(4711), "ExecMainStartTimestamp": uint64(1), "MemoryCurrent": uint64(2),
		"ExecStart": [][]any{{"/bin/sh", []string{"/bin/sh", "-c", "x --token hunter2\ty"}, false, uint64(1)}}, "ExecStop": [][]any{},
		"ExecReload": [][]any{{"/bin/kill", []string{"-HUP"}, true}, {"not"}, {1, 2, 3}},
	} {
		variants[name] = dbus.MakeVariant(v)
	}
	want := readings{
		"LoadState": measurement.Str("loaded"), "Restart": measurement.Str("always"), "OOMScoreAdjust": measurement.Int(-999), "UMask": measurement.Str("0022"),
		"CPUShares": measurement.Int(1024), "TasksMax": measurement.Str("infinity"), "LimitNOFILE": measurement.Int(1 << 20),
		"CPUAffinity": measurement.Str("0-1,3,15-16"), "Wants": measurement.Str("a b"), "DropInPaths": measurement.Str(`"/b c" /a ""`),
		"ExecStart": measurement.Str(`/bin/sh -c "x --token [redacted]\ty"`), "ExecReload.1": measurement.Str("-@/bin/kill -HUP"),
	}
	if diff := cmp.Diff(want, report(variants)); diff != "" {
		t.Error(diff)
	}
}

func FuzzPropertiesHideSecrets(f *testing.F) {
	f.Add("OPTIONS", "--v 2", "x", []byte{3})
	f.Add("TOKEN", "", "", []byte{})
	f.Fuzz(func(t *testing.T, name, before, after string, mask []byte) {
		const secret = "hunter2"
		if strings.Contains(name+before+after, secret) || strings.ContainsAny(name, "=") {
			t.Skip()
		}
		r := readings{}
		r.add("Environment", []string{
			name + "=" + before + " --token " + secret + " " + after,
			"A" + name + "_PASSWORD=" + before + secret + after,
			"B" + name + "=https://me:" + secret + "@host/" + before,
		})
		r.add("ExecStart", [][]any{{"/bin/x", []string{"/bin/x", "--password", secret, before, "--api-key=" + secret, after}, false}})
		r.add("CPUAffinity", mask)
		for k, v := range r {
			if strings.Contains(v.String(), secret) {
				t.Errorf("%s: %s", k, v)
			}
			if v.String() == "" && !strings.HasPrefix(k, "Environment") {
				t.Errorf("%s is empty", k)
			}
		}
	})
}
