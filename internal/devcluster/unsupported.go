//go:build !linux

package devcluster

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
)

// Elsewhere than on Linux the package compiles, and Start says why it cannot.

func errNotLinux() error {
	return fmt.Errorf("%w: a development cluster needs Linux, this is %s", ErrUnsupported, runtime.GOOS)
}

func detach(*exec.Cmd) error { return errNotLinux() }

func killGroup(process *os.Process) { _ = process.Kill() }

type port struct{ number int }

func holdPort() (*port, error) { return nil, errNotLinux() }

func (p *port) release() error { return nil }
