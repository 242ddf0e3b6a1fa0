package os

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/NVIDIA/aicr/pkg/measurement"
)

const cpuDir = "sys/devices/system/cpu"

// processors reports the model, which is the first processor's, and how many
// sockets, cores and threads are online.
func (m machineReader) processors(info map[string]string) {
	for key, field := range map[string]string{
		"cpu-vendor": "vendor_id", "cpu-model": "model name",
		// Arm's processors have numbers in place of names.
		"cpu-implementer": "CPU implementer", "cpu-part": "CPU part",
	} {
		if v := info[field]; v != "" {
			m.data[key] = measurement.Str(v)
		}
	}
	text, ok := m.read("cpu-threads", cpuDir+"/online")
	if !ok {
		return
	}
	online, err := parseList(text)
	if err != nil {
		m.unread("cpu-threads", err)
		return
	}
	m.data["cpu-threads"] = measurement.Int(len(online))
	// A virtual machine's firmware may not tell sockets: -1.
	m.countDistinct("cpu-sockets", online, "physical_package_id")
	// Before Linux 5.3 the threads of a core were called siblings.
	m.countDistinct("cpu-cores", online, "core_cpus_list", "thread_siblings_list")
}

// cpuInfo returns what /proc/cpuinfo tells of the first processor. The rest is
// not read: the kernel asks each processor for it.
func (m machineReader) cpuInfo() map[string]string {
	const enough = 16 << 10 // the longest line, of flags, has two
	head, err := m.root.ReadHead("proc/cpuinfo", enough)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.unread("cpu-model", err)
	}
	return parseFirstCPU(string(head))
}

// parseFirstCPU reads the "name : value" lines up to the first empty one.
func parseFirstCPU(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" {
			break
		}
		if name, value, ok := strings.Cut(line, ":"); ok {
			info[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	return info
}

// countDistinct counts the values that the processors' topology files of the
// first such name hold.
func (m machineReader) countDistinct(key string, cpus []int, files ...string) {
	values := map[string]bool{}
	for _, cpu := range cpus {
		dir := path.Join(cpuDir, "cpu"+strconv.Itoa(cpu), "topology")
		var v string
		var ok bool
		for _, file := range files {
			if v, ok = m.read(key, path.Join(dir, file)); ok {
				break
			}
		}
		if !ok || v == "-1" {
			return
		}
		values[v] = true
	}
	m.data[key] = measurement.Int(len(values))
}

// maxListed bounds a list's numbers; the largest kernels are built for 8192
// processors.
const maxListed = 1 << 16

// parseList reads the kernel's lists of numbers, such as "0-3,8" (see
// bitmap_print_to_pagebuf in lib/bitmap.c).
func parseList(text string) ([]int, error) {
	var numbers []int
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.ParseUint(from, 10, 16)
		last := first
		if isRange && err == nil {
			last, err = strconv.ParseUint(to, 10, 16)
		}
		if err != nil || last < first || len(numbers)+int(last-first) >= maxListed {
			return nil, fmt.Errorf("the kernel lists %q", text)
		}
		for n := first; n <= last; n++ {
			numbers = append(numbers, int(n))
		}
	}
	return numbers, nil
}
