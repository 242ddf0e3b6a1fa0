package systemd

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/godbus/dbus/v5"

	"github.com/NVIDIA/aicr/pkg/collector/redact"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

// notFound is the load state of a unit that the host does not have.
const notFound = "not-found"

// told are the properties that are reported: configuration and state. Systemd
// has two hundred more, and with each version new counters among them, so that
// a list of what to leave out would not hold.
var told = [...]string{
	// The unit.
	"Description", "LoadState", "ActiveState", "SubState", "UnitFileState", "UnitFilePreset", "FragmentPath", "DropInPaths",
	"SourcePath", "NeedDaemonReload", "Requires", "Requisite", "Wants", "BindsTo", "PartOf", "After", "StartLimitBurst", "StartLimitIntervalUSec",
	// The service.
	"Type", "Result", "Restart", "RestartUSec", "TimeoutStartUSec", "TimeoutStopUSec", "RuntimeMaxUSec", "WatchdogUSec",
	"NotifyAccess", "RemainAfterExit", "GuessMainPID", "PIDFile", "BusName", "KillMode", "KillSignal", "SendSIGKILL", "OOMPolicy",
	"ExecCondition", "ExecStartPre", "ExecStart", "ExecStartPost", "ExecReload", "ExecStop", "ExecStopPost",
	// What its processes run in.
	"User", "Group", "SupplementaryGroups", "DynamicUser", "WorkingDirectory", "RootDirectory", "UMask",
	"Environment", "EnvironmentFiles", "PassEnvironment", "UnsetEnvironment", "StandardOutput", "StandardError",
	"RuntimeDirectory", "StateDirectory", "CacheDirectory", "LogsDirectory", "ConfigurationDirectory",
	"OOMScoreAdjust", "Nice", "CPUSchedulingPolicy", "CPUSchedulingPriority", "IOSchedulingClass", "IOSchedulingPriority",
	"CPUAffinity", "CPUAffinityFromNUMA", "NUMAPolicy", "NUMAMask",
	"PrivateTmp", "PrivateDevices", "PrivateNetwork", "PrivateUsers", "PrivateMounts", "ProtectSystem", "ProtectHome",
	"ProtectKernelModules", "ProtectKernelTunables", "ProtectControlGroups", "NoNewPrivileges", "MountFlags",
	"ReadWritePaths", "ReadOnlyPaths", "InaccessiblePaths",
	// Limits: of processes, and of the control group.
	"LimitCPU", "LimitFSIZE", "LimitDATA", "LimitSTACK", "LimitCORE", "LimitRSS", "LimitNOFILE", "LimitAS", "LimitNPROC",
	"LimitMEMLOCK", "LimitLOCKS", "LimitSIGPENDING", "LimitMSGQUEUE", "LimitNICE", "LimitRTPRIO", "LimitRTTIME",
	"LimitCPUSoft", "LimitFSIZESoft", "LimitDATASoft", "LimitSTACKSoft", "LimitCORESoft", "LimitRSSSoft", "LimitNOFILESoft", "LimitASSoft",
	"LimitNPROCSoft", "LimitMEMLOCKSoft", "LimitLOCKSSoft", "LimitSIGPENDINGSoft", "LimitMSGQUEUESoft", "LimitNICESoft", "LimitRTPRIOSoft", "LimitRTTIMESoft",
	"Slice", "Delegate", "DelegateControllers", "CPUAccounting", "MemoryAccounting", "TasksAccounting", "IOAccounting",
	"CPUWeight", "CPUShares", "CPUQuotaPerSecUSec", "IOWeight", "BlockIOWeight", "AllowedCPUs", "AllowedMemoryNodes",
	"MemoryMin", "MemoryLow", "MemoryHigh", "MemoryMax", "MemorySwapMax", "MemoryLimit", "TasksMax", "DevicePolicy",
	"ManagedOOMSwap", "ManagedOOMMemoryPressure",
}

// unordered are lists that systemd keeps as sets, and gives in any order.
var unordered = [...]string{"Requires", "Requisite", "Wants", "BindsTo", "PartOf", "After", "DelegateControllers"}

type readings map[string]measurement.Reading

// report makes readings of a unit's properties. Of a unit that the host does
// not have it tells that alone: the rest would be systemd's defaults.
func report(properties map[string]dbus.Variant) readings {
	r := readings{}
	if properties["LoadState"].Value() == notFound {
		r["LoadState"] = measurement.Str(notFound)
		return r
	}
	for _, name := range told {
		if v, ok := properties[name]; ok {
			r.add(name, v.Value())
		}
	}
	return r
}

// add reads a value by its type on the bus. What is empty or not set is
// absent.
func (r readings) add(name string, value any) {
	switch v := value.(type) {
	case bool:
		r[name] = measurement.Bool(v)
	case string:
		r.text(name, redact.Value("", v))
	case int32:
		r[name] = measurement.Int(v)
	case int64:
		r[name] = measurement.Int(v)
	case uint32:
		if name == "UMask" {
			r[name] = measurement.Str(fmt.Sprintf("%04o", v))
			return
		}
		r[name] = measurement.Uint(v)
	case uint64:
		r.number(name, v)
	case []byte:
		r.text(name, cpuList(v))
	case []string:
		r.list(name, v)
	case [][]any:
		if name == "EnvironmentFiles" {
			r.text(name, environmentFiles(v))
		} else {
			r.commands(name, v)
		}
	}
}

func (r readings) text(name, value string) {
	if value != "" {
		r[name] = measurement.Str(value)
	}
}

// number reads a limit, or a weight. The largest number stands for a limit
// without bounds, and for a weight that is not set.
func (r readings) number(name string, v uint64) {
	switch weight := strings.HasSuffix(name, "Weight") || strings.HasSuffix(name, "Shares"); {
	case v != math.MaxUint64:
		r[name] = measurement.Uint(v)
	case !weight:
		r[name] = measurement.Str("infinity")
	}
}

func (r readings) list(name string, list []string) {
	if name == "Environment" {
		for _, assignment := range list {
			variable, value, _ := strings.Cut(assignment, "=")
			r[measurement.Key(name+"."+variable)] = measurement.Str(redact.Value(variable, value))
		}
		return
	}
	if slices.Contains(unordered[:], name) {
		list = slices.Sorted(slices.Values(list))
	}
	r.text(name, words(list))
}

// commands reads command lines, a(sasbttttuii): path, arguments, whether a
// failure is ignored, and what became of the last run. They are written as in
// a unit file. Several are numbered from 1.
func (r readings) commands(name string, list [][]any) {
	for i, c := range list {
		key := name
		if len(list) > 1 {
			key += "." + strconv.Itoa(i+1)
		}
		if line, ok := commandLine(c); ok {
			r.text(key, line)
		}
	}
}

func commandLine(c []any) (string, bool) {
	if len(c) < 3 {
		return "", false
	}
	path, okPath := c[0].(string)
	args, okArgs := c[1].([]string)
	ignore, okIgnore := c[2].(bool)
	if !okPath || !okArgs || !okIgnore {
		return "", false
	}
	line := words(redact.Args(args))
	if len(args) == 0 || args[0] != path {
		line = "@" + path + " " + line
	}
	if ignore {
		line = "-" + line
	}
	return line, true
}

// environmentFiles reads a(sb): path, and whether the file may be missing.
func environmentFiles(list [][]any) string {
	var files []string
	for _, f := range list {
		if len(f) < 2 {
			continue
		}
		path, _ := f[0].(string)
		if optional, _ := f[1].(bool); optional {
			path = "-" + path
		}
		files = append(files, path)
	}
	return words(files)
}

// words joins a list by spaces, quoting what would be read as several or none.
func words(list []string) string {
	out := make([]string, len(list))
	for i, w := range list {
		if out[i] = redact.Value("", w); w == "" || strings.ContainsAny(w, " \t\r\n\"") {
			out[i] = strconv.Quote(out[i])
		}
	}
	return strings.Join(out, " ")
}

// cpuList writes a mask, its first bit the lowest, as Linux does: "0-3,8".
func cpuList(mask []byte) string {
	isSet := func(i int) bool { return i < 8*len(mask) && mask[i/8]&(1<<(i%8)) != 0 }
	var out []string
	for i := 0; i < 8*len(mask); i++ {
		if !isSet(i) {
			continue
		}
		first := i
		for isSet(i + 1) {
			i++
		}
		if first == i {
			out = append(out, strconv.Itoa(i))
		} else {
			out = append(out, strconv.Itoa(first)+"-"+strconv.Itoa(i))
		}
	}
	return strings.Join(out, ",")
}
