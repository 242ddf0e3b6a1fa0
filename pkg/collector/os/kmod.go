package os

import (
	"slices"
	"strconv"
	"strings"
)

// parseModules reads /proc/modules (proc_modules(5)): name, size, use count,
// users, state, address and taints. It returns the names of the modules that
// are live, sorted, and the numbers, from 1, of the lines that are not so.
func parseModules(text string) (names []string, bad []int) {
	for i, line := range strings.Split(text, "\n") {
		if line == "" {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 6 || !isNumber(fields[1]) {
			bad = append(bad, i+1)
			continue
		}
		// The others are "Loading" and "Unloading".
		if fields[4] == "Live" {
			names = append(names, fields[0])
		}
	}
	slices.Sort(names)
	return slices.Compact(names), bad
}

func isNumber(s string) bool {
	_, err := strconv.ParseUint(s, 10, 64)
	return err == nil
}
