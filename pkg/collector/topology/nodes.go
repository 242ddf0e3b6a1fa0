package topology

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// A key is summarised where at least manyValues values are shared by fewer
// than two nodes each on average.
const manyValues = 20

// entry is a label, or a taint with its effect.
type entry struct {
	key, value string
	effect     corev1.TaintEffect // empty for a label
}

func compareEntries(a, b entry) int {
	return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.value, b.value), cmp.Compare(a.effect, b.effect))
}

// group is what entries are counted by: a key, and a taint's effect with it.
func (e entry) group() entry { return entry{key: e.key, effect: e.effect} }

// nodes gathers what each node carries. The zero value is ready for use.
type nodes struct {
	names []string
	// carriers are the nodes, as indexes into names, by what they carry.
	carriers map[entry][]int32
}

// add reads a node. It keeps no part of the object but strings.
func (n *nodes) add(node *corev1.Node) {
	if n.carriers == nil {
		n.carriers = map[entry][]int32{}
	}
	i := int32(len(n.names))
	n.names = append(n.names, node.Name)
	for k, v := range node.Labels {
		e := entry{key: k, value: v}
		n.carriers[e] = append(n.carriers[e], i)
	}
	for _, t := range node.Spec.Taints {
		e := entry{t.Key, t.Value, t.Effect}
		n.carriers[e] = append(n.carriers[e], i)
	}
}

// sort brings the nodes into the order of their names, whichever they came in.
func (n *nodes) sort() {
	order := make([]int32, len(n.names))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(n.names[a], n.names[b]) })
	place := make([]int32, len(order))
	for i, old := range order {
		place[old] = int32(i)
	}
	slices.Sort(n.names)
	for _, carriers := range n.carriers {
		for i, old := range carriers {
			carriers[i] = place[old]
		}
		slices.Sort(carriers)
	}
}

// split tells apart the entries that are told one by one, and those of keys
// that are only summarised, by key and sorted.
func (n *nodes) split() (told []entry, summarised [][]entry) {
	groups, carriers := map[entry][]entry{}, map[entry]int{}
	for e, c := range n.carriers {
		groups[e.group()] = append(groups[e.group()], e)
		carriers[e.group()] += len(c)
	}
	for g, entries := range groups {
		if len(entries) >= manyValues && 2*len(entries) > carriers[g] {
			slices.SortFunc(entries, compareEntries)
			summarised = append(summarised, entries)
		} else {
			told = append(told, entries...)
		}
	}
	slices.SortFunc(summarised, func(a, b []entry) int { return compareEntries(a[0], b[0]) })
	// The keys with the fewest values come first: sets are numbered in this
	// order, so that a region's, and within it a zone's, lie side by side.
	slices.SortFunc(told, func(a, b entry) int {
		return cmp.Or(cmp.Compare(len(groups[a.group()]), len(groups[b.group()])), compareEntries(a, b))
	})
	return told, summarised
}

// sets parts the nodes by what they carry of told: each set holds those that
// agree in all of it, in their order. It also returns, for each of told, the
// sets that carry it, by their place in the list and in that order.
func (n *nodes) sets(told []entry) (sets [][]int32, carriedBy [][]int) {
	carried := make([][]int32, len(n.names)) // places in told, rising
	for place, e := range told {
		for _, i := range n.carriers[e] {
			carried[i] = append(carried[i], int32(place))
		}
	}
	order := make([]int32, len(n.names))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(slices.Compare(carried[a], carried[b]), cmp.Compare(a, b))
	})
	carriedBy = make([][]int, len(told))
	for i, node := range order {
		if i == 0 || !slices.Equal(carried[node], carried[order[i-1]]) {
			for _, place := range carried[node] {
				carriedBy[place] = append(carriedBy[place], len(sets))
			}
			sets = append(sets, nil)
		}
		last := len(sets) - 1
		sets[last] = append(sets[last], node)
	}
	return sets, carriedBy
}
