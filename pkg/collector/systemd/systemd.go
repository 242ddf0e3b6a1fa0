// Package systemd reads how the services that GPU nodes depend on are
// configured and in what state they are, from the host's systemd.
//
// It asks systemd itself, through the sockets below the host's root: the
// system bus, and where there is none the socket that systemd keeps for its own
// tools. There is a subtype a unit, named after it, whose keys are systemd's
// names of properties, org.freedesktop.systemd1(5). Counters, process IDs and
// times are left out; what looks like a secret is redacted.
//
// The protocol is spoken by godbus alone: go-systemd would add a second
// connection and a module, to spare two calls.
package systemd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/godbus/dbus/v5"

	"github.com/NVIDIA/aicr/pkg/collector"
	"github.com/NVIDIA/aicr/pkg/collector/host"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

// defaultServices are always read.
var defaultServices = [...]string{
	"containerd", "docker", "crio", "kubelet",
	"nvidia-persistenced", "nvidia-fabricmanager", "nvidia-imex", "nvidia-dcgm",
}

// The sockets of the system bus and of systemd(1), below the host's root.
const (
	busSocket     = "run/dbus/system_bus_socket"
	privateSocket = "run/systemd/private"
)

// Where systemd is on a bus, org.freedesktop.systemd1(5).
const (
	busName     = "org.freedesktop.systemd1"
	managerPath = dbus.ObjectPath("/org/freedesktop/systemd1")
)

// Collector reads services. It is immutable.
type Collector struct {
	view  host.View
	units []string
}

var _ collector.Collector = Collector{}

// New returns a collector for the host as view shows it, which also reads the
// units named in services; a name without a unit's suffix is a service's.
func New(view host.View, services []string) Collector {
	units := slices.Concat(defaultServices[:], services)
	for i := range units {
		units[i] = unitOf(units[i])
	}
	slices.Sort(units)
	return Collector{view: view, units: slices.Compact(units)}
}

// unitOf completes a name as systemctl(1) does.
func unitOf(name string) string {
	switch ext := strings.TrimPrefix(filepath.Ext(name), "."); ext {
	case "service", "socket", "device", "mount", "automount", "swap", "target", "path", "timer", "slice", "scope":
		return name
	}
	return name + ".service"
}

// Name implements [collector.Collector].
func (Collector) Name() string { return "systemd" }

// Collect implements [collector.Collector].
func (c Collector) Collect(ctx context.Context) collector.Result {
	if !c.view.Files {
		return collector.Skipped("only the container was seen, not the host's systemd; run privileged to read it")
	}
	var f collector.Findings
	if booted, err := c.booted(); err != nil {
		f.Because("%v", err)
		return f.Result(measurement.TypeSystemD)
	} else if !booted {
		return collector.Skipped("the host does not run systemd: it has no /run/systemd/system")
	}
	conn, err := c.connect(ctx)
	if err != nil {
		f.Because("systemd cannot be asked: %v", err)
		return f.Result(measurement.TypeSystemD)
	}
	defer func() { _ = conn.Close() }()
	for _, unit := range c.units {
		properties, err := properties(ctx, conn, unit)
		if err != nil {
			f.Unread(unit, fmt.Sprintf("systemd does not tell: %v", err))
			continue
		}
		f.Add(measurement.Subtype{Name: unit, Data: report(properties)})
	}
	return f.Result(measurement.TypeSystemD)
}

// booted tells whether the host runs systemd, as sd_booted(3) does.
func (c Collector) booted() (bool, error) {
	root, err := c.view.Open()
	if err != nil {
		return false, err
	}
	defer func() { _ = root.Close() }()
	_, err = root.Stat("run/systemd/system")
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// connect returns a connection that ends with ctx; the caller closes it.
func (c Collector) connect(ctx context.Context) (*dbus.Conn, error) {
	conn, err := dial(ctx, filepath.Join(c.view.Root, busSocket), (*dbus.Conn).Hello)
	if err == nil {
		return conn, nil
	}
	conn, privateErr := dial(ctx, filepath.Join(c.view.Root, privateSocket), awaken)
	if privateErr == nil {
		return conn, nil
	}
	return nil, fmt.Errorf("/%s: %w; /%s: %w", busSocket, why(err), privateSocket, why(privateErr))
}

// dial connects as this process' user, which is what the kernel tells the
// other side too, and begins with what that side wants to hear first.
func dial(ctx context.Context, socket string, begin func(*dbus.Conn) error) (*dbus.Conn, error) {
	raw, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	conn, err := dbus.NewConn(raw, dbus.WithContext(ctx))
	if err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	err = conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Geteuid()))})
	if err == nil {
		err = begin(conn)
	}
	if err != nil {
		_ = conn.Close()
		if ctx.Err() != nil {
			err = errors.New("no answer in time")
		}
		return nil, err
	}
	return conn, nil
}

// awaken sends systemd a message that it cannot overlook. Systemd reads the
// end of the authentication in pieces of some hundred bytes, and a first
// message that comes so soon that it is within such a piece lies there until
// more arrives. Of a long one there is more. The answer may be an error: it
// is an answer.
func awaken(conn *dbus.Conn) error {
	err := conn.Object(busName, managerPath).Call("org.freedesktop.DBus.Peer.Ping", 0, strings.Repeat(" ", 8<<10)).Err
	var answer dbus.Error
	if errors.As(err, &answer) {
		return nil
	}
	return err
}

// properties asks for all that systemd tells of a unit, known or not.
func properties(ctx context.Context, conn *dbus.Conn, unit string) (map[string]dbus.Variant, error) {
	var path dbus.ObjectPath
	// It loads a unit that nothing refers to, which systemd forgets again.
	call := conn.Object(busName, managerPath).CallWithContext(ctx, busName+".Manager.LoadUnit", dbus.FlagNoAutoStart, unit)
	if err := call.Store(&path); err != nil {
		return nil, err
	}
	var all map[string]dbus.Variant
	call = conn.Object(busName, path).CallWithContext(ctx, "org.freedesktop.DBus.Properties.GetAll", dbus.FlagNoAutoStart, "")
	err := call.Store(&all)
	return all, err
}

// why returns the reason in err without the path, which names this process'
// view of the host.
func why(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		var sys *os.SyscallError
		if errors.As(op.Err, &sys) {
			return sys.Err
		}
		return op.Err
	}
	return err
}
