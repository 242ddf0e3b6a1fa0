package topology

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/NVIDIA/aicr/pkg/collector/topology/topologytest"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

// Each byte puts one of four values of one of eight keys onto one of many
// nodes; the last two keys are taints.
func FuzzNothingIsLost(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 250, 251}, uint8(3))
	f.Add([]byte("which nodes carry which labels"), uint8(120))
	f.Fuzz(func(t *testing.T, data []byte, count uint8) {
		all := make([]*corev1.Node, int(count)+1)
		for i := range all {
			all[i] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%03d.example.com", len(all)-i), Labels: map[string]string{}}}
		}
		for i, b := range data {
			n := all[(i*7+int(b))%len(all)]
			// Values and keys that would meet in the folded map.
			key, value := []string{"a", "a.a", "b", "b.a", "c", "d", "t", "t.a"}[b>>2&7], []string{"", "a", "a.a", strconv.Itoa(i)}[b&3]
			if key[0] == 't' {
				n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Value: value, Effect: []corev1.TaintEffect{"NoSchedule", "NoExecute"}[b>>7]})
				continue
			}
			n.Labels[key] = value
		}
		var n nodes
		for _, node := range all {
			node.Spec.Taints = unique(node.Spec.Taints)
			n.add(node)
		}
		s := &measurement.Snapshot{Measurements: []measurement.Measurement{{Type: measurement.TypeNodeTopology, Subtypes: n.report(0, true)}}}
		got, err := topologytest.Read(s)
		if err != nil {
			t.Fatal(err)
		}
		want := topologytest.Expect(all)
		for _, node := range want.Nodes {
			for key := range got.Summarised {
				delete(node.Labels, key)
			}
			for taint := range node.Taints {
				if got.Summarised[summarisedName(taint)] {
					delete(node.Taints, taint)
				}
			}
		}
		want.Summarised = got.Summarised
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		// The folded map has an entry for each item that is not summarised.
		for _, name := range []string{subtypeLabel, subtypeTaint} {
			st, _ := s.Subtype(measurement.TypeNodeTopology, name)
			told := 0
			for _, item := range st.Items {
				if item.Context == nil {
					told++
				}
			}
			if len(st.Data) != told {
				t.Errorf("%s: %d entries for %d items", name, len(st.Data), told)
			}
		}
	})
}

// unique keeps the first taint of a key and effect, of which a node has one.
func unique(taints []corev1.Taint) []corev1.Taint {
	var out []corev1.Taint
	seen := map[string]bool{}
	for _, t := range taints {
		if id := t.Key + ":" + string(t.Effect); !seen[id] {
			seen[id] = true
			out = append(out, t)
		}
	}
	return out
}

// summarisedName is the key and effect of a taint written key=value:effect.
func summarisedName(taint string) string {
	key, rest, _ := strings.Cut(taint, "=")
	_, effect, _ := strings.Cut(rest, ":")
	return key + ":" + effect
}
