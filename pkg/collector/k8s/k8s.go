// Package k8s reads what the cluster tells about itself and about one node.
//
// It sends two requests: GET /version, which every caller may read, and GET of
// the node, which the agent's ClusterRole grants.
package k8s

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"

	"github.com/NVIDIA/aicr/pkg/collector"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

// The subtypes.
const (
	subtypeServer = "server"
	subtypeNode   = "node"
)

// Collector reads a cluster. It is immutable.
type Collector struct {
	client   kubernetes.Interface
	nodeName string
}

var _ collector.Collector = Collector{}

// New returns a collector that reads through client, which may be nil where
// there is no cluster to ask. nodeName may be empty where it is not known.
func New(client kubernetes.Interface, nodeName string) Collector {
	return Collector{client: client, nodeName: nodeName}
}

// Name implements [collector.Collector].
func (Collector) Name() string { return "k8s" }

// Collect implements [collector.Collector].
func (c Collector) Collect(ctx context.Context) collector.Result {
	if c.client == nil {
		return collector.Skipped("no cluster was named")
	}
	var (
		info               *version.Info
		node               *corev1.Node
		infoErr, nodeErr   error
		errNodeNameUnknown = errors.New("the node's name is not known")
		both               sync.WaitGroup
	)
	both.Go(func() {
		info, infoErr = discovery.ToServerVersionInterfaceWithContext(c.client.Discovery()).ServerVersionWithContext(ctx)
	})
	both.Go(func() {
		if nodeErr = errNodeNameUnknown; c.nodeName != "" {
			node, nodeErr = c.client.CoreV1().Nodes().Get(ctx, c.nodeName, metav1.GetOptions{})
		}
	})
	both.Wait()

	var f collector.Findings
	if infoErr != nil {
		f.Unread(subtypeServer, explain(infoErr, "read the server's version", "the server's version"))
	} else {
		f.Add(server(info))
	}
	switch {
	case errors.Is(nodeErr, errNodeNameUnknown):
		f.Unread(subtypeNode, nodeErr.Error())
	case nodeErr != nil:
		f.Unread(subtypeNode, explain(nodeErr, "get nodes", fmt.Sprintf("node %q", c.nodeName)))
	default:
		f.Add(nodeSubtype(node))
	}
	return f.Result(measurement.TypeK8s)
}

// explain tells apart what a person would do different things about.
func explain(err error, action, object string) string {
	switch {
	case apierrors.IsForbidden(err):
		return "forbidden: the agent may not " + action
	case apierrors.IsUnauthorized(err):
		return "unauthorized: the API server does not accept the agent's credentials"
	case apierrors.IsNotFound(err):
		return "not found: the cluster has no " + object
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "the API server gave no answer in time"
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return "the API server refused: " + err.Error()
	}
	return "the API server cannot be reached: " + err.Error()
}
