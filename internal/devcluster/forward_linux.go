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
	ctx      context.Context // over when the forwarder is to stop
	cancel   context.CancelFunc
	running  sync.WaitGroup
}

func startForwarder(pid int, listen, target string) (*forwarder, error) {
	listener, err := inNetwork(pid, func() (net.Listener, error) { return net.Listen("tcp", listen) })
	if err != nil {
		return nil, fmt.Errorf("forward from the node to the API server: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	f := &forwarder{listener: listener, target: target, ctx: ctx, cancel: cancel}
	f.running.Go(f.accept)
	return f, nil
}

func (f *forwarder) accept() {
	for {
		conn, err := f.listener.Accept()
		if err != nil {
			return // closed
		}
		f.running.Go(func() { f.carry(conn) })
	}
}

// carry joins one connection with a new one to the target until either side
// ends it. Where nobody listens the caller's connection just ends, as that to
// a server that crashed does.
func (f *forwarder) carry(from net.Conn) {
	defer from.Close()
	to, err := new(net.Dialer).DialContext(f.ctx, "tcp", f.target)
	if err != nil {
		return
	}
	defer to.Close()
	stop := context.AfterFunc(f.ctx, func() {
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
