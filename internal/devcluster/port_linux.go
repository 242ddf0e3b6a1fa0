package devcluster

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// port is a TCP port on the loopback address that is ours as long as it is
// held: bound with port sharing and never listened on, it lets our own API
// server listen there, again and again, while nobody else can be given it.
type port struct {
	number int
	fd     int
}

func holdPort() (*port, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("reserve a port: %w", err)
	}
	number, err := bindShared(fd)
	if err != nil {
		_ = unix.Close(fd) // the other error tells more
		return nil, fmt.Errorf("reserve a port: %w", err)
	}
	return &port{number: number, fd: fd}, nil
}

func bindShared(fd int) (int, error) {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return 0, err
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, err
	}
	address, err := unix.Getsockname(fd)
	if err != nil {
		return 0, err
	}
	inet, ok := address.(*unix.SockaddrInet4)
	if !ok {
		return 0, fmt.Errorf("socket has a %T for an address", address)
	}
	return inet.Port, nil
}

func (p *port) release() error { return unix.Close(p.fd) }
