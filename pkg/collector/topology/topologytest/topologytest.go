// Package topologytest reads a document's NodeTopology back into what each
// node carries, as a consumer of the document would, and makes clusters like
// real ones to do it with.
package topologytest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/NVIDIA/aicr/pkg/measurement"
)

// Node is what one node carries, as far as it is not summarised: labels by
// key, and taints written key=value:effect.
type Node struct {
	Labels map[string]string
	Taints map[string]bool
}

// Topology is what a document tells of all nodes.
type Topology struct {
	Nodes map[string]*Node
	// Summarised are the label keys, and taint keys with their effect, whose
	// values are not told.
	Summarised map[string]bool
}

// Read resolves the node sets of each label and taint. It fails where the
// document contradicts itself.
func Read(s *measurement.Snapshot) (Topology, error) {
	t := Topology{Nodes: map[string]*Node{}, Summarised: map[string]bool{}}
	summary, ok := s.Subtype(measurement.TypeNodeTopology, "summary")
	if !ok {
		return t, fmt.Errorf("there is no summary")
	}
	var domain string
	if d, ok := summary.Data["node-domain"]; ok {
		domain = d.String()
	}
	sets := make([][]string, len(summary.Items)+1)
	for i, item := range summary.Items {
		if item.Name != strconv.Itoa(i+1) {
			return t, fmt.Errorf("set %d is named %s", i+1, item.Name)
		}
		sets[i+1] = strings.Split(item.Data["nodes"].String(), ",")
		if n := int64(len(sets[i+1])); !item.Data["node-count"].Equal(measurement.Int(n)) {
			return t, fmt.Errorf("set %s names %d nodes and counts %v", item.Name, n, item.Data["node-count"])
		}
		for j, name := range sets[i+1] {
			name += domain
			sets[i+1][j] = name
			if t.Nodes[name] != nil {
				return t, fmt.Errorf("node %s is in two sets", name)
			}
			t.Nodes[name] = &Node{Labels: map[string]string{}, Taints: map[string]bool{}}
		}
	}
	for _, subtype := range []string{"label", "taint"} {
		st, _ := s.Subtype(measurement.TypeNodeTopology, subtype)
		for _, item := range st.Items {
			if item.Context["summarised"] != "" {
				t.Summarised[item.Name] = true
				continue
			}
			if err := t.carry(item, sets); err != nil {
				return t, fmt.Errorf("%s %s: %w", subtype, item.Name, err)
			}
		}
	}
	return t, nil
}

// carry gives the nodes that an item tells of what it tells.
func (t Topology) carry(item measurement.Item, sets [][]string) error {
	key, value := item.Data["key"].String(), item.Data["value"].String()
	effect, taint := item.Data["effect"]
	places, err := places(item.Data["node-sets"].String(), len(sets)-1)
	if err != nil {
		return err
	}
	carriers := 0
	for _, place := range places {
		for _, name := range sets[place] {
			carriers++
			if taint {
				t.Nodes[name].Taints[key+"="+value+":"+effect.String()] = true
				continue
			}
			if old, twice := t.Nodes[name].Labels[key]; twice {
				return fmt.Errorf("node %s has it as %q too", name, old)
			}
			t.Nodes[name].Labels[key] = value
		}
	}
	if !item.Data["node-count"].Equal(measurement.Int(carriers)) {
		return fmt.Errorf("it counts %v nodes and has %d", item.Data["node-count"], carriers)
	}
	return nil
}

// places reads "1-3,7".
func places(text string, most int) ([]int, error) {
	var out []int
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, err1 := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		if err1 != nil || err2 != nil || first < 1 || last < first || last > most {
			return nil, fmt.Errorf("node sets %q, of %d", text, most)
		}
		for i := first; i <= last; i++ {
			out = append(out, i)
		}
	}
	return out, nil
}
