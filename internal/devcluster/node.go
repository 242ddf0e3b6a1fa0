package devcluster

import "context"

// Node is a kubelet with its container runtime, started by StartNode.
type Node struct {
	cluster *Cluster
}

// Stop x.
func (n *Node) Stop() error { return nil }

// LoadImage x.
func (n *Node) LoadImage(ctx context.Context, tarPath string) error { return nil }
