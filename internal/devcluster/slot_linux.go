package devcluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// maxSlots bounds how many nodes one machine has at a time.
const maxSlots = 200

// slot is a number that one node of the machine has at a time. Its addresses,
// its device and its cgroups are named by it.
type slot struct {
	number int
	lock   net.Listener
}

// takeSlot takes the lowest free number. The lock is a socket with an
// abstract name: it leaves no file, it ends with the process, and it is known
// in one network namespace, as are the addresses that it protects.
func takeSlot(ctx context.Context) (*slot, error) {
	for number := 1; number <= maxSlots; number++ {
		s, err := trySlot(ctx, number)
		if s != nil || err != nil {
			return s, err
		}
	}
	return nil, fmt.Errorf("take a node's number: all %d are taken", maxSlots)
}

// trySlot takes one number, or gives nil when a living process has it.
func trySlot(ctx context.Context, number int) (*slot, error) {
	lock, err := new(net.ListenConfig).Listen(ctx, "unix", fmt.Sprintf("@aicr-devcluster-node-%d", number))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("take a node's number: %w", err)
	}
	return &slot{number: number, lock: lock}, nil
}

// SweepNodes takes away what nodes left whose owners were killed: empty
// cgroups. Their processes, mounts and devices went with the owners, and a
// later node takes the rest away too; this is for who wants it gone now.
func SweepNodes(ctx context.Context) error {
	roots, err := cgroupRoots()
	if err != nil {
		return err
	}
	for number := 1; number <= maxSlots; number++ {
		name := (&slot{number: number}).cgroup()
		if !slices.ContainsFunc(roots, func(root string) bool {
			_, err := os.Stat(filepath.Join(root, name))
			return err == nil
		}) {
			continue
		}
		s, err := trySlot(ctx, number)
		if err != nil {
			return err
		}
		if s == nil {
			continue
		}
		if err := errors.Join(removeCgroup(ctx, name), s.release()); err != nil {
			return err
		}
	}
	return nil
}

func (s *slot) release() error { return s.lock.Close() }

// device is the machine's end of the cable to the node.
func (s *slot) device() string { return fmt.Sprintf("aicr%d", s.number) }

// machineIP and nodeIP are the addresses at the cable's two ends.
func (s *slot) machineIP() string { return fmt.Sprintf("10.244.%d.1", s.number) }
func (s *slot) nodeIP() string    { return fmt.Sprintf("10.244.%d.2", s.number) }

// podRange holds the addresses of the node's pods.
func (s *slot) podRange() string { return fmt.Sprintf("10.245.%d.0/24", s.number) }

// cgroup is the name of the group that all of the node's pods are in.
func (s *slot) cgroup() string { return fmt.Sprintf("aicr-node-%d", s.number) }
