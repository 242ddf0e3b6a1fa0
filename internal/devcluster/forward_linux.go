package devcluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// inNetwork runs do on a thread that is in the network namespace of the
// process pid. Sockets made there stay in it.
func inNetwork[T any](pid int, do func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	results := make(chan result)
	go func() {
		// Never unlocked: the thread must not run anything else afterwards,
		// and ends with this goroutine.
		runtime.LockOSThread()
		value, err := func() (T, error) {
			var zero T
			namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
			if err != nil {
				return zero, fmt.Errorf("enter the node's network: %w", err)
			}
			defer namespace.Close()
			if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
				return zero, fmt.Errorf("enter the node's network: %w", err)
			}
			return do()
		}()
		results <- result{value, err}
	}()
	r := <-results
	return r.value, r.err
}

// forwarder takes connections in a node's network and carries them to an
// address of this machine: the node's way to an API server that listens on
// the machine's loopback address only.
type forwarder struct {
	listener net.Listener
	target   string
	cancel   context.CancelFunc // ends every connection
	running  sync.WaitGroup
}

func startForwarder(ctx context.Context, pid int, listen, target string) (*forwarder, error) {
	listener, err := inNetwork(pid, func() (net.Listener, error) {
		return new(net.ListenConfig).Listen(ctx, "tcp", listen)
	})
	if err != nil {
		return nil, fmt.Errorf("forward from the node to the API server: %w", err)
	}
	carrying, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &forwarder{listener: listener, target: target, cancel: cancel}
	f.running.Go(func() { f.accept(carrying) })
	return f, nil
}

func (f *forwarder) accept(ctx context.Context) {
	for {
		conn, err := f.listener.Accept()
		if err != nil {
			return // closed
		}
		f.running.Go(func() { f.carry(ctx, conn) })
	}
}

// carry joins one connection with a new one to the target until either side
// ends it. Where nobody listens the caller's connection just ends, as that to
// a server that crashed does.
func (f *forwarder) carry(ctx context.Context, from net.Conn) {
	defer from.Close()
	to, err := new(net.Dialer).DialContext(ctx, "tcp", f.target)
	if err != nil {
		return
	}
	defer to.Close()
	stop := context.AfterFunc(ctx, func() {
		_ = from.Close() // ends both copies below
		_ = to.Close()
	})
	defer stop()
	done := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{from, to}, {to, from}} {
		f.running.Go(func() {
			_, _ = io.Copy(pair[1], pair[0]) // an error is an end like any other
			done <- struct{}{}
		})
	}
	<-done
}

func (f *forwarder) stop() error {
	f.cancel()
	err := f.listener.Close()
	f.running.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
