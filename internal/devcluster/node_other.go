//go:build !linux

package devcluster

import "context"

// CheckNode says that only Linux can run a node.
func CheckNode() error { return errNotLinux() }

// StartNode says that only Linux can run a node.
func (c *Cluster) StartNode(context.Context, NodeOptions) (*Node, error) { return nil, errNotLinux() }

// LoadImage says that only Linux can run a node.
func (n *Node) LoadImage(context.Context, string) error { return errNotLinux() }
