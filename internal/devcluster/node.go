package devcluster

import (
	"fmt"
	"sync/atomic"
)

// Node is a kubelet with a container runtime and a proxy for Services, in
// namespaces of its own. Its methods are safe for concurrent use.
type Node struct {
	cluster *Cluster
	name    string
	ip      string
	dir     string
	init    *process // the first process of the node's namespaces
	undo    undo
	stopped atomic.Bool
}

// Name gives the node's name.
func (n *Node) Name() string { return n.name }

// IP gives the node's address, reachable from this machine.
func (n *Node) IP() string { return n.ip }

// Stop ends the node's pods and programs and puts back what it changed on the
// machine. Its Node object stays, as that of a machine that was switched off.
// It is safe to call again.
func (n *Node) Stop() error {
	if !n.stopped.CompareAndSwap(false, true) {
		return nil
	}
	if err := n.undo.run(); err != nil {
		return fmt.Errorf("stop node %s: %w", n.name, err)
	}
	n.cluster.logf("node %s stopped", n.name)
	return nil
}
