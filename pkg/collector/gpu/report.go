package gpu

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/NVIDIA/aicr/pkg/collector"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

const (
	keyMIGMode = "mig-mode"
	migEnabled = "Enabled"
	// keyScope is the context key that tells of a view that is no host's.
	keyScope       = "scope"
	scopeContainer = "what this container was given"
)

// report adds what the driver said to the findings. Where whole is false, it
// spoke of the GPUs that this container was given, which are not the host's
// count.
func (l smiLog) report(f *collector.Findings, whole bool) {
	context := map[string]string{"source": l.source}
	devices := measurement.Subtype{Name: SubtypeDevices, Data: map[string]measurement.Reading{}}
	if !whole {
		context[keyScope] = scopeContainer
		devices.Context = map[string]string{keyScope: scopeContainer}
	}
	smi := readings{prefix: SubtypeSMI, data: map[string]measurement.Reading{}, f: f}
	smi.all(smiFields[:], l.record, "")
	if len(l.parts) > 0 {
		smi.all(firstGPUFields[:], l.parts[0], "")
	}
	n, counted := smi.data[KeyCount]
	if counted && !n.Equal(measurement.Int(len(l.parts))) {
		f.Unread(SubtypeDevices, fmt.Sprintf("nvidia-smi counts %v GPUs and told of %d", n, len(l.parts)))
	}
	if !whole {
		delete(smi.data, KeyCount)
		smi.unread(KeyCount, "only the GPUs given to this container were seen, not the host's")
	}
	f.Add(measurement.Subtype{Name: SubtypeSMI, Data: smi.data, Context: context})
	for i, gpu := range l.parts {
		devices.Items = append(devices.Items, item(i, gpu, f))
	}
	f.Add(devices)
}

// item is named by the PCI address, as the item in hardware is. index is the
// place in nvidia-smi's order, which is its -i.
func item(index int, gpu record, f *collector.Findings) measurement.Item {
	address := addressOf(gpu)
	name := address
	if name == "" {
		name = strconv.Itoa(index)
	}
	r := readings{prefix: SubtypeDevices + "/" + name, data: map[string]measurement.Reading{}, f: f}
	r.data["index"] = measurement.Int(index)
	r.text("pci-address", address)
	r.all(deviceFields[:], gpu, "")
	if mode, ok := r.data[keyMIGMode]; ok && mode.String() == migEnabled {
		r.data["mig-instances"] = measurement.Int(len(gpu.parts))
	}
	for i, mig := range gpu.parts {
		r.all(migFields[:], mig, "mig."+strconv.Itoa(i)+".")
	}
	return measurement.Item{Name: measurement.Text(name), Data: r.data}
}

// readings sorts printed values into what was read, what is absent and what
// could not be read.
type readings struct {
	prefix string
	data   map[string]measurement.Reading
	f      *collector.Findings
}

// all reads fields out of a record, under keys that start with group.
func (r readings) all(fields []field, from record, group string) {
	for _, field := range fields {
		key, printed := group+field.key, field.printed(from)
		switch field.kind {
		case asNumber:
			r.number(key, printed, field.unit)
		case asBool:
			r.yesNo(key, printed)
		default:
			r.text(key, printed)
		}
	}
}

// printed returns what is printed at the first path that tells a value, else
// at one that could not be read, else "".
func (f field) printed(from record) string {
	var unreadable string
	for path := range strings.FieldsSeq(f.paths) {
		printed := from.lookup(path)
		switch _, s := judge(printed); s {
		case isValue:
			return printed
		case isUnreadable:
			unreadable = printed
		}
	}
	return unreadable
}

func (r readings) unread(key, reason string) { r.f.Unread(r.prefix+"/"+key, reason) }

// value returns the bare value, and whether there is one.
func (r readings) value(key, printed string) (string, bool) {
	v, s := judge(printed)
	if s == isUnreadable {
		r.unread(key, "nvidia-smi tells "+strconv.Quote(v))
	}
	return v, s == isValue
}

func (r readings) text(key, printed string) {
	if v, ok := r.value(key, printed); ok {
		r.data[key] = measurement.Str(v)
	}
}

func (r readings) yesNo(key, printed string) {
	v, ok := r.value(key, printed)
	if !ok {
		return
	}
	switch v {
	case "Yes", "True":
		r.data[key] = measurement.Bool(true)
	case "No", "False":
		r.data[key] = measurement.Bool(false)
	default:
		r.unread(key, fmt.Sprintf("nvidia-smi tells %q, which is neither Yes nor No", v))
	}
}

var plainNumber = regexp.MustCompile(`^[0-9]+(?:\.[0-9]+)?$`)

// number reads a number followed by that unit, or by none.
func (r readings) number(key, printed, unit string) {
	v, ok := r.value(key, printed)
	if !ok {
		return
	}
	digits, ok := strings.CutSuffix(v, unit)
	digits = strings.TrimSpace(digits)
	n, err := strconv.ParseFloat(digits, 64)
	if !ok || err != nil || !plainNumber.MatchString(digits) {
		r.unread(key, strings.TrimSpace(fmt.Sprintf("nvidia-smi tells %q, which is no number of %s", v, unit)))
		return
	}
	r.data[key] = measurement.Float(n)
}
