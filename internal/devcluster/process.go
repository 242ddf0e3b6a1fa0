package devcluster

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// killWait bounds the wait for a killed process to be gone.
const killWait = 20 * time.Second

// process is a running program of a cluster, in a process group of its own.
type process struct {
	name string
	log  string // path of the file with its output
	cmd  *exec.Cmd
	done chan struct{} // closed once it has ended and was reaped

	kill sync.Once
}

// startProcess starts cmd with its output appended to the file log. The
// process dies with this one, however this one ends.
func startProcess(name, log string, cmd *exec.Cmd) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer out.Close() // the process has its own copy
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = withoutProxies(os.Environ())
	if err := detach(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &process{name: name, log: log, cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The kernel's parent death signal follows the thread that started
		// the process, so this goroutine keeps that thread until the end.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is read from ProcessState
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// withoutProxies drops the variables that would send requests between a
// cluster's parts, which all stay on this machine, to a proxy.
func withoutProxies(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return strings.HasSuffix(strings.ToUpper(name), "_PROXY")
	})
}

// ended gives nil while the process runs, and otherwise how it ended with the
// last lines that it wrote.
func (p *process) ended() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s ended (%s); its last lines:\n%s", p.name, p.cmd.ProcessState, tail(p.log, 20))
	default:
		return nil
	}
}

// stop kills the process with its group and waits until it is gone. It
// sends no polite signal first: nothing that it wrote is to be kept.
func (p *process) stop() error {
	p.kill.Do(func() { killGroup(p.cmd.Process) })
	select {
	case <-p.done:
		return nil
	case <-time.After(killWait):
		return fmt.Errorf("stop %s: process %d is still there %s after it was killed", p.name, p.cmd.Process.Pid, killWait)
	}
}

// tail gives the last lines of a file, or why it cannot be read.
func tail(path string, lines int) string {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err.Error()
	}
	all := bytes.Split(bytes.TrimRight(text, "\n"), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}
