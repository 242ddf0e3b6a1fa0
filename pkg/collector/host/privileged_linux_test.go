package host

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const childEnv = "AICR_TEST_PRIVILEGED_VIEW"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		if err := json.NewEncoder(os.Stdout).Encode(seen()); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// sight is what a child saw.
type sight struct {
	View   View
	OSType string
}

func seen() sight {
	s := sight{View: Privileged()}
	root, err := s.View.Open()
	if err == nil {
		s.OSType, err = root.ReadString("proc/sys/kernel/ostype")
	}
	if err != nil {
		s.OSType = err.Error()
	}
	return s
}

func TestC27_PrivilegedViewIsTrueInRealNamespaces(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("making namespaces needs root")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		clone uintptr
		want  View
	}{
		"a pod with the host's network": {syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC, View{Files: true, Shared: all &^ IPC}},
		"a pod with a network of its own": {
			syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS,
			View{Files: true, Shared: PID | User},
		},
		"no mounts of its own": {0, Container()},
	} {
		cmd := exec.Command(self)
		cmd.Env = []string{childEnv + "=1"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: c.clone}
		out, err := cmd.Output()
		if errors.Is(err, syscall.EPERM) {
			t.Skip("making namespaces is not allowed here")
		}
		if err != nil {
			t.Fatal(name, err)
		}
		var child sight
		if err := json.Unmarshal(out, &child); err != nil {
			t.Fatal(name, err)
		}
		got := child.View
		if child.OSType != "Linux" {
			t.Errorf("%s: %s", name, child.OSType)
		}
		if r := got.Root; got.Files && r != "/proc/1/root" && r != "/proc/2/root" {
			t.Errorf("%s: %s", name, r)
		}
		if diff := cmp.Diff(c.want, got, cmpopts.IgnoreFields(View{}, "Root")); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
