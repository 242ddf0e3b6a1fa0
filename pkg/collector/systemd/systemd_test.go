package systemd_test

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/NVIDIA/aicr/pkg/collector/host"
	"github.com/NVIDIA/aicr/pkg/collector/host/hosttest"
	"github.com/NVIDIA/aicr/pkg/collector/systemd"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

func TestWithoutSystemdTheCollectorIsSkipped(t *testing.T) {
	for name, c := range map[string]struct {
		view host.View
		want string
	}{
		"another init system": {host.View{Root: t.TempDir(), Files: true}, "the host does not run systemd: it has no /run/systemd/system"},
		"from a container":    {host.Container(), "only the container was seen, not the host's systemd; run privileged to read it"},
	} {
		r := systemd.New(c.view, nil).Collect(t.Context())
		want := measurement.CollectorStatus{State: measurement.StateSkipped, Reason: c.want}
		if diff := cmp.Diff(want, r.Status); diff != "" || len(r.Measurements) > 0 {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestSystemdThatCannotBeAskedFailsTheCollectorAndSaysWhy(t *testing.T) {
	root := hosttest.Tree(t, map[string]string{"run/systemd/system/x": "", "run/systemd/private": "a file"})
	r := systemd.New(host.View{Root: root, Files: true}, nil).Collect(t.Context())
	want := measurement.CollectorStatus{
		State:  measurement.StateFailed,
		Reason: "systemd cannot be asked: /run/dbus/system_bus_socket: no such file or directory; /run/systemd/private: connection refused",
	}
	if diff := cmp.Diff(want, r.Status); diff != "" {
		t.Error(diff)
	}
}

// listen makes systemd's own socket, and gives each connection to serve.
func listen(t *testing.T, serve func(net.Conn)) host.View {
	t.Helper()
	root := hosttest.Tree(t, map[string]string{"run/systemd/system/x": "", "run/dbus/x": ""})
	l, err := net.Listen("unix", filepath.Join(root, "run/systemd/private"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(c)
		}
	}()
	return host.View{Root: root, Files: true}
}

func TestSystemdThatDoesNotAnswerIsLeftWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	view := listen(t, func(c net.Conn) {
		t.Cleanup(func() { _ = c.Close() })
		cancel()
	})
	start := time.Now()
	r := systemd.New(view, nil).Collect(ctx)
	if r.Status.State != measurement.StateFailed || !strings.Contains(r.Status.Reason, "/run/systemd/private: no answer in time") || time.Since(start) > 10*time.Second {
		t.Errorf("%+v after %v", r.Status, time.Since(start))
	}
}

func TestSystemdThatRefusesThisUserFailsTheCollector(t *testing.T) {
	view := listen(t, func(c net.Conn) {
		_, _ = c.Write([]byte("REJECTED ANONYMOUS\r\n"))
		_ = c.Close()
	})
	r := systemd.New(view, nil).Collect(t.Context())
	if r.Status.State != measurement.StateFailed || !strings.Contains(r.Status.Reason, "/run/systemd/private: ") {
		t.Errorf("%+v", r.Status)
	}
}
