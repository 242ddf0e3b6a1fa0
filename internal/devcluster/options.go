package devcluster

import (
	"errors"
	"io"
)

// Fixed addresses of every cluster. They exist only inside nodes' network
// namespaces and as names in certificates, so clusters do not collide.
const (
	// serviceRange holds the addresses of Services.
	serviceRange = "10.0.0.0/24"
	// serviceAddress is where pods reach the API server: the Service
	// kubernetes, port 443.
	serviceAddress = "10.0.0.1"
	// advertised is the address behind that Service. A node puts it on its
	// own loopback device and forwards from it to the API server.
	advertised = "10.246.0.1"
)

// ErrUnsupported is what errors wrap that tell that this machine cannot do
// what was asked: no Linux, no root, a program missing.
var ErrUnsupported = errors.New("not supported here")

// Options says how a cluster is to be. The zero value is a whole control
// plane in a temporary folder.
type Options struct {
	// Dir is the folder for all data. It is made where absent, must be
	// empty, and Stop removes it. Empty means a new temporary folder. Its
	// path must be short, for it holds sockets.
	Dir string
	// Log receives a line for each step of starting and stopping. Nil
	// means none.
	Log io.Writer
	// Audit makes the API server record every request, for AuditEvents.
	Audit bool
	// AdmissionPlugins are turned on beside the default ones and
	// NodeRestriction, such as OwnerReferencesPermissionEnforcement.
	AdmissionPlugins []string
	// NoControllers leaves out the controller manager and the scheduler:
	// objects are stored and admitted, but nothing acts on them.
	NoControllers bool
	// APIServerArgs are further arguments of the API server.
	APIServerArgs []string
}

// NodeOptions says how a node is to be. The zero value is a node named
// "node-" and a number, without further labels.
type NodeOptions struct {
	// Name is the node's name and its host name.
	Name string
	// Labels are put on the node when it registers. The kubelet may not
	// give itself labels below kubernetes.io, some well-known ones apart.
	Labels map[string]string
}
