// Package k8s reads what the cluster tells about itself and about one node.
//
// Each subtype is a request of its own, or a list read page by page and
// reduced to what is told, so that the memory used does not grow with the
// cluster: GET /version, which every caller may read; GET of the node; lists
// of pods, StorageClasses, DaemonSets and of the operators' policies. A
// request that is refused costs its subtype only.
package k8s

import (
	"context"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"

	"github.com/NVIDIA/aicr/pkg/collector"
	"github.com/NVIDIA/aicr/pkg/collector/apiserver"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

// The subtypes.
const (
	subtypeServer       = "server"
	subtypeNode         = "node"
	subtypeImage        = "image"
	subtypePolicy       = "policy"
	subtypeStorageClass = "storageclass"
	subtypeDaemonSets   = "daemonsets"
)

// Collector reads a cluster. It is immutable.
type Collector struct {
	client   kubernetes.Interface
	nodeName string
	pageSize int64 // objects asked for at once
}

var _ collector.Collector = Collector{}

// New returns a collector that reads through client, which may be nil where
// there is no cluster to ask. nodeName may be empty where it is not known.
func New(client kubernetes.Interface, nodeName string) Collector {
	return Collector{client: client, nodeName: nodeName, pageSize: apiserver.PageSize}
}

// Name implements [collector.Collector].
func (Collector) Name() string { return "k8s" }

// Collect implements [collector.Collector].
func (c Collector) Collect(ctx context.Context) collector.Result {
	if c.client == nil {
		return collector.Skipped("no cluster was named")
	}
	// Each part reads on its own and leaves what it found to be told in order.
	parts := []func(context.Context) func(*collector.Findings){
		c.server, c.node, c.images, c.policies, c.storageClasses, c.daemonSets,
	}
	found := make([]func(*collector.Findings), len(parts))
	var wg sync.WaitGroup
	for i, part := range parts {
		wg.Go(func() { found[i] = part(ctx) })
	}
	wg.Wait()
	var f collector.Findings
	for _, tell := range found {
		tell(&f)
	}
	return f.Result(measurement.TypeK8s)
}

func unread(key, reason string) func(*collector.Findings) {
	return func(f *collector.Findings) { f.Unread(key, reason) }
}

func found(s measurement.Subtype) func(*collector.Findings) {
	return func(f *collector.Findings) { f.Add(s) }
}

func (c Collector) server(ctx context.Context) func(*collector.Findings) {
	info, err := discovery.ToServerVersionInterfaceWithContext(c.client.Discovery()).ServerVersionWithContext(ctx)
	if err != nil {
		return unread(subtypeServer, apiserver.Reason(err, "read the server's version", "the server's version"))
	}
	return found(serverSubtype(info))
}

func (c Collector) node(ctx context.Context) func(*collector.Findings) {
	if c.nodeName == "" {
		return unread(subtypeNode, "the node's name is not known")
	}
	node, err := c.client.CoreV1().Nodes().Get(ctx, c.nodeName, metav1.GetOptions{})
	if err != nil {
		return unread(subtypeNode, apiserver.Reason(err, "get nodes", fmt.Sprintf("node %q", c.nodeName)))
	}
	return found(nodeSubtype(node))
}

func (c Collector) images(ctx context.Context) func(*collector.Findings) {
	images := imageCount{}
	consistent, err := apiserver.Pages(ctx, c.pageSize, c.client.CoreV1().Pods(metav1.NamespaceAll).List, func(page *corev1.PodList) {
		for i := range page.Items {
			images.add(&page.Items[i])
		}
	})
	return listed(subtypeImage, "pods", consistent, err, images.subtype)
}

func (c Collector) storageClasses(ctx context.Context) func(*collector.Findings) {
	s := measurement.Subtype{Name: subtypeStorageClass, Data: readings{}}
	consistent, err := apiserver.Pages(ctx, c.pageSize, c.client.StorageV1().StorageClasses().List, func(page *storagev1.StorageClassList) {
		for i := range page.Items {
			addStorageClass(&s, &page.Items[i])
		}
	})
	return listed(subtypeStorageClass, "storageclasses.storage.k8s.io", consistent, err, func() measurement.Subtype { return s })
}

func (c Collector) daemonSets(ctx context.Context) func(*collector.Findings) {
	var sets daemonSets
	consistent, err := apiserver.Pages(ctx, c.pageSize, c.client.AppsV1().DaemonSets(metav1.NamespaceAll).List, func(page *appsv1.DaemonSetList) {
		for i := range page.Items {
			sets.add(&page.Items[i])
		}
	})
	return listed(subtypeDaemonSets, "daemonsets.apps", consistent, err, sets.subtype)
}

// listed tells what a list was reduced to. A list that ended early is no
// reading: what it counts would be wrong.
func listed(subtype, resource string, consistent bool, err error, reduced func() measurement.Subtype) func(*collector.Findings) {
	if err != nil {
		return unread(subtype, apiserver.Reason(err, "list "+resource, resource))
	}
	s := reduced()
	if !consistent {
		apiserver.NoteInconsistent(&s)
	}
	return found(s)
}
