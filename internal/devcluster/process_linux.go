package devcluster

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// detach puts the command into a process group of its own, where a Ctrl-C in
// the terminal does not reach it, and lets the kernel kill it when its
// parent is gone.
func detach(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	return nil
}

// killGroup kills a process that detach prepared and all of its group.
// "No such process" is no error here: then it has ended already.
func killGroup(process *os.Process) {
	_ = unix.Kill(-process.Pid, unix.SIGKILL)
}
