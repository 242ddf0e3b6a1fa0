// Package snapshotter holds the use cases: capture the host that this process
// runs on, and deploy an agent that captures a node of a cluster.
package snapshotter
