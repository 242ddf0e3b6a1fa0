package topology

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/NVIDIA/aicr/pkg/collector/apiserver"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

const (
	// manyNodes is the size of a cluster above which the folded map names
	// fewNodes an entry at most, and fewer where there are so many entries that
	// the map would name more than mapNames.
	manyNodes = 100
	fewNodes  = 5
	mapNames  = 1000
	// fewExamples are told of a summarised key's values.
	fewExamples = 3
)

type readings = map[string]measurement.Reading

// report is the three subtypes. max caps the names in an entry; 0 is no cap.
func (n *nodes) report(maxNames int, consistent bool) []measurement.Subtype {
	n.sort()
	told, summarised := n.split()
	sets, carriedBy := n.sets(told)

	label, taint := n.side(told, carriedBy, summarised, false), n.side(told, carriedBy, summarised, true)
	summary := measurement.Subtype{Name: subtypeSummary, Context: map[string]string{
		"items": "the node sets: nodes that agree in all labels and taints, keys that are summarised apart",
	}, Data: readings{
		"nodes":     measurement.Int(len(n.names)),
		"node-sets": measurement.Int(len(sets)),
		"labels":    measurement.Int(len(label.told)), "labels-summarised": measurement.Int(len(label.summarised)),
		"taints": measurement.Int(len(taint.told)), "taints-summarised": measurement.Int(len(taint.summarised)),
	}}
	domain := n.domain()
	if domain != "" {
		summary.Data["node-domain"] = measurement.Str(domain)
		summary.Context["node-domain"] = "ends the name of every node, and is left out of the node sets"
	}
	for i, set := range sets {
		summary.Items = append(summary.Items, measurement.Item{Name: strconv.Itoa(i + 1), Data: readings{
			"node-count": measurement.Int(len(set)),
			"nodes":      measurement.Str(n.list(set, maxNames, domain)),
		}})
	}
	out := []measurement.Subtype{summary, label.subtype(maxNames), taint.subtype(maxNames)}
	for i := range out {
		if maxNames > 0 {
			out[i].Context["max-nodes-per-entry"] = fmt.Sprintf("%d, as asked for: further nodes are counted and not named", maxNames)
		}
		if !consistent {
			apiserver.NoteInconsistent(&out[i])
		}
	}
	return out
}

// domain returns what follows the first dot in the names of many nodes, with
// the dot, if that is the same in all.
func (n *nodes) domain() string {
	if len(n.names) <= manyNodes {
		return ""
	}
	_, domain, ok := strings.Cut(n.names[0], ".")
	for _, name := range n.names {
		if _, d, _ := strings.Cut(name, "."); d != domain || !ok {
			return ""
		}
	}
	return "." + domain
}

// list names the nodes, most of them at most, 0 being all, without that end
// of their names.
func (n *nodes) list(nodes []int32, most int, without string) string {
	named := nodes
	if most > 0 {
		named = nodes[:min(most, len(nodes))]
	}
	var b strings.Builder
	for i, node := range named {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strings.TrimSuffix(n.names[node], without))
	}
	if rest := len(nodes) - len(named); rest > 0 {
		fmt.Fprintf(&b, " (+%d more)", rest)
	}
	return b.String()
}

// side is what is told of the labels, or of the taints.
type side struct {
	name       string
	nodes      *nodes
	told       []entry
	carriedBy  [][]int // for each of told, as nodes.sets returns them
	summarised [][]entry
}

func (n *nodes) side(told []entry, carriedBy [][]int, summarised [][]entry, taints bool) side {
	s := side{name: subtypeLabel, nodes: n}
	if taints {
		s.name = subtypeTaint
	}
	of := func(e entry) bool { return (e.effect != "") == taints }
	places := []int{}
	for i, e := range told {
		if of(e) {
			places = append(places, i)
		}
	}
	slices.SortFunc(places, func(a, b int) int { return compareEntries(told[a], told[b]) })
	for _, i := range places {
		s.told, s.carriedBy = append(s.told, told[i]), append(s.carriedBy, carriedBy[i])
	}
	for _, group := range summarised {
		if of(group[0]) {
			s.summarised = append(s.summarised, group)
		}
	}
	return s
}

func (s side) subtype(maxNames int) measurement.Subtype {
	out := measurement.Subtype{Name: s.name, Data: s.folded(maxNames), Context: map[string]string{
		"node-sets": "of each item: items of the subtype summary, by their names",
	}}
	if most := s.mostInMap(); most > 0 {
		out.Context["data"] = fmt.Sprintf("in a cluster of this size %d nodes at most are named in an entry; the items tell of all", most)
	}
	for i, e := range s.told {
		r := e.readings(len(s.nodes.carriers[e]))
		r["value"] = measurement.Str(e.value)
		r["node-sets"] = measurement.Str(ranges(s.carriedBy[i]))
		out.Items = append(out.Items, measurement.Item{Name: e.String(), Data: r})
	}
	for _, group := range s.summarised {
		out.Items = append(out.Items, s.summary(group, maxNames))
	}
	return out
}

// summary is the item of a key that has nearly as many values as nodes.
func (s side) summary(group []entry, maxNames int) measurement.Item {
	carriers := 0
	for _, e := range group {
		carriers += len(s.nodes.carriers[e])
	}
	most := fewExamples
	if maxNames > 0 {
		most = min(most, maxNames)
	}
	var examples []string
	for _, e := range group[:most] {
		examples = append(examples, e.value)
	}
	key := group[0].group()
	r := key.readings(carriers)
	r["values"] = measurement.Int(len(group))
	r["examples"] = measurement.Str(strings.Join(examples, ","))
	return measurement.Item{Name: key.String(), Data: r, Context: map[string]string{
		"summarised": "the value differs on nearly every node: which node has which is left out, as it is from data",
	}}
}

func (e entry) readings(carriers int) readings {
	r := readings{"key": measurement.Str(e.key), "node-count": measurement.Int(carriers)}
	if e.effect != "" {
		r["effect"] = measurement.Str(string(e.effect))
	}
	return r
}

// String is what kubectl label and kubectl taint take.
func (e entry) String() string {
	s := e.key
	if e.value != "" {
		s += "=" + e.value
	}
	if e.effect != "" {
		s += ":" + string(e.effect)
	}
	return s
}

// mostInMap is how many nodes an entry of the folded map names at most; 0 is
// all.
func (s side) mostInMap() int {
	if len(s.nodes.names) <= manyNodes {
		return 0
	}
	return max(1, min(fewNodes, mapNames/max(1, len(s.told))))
}

// folded is the familiar map: "key: value|node,node", for taints "key:
// effect|value|node,node". A key that has several values is written key.value
// for each; where that makes two entries meet, they are written as by String,
// which no other entry can be.
func (s side) folded(maxNames int) readings {
	most := s.mostInMap()
	if maxNames > 0 && (most == 0 || maxNames < most) {
		most = maxNames
	}
	values := map[string]int{}
	for _, e := range s.told {
		values[e.key]++
	}
	name := func(e entry) string {
		if values[e.key] == 1 {
			return e.key
		}
		return e.key + "." + e.value
	}
	meet := map[string]int{}
	for _, e := range s.told {
		meet[name(e)]++
	}
	r := readings{}
	for _, e := range s.told {
		key, text := name(e), e.value+"|"+s.nodes.list(s.nodes.carriers[e], most, "")
		if meet[key] > 1 {
			key = e.String()
		}
		if e.effect != "" {
			text = string(e.effect) + "|" + text
		}
		r[key] = measurement.Str(text)
	}
	return r
}

// ranges writes rising places, counted from 0, as numbers from 1: "1-3,7".
func ranges(places []int) string {
	var b strings.Builder
	for i := 0; i < len(places); {
		j := i
		for j+1 < len(places) && places[j+1] == places[j]+1 {
			j++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(places[i] + 1))
		if j > i {
			b.WriteString("-" + strconv.Itoa(places[j]+1))
		}
		i = j + 1
	}
	return b.String()
}
