//go:build unix

package gpu

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// runChild runs nvidia-smi and waits until it ends, at most until ctx does. A
// child can hang in the kernel, where no signal reaches it: shortly before the
// end its process group is asked to end, then killed, and left behind if even
// that does not end it.
func runChild(ctx context.Context, p place) answer {
	out, errs := &bounded{max: maxOutput}, &bounded{max: maxErrors}
	// The end of ctx is handled here, more gently than by exec.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), p.file(), "-q", "-x")
	cmd.Dir = "/"
	cmd.Env = childEnv(p)
	cmd.Stdout, cmd.Stderr = out, errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Chroot: p.chroot}
	// A grandchild that keeps the pipes open does not hold up the end.
	cmd.WaitDelay = termGrace

	start := time.Now()
	if err := cmd.Start(); err != nil {
		return answer{startErr: explainStart(err)}
	}
	ended := make(chan answer, 1)
	go func() { ended <- finished(cmd.Wait(), cmd.ProcessState, out, errs) }()

	soon, cancel := beforeEnd(ctx)
	defer cancel()
	select {
	case a := <-ended:
		return a
	case <-soon.Done():
	}
	// To the second: the same state gives the same words.
	took := time.Since(start).Round(time.Second)
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
	kill := time.NewTimer(termGrace)
	defer kill.Stop()
	select {
	case <-ended:
	case <-kill.C:
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	// The buffers may still be written to: they are not looked at.
	return answer{hung: true, took: took}
}

// beforeEnd returns a context that ends so long before ctx as it takes to end
// a child.
func beforeEnd(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline.Add(-min(termGrace, time.Until(deadline)/2)))
}

// childEnv gives nvidia-smi what it needs and nothing of this process' that
// could hold a secret.
func childEnv(p place) []string {
	env := []string{"LC_ALL=C", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	libs := p.libs
	if own := os.Getenv("LD_LIBRARY_PATH"); libs == "" && p.chroot == "" {
		libs = own
	}
	if libs != "" {
		env = append(env, "LD_LIBRARY_PATH="+libs)
	}
	return env
}

func finished(err error, state *os.ProcessState, out, errs *bounded) answer {
	a := answer{out: out.buf.Bytes(), errs: errs.buf.Bytes(), code: state.ExitCode(), flooded: out.over}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			a.signal = ws.Signal().String()
		}
	}
	return a
}

// explainStart makes a start's error speak of what is missing.
func explainStart(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("the loader that it needs is not in this image")
	case errors.Is(err, syscall.EPERM):
		return errors.New("no permission to change the root to the host's")
	}
	return err
}
