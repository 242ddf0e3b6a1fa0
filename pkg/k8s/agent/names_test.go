package agent

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestC6_NamesEndWithTheRunIDAndFitALabel(t *testing.T) {
	const runID = "20260821-142233-9f3a1c0b7e2d4a55"
	long := strings.Repeat("x", 40)
	for _, tc := range []struct {
		name string
		in   Config
		want names
	}{
		{"defaults", Config{RunID: runID}, names{"aicr-" + runID, "aicr-" + runID, "aicr-node-reader-" + runID}},
		{"base", Config{RunID: runID, NameBase: "lab"}, names{"lab-" + runID, "lab-" + runID, "aicr-node-reader-" + runID}},
		{"own prefixes", Config{RunID: runID, NameBase: "lab", JobName: "snap", ServiceAccountName: "who"},
			names{"snap-" + runID, "who-" + runID, "aicr-node-reader-" + runID}},
		{"prefix is cut, not the run ID", Config{RunID: runID, JobName: long},
			names{long[:63-1-32] + "-" + runID, "aicr-" + runID, "aicr-node-reader-" + runID}},
		{"no separator is left dangling", Config{RunID: runID, JobName: strings.Repeat("y", 28) + "--" + "tail", ServiceAccountName: strings.Repeat("z", 29) + ".tail"},
			names{strings.Repeat("y", 28) + "-" + runID, strings.Repeat("z", 29) + "-" + runID, "aicr-node-reader-" + runID}},
		{"longest run ID", Config{RunID: strings.Repeat("r", 40), JobName: long},
			names{long[:22] + "-" + strings.Repeat("r", 40), "aicr-" + strings.Repeat("r", 40), "aicr-node-reader-" + strings.Repeat("r", 40)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := tc.in.withDefaults().names()
			if got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
			for _, n := range []string{got.job, got.identity, got.clusterRole, StagingConfigMapName(tc.in.RunID)} {
				if msgs := validation.IsDNS1123Label(n); len(msgs) > 0 {
					t.Errorf("%q: %v", n, msgs)
				}
			}
		})
	}
}
