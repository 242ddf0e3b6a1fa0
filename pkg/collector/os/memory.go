package os

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/NVIDIA/aicr/pkg/measurement"
)

const hugePagesDir = "sys/kernel/mm/hugepages"

// memory reports how much there is, and the huge pages that are set aside. How
// much is free is not told: it changes all the time.
func (m machineReader) memory() {
	if text, ok := m.read("memory-total-kib", "proc/meminfo"); ok {
		info := parseMemInfo(text)
		for key, field := range map[string]string{
			"memory-total-kib": "MemTotal", "swap-total-kib": "SwapTotal", "hugepage-default-kib": "Hugepagesize",
		} {
			if n, ok := info[field]; ok {
				m.data[key] = measurement.Uint(n)
			} else if field == "MemTotal" {
				m.unread(key, errors.New("/proc/meminfo tells no size of it"))
			}
		}
	}
	sizes, _ := m.list("hugepages", hugePagesDir)
	for _, size := range sizes {
		kib, ok := strings.CutSuffix(strings.TrimPrefix(size, "hugepages-"), "kB")
		if !ok {
			continue
		}
		key := "hugepages." + kib + "kib"
		text, ok := m.read(key, path.Join(hugePagesDir, size, "nr_hugepages"))
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			m.unread(key, fmt.Errorf("the kernel tells %q", text))
			continue
		}
		m.data[measurement.Key(key)] = measurement.Uint(n)
	}
	if text, ok := m.read("transparent-hugepages", "sys/kernel/mm/transparent_hugepage/enabled"); ok {
		m.data["transparent-hugepages"] = measurement.Str(chosen(text))
	}
}

// chosen returns the word in brackets of "always [madvise] never", which is
// how sysfs shows a choice, or the whole text where there is none.
func chosen(text string) string {
	if _, rest, ok := strings.Cut(text, "["); ok {
		if word, _, ok := strings.Cut(rest, "]"); ok {
			return word
		}
	}
	return text
}

// parseMemInfo reads the sizes in KiB of proc_meminfo(5).
func parseMemInfo(text string) map[string]uint64 {
	sizes := map[string]uint64{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		fields := strings.Fields(value)
		if len(fields) != 2 || fields[1] != "kB" {
			continue
		}
		if n, err := strconv.ParseUint(fields[0], 10, 64); err == nil {
			sizes[name] = n
		}
	}
	return sizes
}
