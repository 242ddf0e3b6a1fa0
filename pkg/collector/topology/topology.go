// Package topology reads which nodes of a cluster carry which labels and
// taints.
//
// The document stays small at any number of nodes because each node is named
// once: nodes that agree in all labels and taints make up a numbered node set
// (an item of the subtype summary), and each label and taint names the sets
// that carry it, such as "1-17,23". Keys whose value is nearly every node's own
// are only summarised.
package topology

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/NVIDIA/aicr/pkg/collector"
	"github.com/NVIDIA/aicr/pkg/collector/apiserver"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

// The subtypes.
const (
	subtypeSummary = "summary"
	subtypeLabel   = "label"
	subtypeTaint   = "taint"
)

// pageSize is how many nodes are asked for at once. A Node object lists the
// images that the node holds, and is larger than most.
const pageSize = apiserver.PageSize / 2

// Collector reads the nodes of a cluster. It is immutable.
type Collector struct {
	client   kubernetes.Interface
	maxNodes int
	pageSize int64
}

var _ collector.Collector = Collector{}

// New returns a collector that reads through client, which may be nil where
// there is no cluster to ask. maxNodes caps the node names in one entry, the
// rest being counted; 0 is no cap.
func New(client kubernetes.Interface, maxNodes int) Collector {
	return Collector{client: client, maxNodes: maxNodes, pageSize: pageSize}
}

// Name implements [collector.Collector].
func (Collector) Name() string { return "topology" }

// Collect implements [collector.Collector].
func (c Collector) Collect(ctx context.Context) collector.Result {
	if c.client == nil {
		return collector.Skipped("no cluster was named")
	}
	// Taints are in a node's spec: metadata alone would not do.
	var n nodes
	consistent, err := apiserver.Pages(ctx, c.pageSize, c.client.CoreV1().Nodes().List, func(page *corev1.NodeList) {
		for i := range page.Items {
			n.add(&page.Items[i])
		}
	})
	var f collector.Findings
	if err != nil {
		// Half of the nodes would pass for all of them.
		f.Because("%s", apiserver.Reason(err, "list nodes", "nodes"))
		return f.Result(measurement.TypeNodeTopology)
	}
	for _, s := range n.report(c.maxNodes, consistent) {
		f.Add(s)
	}
	return f.Result(measurement.TypeNodeTopology)
}
