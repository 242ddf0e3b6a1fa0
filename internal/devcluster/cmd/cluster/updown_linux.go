package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/NVIDIA/aicr/internal/devcluster"
)

const (
	pollInterval = 50 * time.Millisecond
	// downLimit is how long the cluster may take to end by itself.
	downLimit = time.Minute
)

// up starts a cluster in the background, unless one runs, and tells where.
func up(ctx context.Context, f folder) error {
	lock, err := f.lock()
	if err != nil {
		return err
	}
	if lock != nil {
		// Nobody serves. What a killed server left is taken away first.
		if err := errors.Join(sweep(ctx, f), lock.Close()); err != nil {
			return err
		}
		if err := spawn(ctx, f); err != nil {
			return err
		}
	}
	s, err := f.read()
	if err != nil {
		return err
	}
	if !s.Ready {
		return errors.New("another process is bringing the cluster up")
	}
	fmt.Printf("kubeconfig: %s\n", f.kubeconfig())
	if s.Node != "" {
		fmt.Printf("node:       %s\n", s.Node)
	}
	if s.Image != "" {
		fmt.Printf("image:      %s\n", s.Image)
	}
	if s.Note != "" {
		fmt.Printf("note:       %s\n", s.Note)
	}
	return nil
}

// spawn starts the serving process in a session of its own, so that it
// outlives this one and its terminal, and waits until it is ready.
func spawn(ctx context.Context, f folder) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	log, err := os.Create(f.log())
	if err != nil {
		return fmt.Errorf("start the cluster: %w", err)
	}
	defer log.Close()
	cmd := exec.CommandContext(context.WithoutCancel(ctx), program, "serve", string(f))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the cluster: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	progress, err := os.Open(f.log())
	if err != nil {
		return fmt.Errorf("follow the cluster's start: %w", err)
	}
	defer progress.Close()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		_, _ = io.Copy(os.Stderr, progress) // shown for information only
		if s, err := f.read(); err == nil && s.Ready {
			return nil
		}
		select {
		case err := <-ended:
			_, _ = io.Copy(os.Stderr, progress)
			return fmt.Errorf("start the cluster: %w", errors.Join(errors.New("it ended"), err))
		case <-ctx.Done():
			_ = unix.Kill(cmd.Process.Pid, unix.SIGTERM) // it takes away what it made
			return errors.Join(ctx.Err(), <-ended)
		case <-tick.C:
		}
	}
}

// down ends the cluster and waits until all of it is gone.
func down(ctx context.Context, f folder) error {
	lock, err := f.lock()
	if err != nil {
		return err
	}
	if lock == nil {
		if lock, err = end(ctx, f); err != nil {
			return err
		}
	}
	if err := errors.Join(sweep(ctx, f), lock.Close(), os.RemoveAll(string(f))); err != nil {
		return fmt.Errorf("take the cluster away: %w", err)
	}
	fmt.Println("the cluster is down")
	return nil
}

// end tells the serving process to end, kills it when it does not, and gives
// the lock that it held.
func end(ctx context.Context, f folder) (*os.File, error) {
	s, err := f.read()
	if err != nil {
		return nil, err
	}
	if s.PID == 0 {
		return nil, errors.New("the cluster is just starting or ending: try again")
	}
	// The lock is held, so the process lives and the number is its own.
	if err := unix.Kill(s.PID, unix.SIGTERM); err != nil {
		return nil, fmt.Errorf("end the cluster's process %d: %w", s.PID, err)
	}
	kill := time.After(downLimit)
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		lock, err := f.lock()
		if err != nil || lock != nil {
			return lock, err
		}
		select {
		case <-kill:
			_ = unix.Kill(s.PID, unix.SIGKILL) // its parts die with it
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

// sweep removes what a server that was killed left behind: its files and its
// node's cgroups. Its processes, mounts and devices went with it.
func sweep(ctx context.Context, f folder) error {
	s, err := f.read()
	if err != nil || s.Data == "" {
		return err
	}
	if os.Geteuid() == 0 { // else there was no node
		err = devcluster.SweepNodes(ctx)
	}
	return errors.Join(err, os.RemoveAll(s.Data), os.Remove(f.state()))
}
