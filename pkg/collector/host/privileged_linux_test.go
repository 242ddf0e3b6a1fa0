package host

import (
	"encoding/json"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const childEnv = "AICR_TEST_PRIVILEGED_VIEW"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		if err := json.NewEncoder(os.Stdout).Encode(Privileged()); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
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
		"a pod with the host's network": {syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC, View{Root: "/proc/1/root", Files: true, Shared: all &^ IPC}},
		"a pod with a network of its own": {
			syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS,
			View{Root: "/proc/1/root", Files: true, Shared: PID | User},
		},
		"no mounts of its own": {0, Container()},
	} {
		cmd := exec.Command(self)
		cmd.Env = []string{childEnv + "=1"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: c.clone}
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(name, err)
		}
		var got View
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatal(name, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
