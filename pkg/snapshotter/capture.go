package snapshotter

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/NVIDIA/aicr/pkg/collector"
	"github.com/NVIDIA/aicr/pkg/collector/gpu"
	"github.com/NVIDIA/aicr/pkg/collector/host"
	"github.com/NVIDIA/aicr/pkg/collector/k8s"
	oscollector "github.com/NVIDIA/aicr/pkg/collector/os"
	"github.com/NVIDIA/aicr/pkg/collector/systemd"
	"github.com/NVIDIA/aicr/pkg/collector/topology"
	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

// How long collectors may take. nvidia-smi needs seconds where the driver's
// state is not kept (persistence mode off) and there are many GPUs. The API
// server needs a second for some ten thousand pods where it is not busy.
const (
	collectorLimit = 10 * time.Second
	gpuLimit       = 30 * time.Second
	clusterLimit   = time.Minute
)

// CaptureOptions describe the capture of the host that this process runs on.
type CaptureOptions struct {
	// Host is what this process can see of the host: HostLocal or HostForPod.
	Host host.View
	// Version is this program's.
	Version string
	// NodeName is the node's name in the cluster. Empty: the host's own name,
	// where it can be seen, names the snapshot, and no node is read.
	NodeName string
	// Kube reaches the cluster; nil where there is none to ask.
	Kube kubernetes.Interface
	// OS is the ID in os-release(5) of the host's system, which tells where it
	// keeps the driver's files. Empty: all known places are looked at.
	OS string
	// Services are systemd services to read besides those that are always
	// read. A name without a unit's suffix is a service's.
	Services []string
	// RequireGPU makes a host without a GPU, or whose driver does not answer
	// for its GPUs, an error.
	RequireGPU bool
	// MaxNodesPerEntry caps the nodes named in one entry of the topology; 0
	// means no cap.
	MaxNodesPerEntry int
	// Now tells the time of the snapshot. Nil means time.Now.
	Now func() time.Time
	// Log gets what the collectors went through. Nil discards it.
	Log *slog.Logger
}

// HostLocal is the view of a process that runs on the host itself.
func HostLocal() host.View { return host.Local() }

// HostForPod is the view from a pod: of the host, where the pod was made
// privileged with the host's PIDs, and otherwise of its container only.
func HostForPod(privileged bool) host.View {
	if privileged {
		return host.Privileged()
	}
	return host.Container()
}

// Capture takes a snapshot of the host that this process runs on. The same
// state gives the same document, but for its timestamp and the durations.
//
// Collectors that fail are told in the document and are no error. With
// RequireGPU, no GPU is NotFound, and GPUs that cannot be used, or cannot be
// looked for, are Unavailable; the snapshot is returned beside such an error,
// as it is when ctx ended meanwhile. Elsewhere than on Linux it is
// InvalidRequest.
func Capture(ctx context.Context, o CaptureOptions) (*measurement.Snapshot, error) {
	if err := checkPlatform(); err != nil {
		return nil, err
	}
	now := time.Now
	if o.Now != nil {
		now = o.Now
	}
	s := &measurement.Snapshot{
		APIVersion: measurement.APIVersion,
		Kind:       measurement.Kind,
		Metadata: measurement.Metadata{
			Timestamp:  now().UTC().Truncate(time.Second),
			Version:    o.Version,
			SourceNode: sourceNode(o),
		},
	}
	s.Measurements, s.Collectors = collector.Run(ctx, []collector.Entry{
		{Collector: gpu.New(o.Host, o.OS), Limit: gpuLimit},
		{Collector: k8s.New(o.Kube, o.NodeName), Limit: clusterLimit},
		{Collector: oscollector.New(o.Host), Limit: collectorLimit},
		{Collector: systemd.New(o.Host, o.Services), Limit: collectorLimit},
		{Collector: topology.New(o.Kube, o.MaxNodesPerEntry), Limit: clusterLimit},
	}, o.Log)
	s.Normalize()
	if err := ctx.Err(); err != nil {
		return s, fmt.Errorf("capture the host: %w", err)
	}
	if o.RequireGPU {
		return s, requireGPU(s)
	}
	return s, nil
}

// sourceNode names the host. A container's host name is its pod's.
func sourceNode(o CaptureOptions) string {
	if o.NodeName != "" || !o.Host.Shares(host.UTS) {
		return o.NodeName
	}
	root, err := o.Host.Open()
	if err != nil {
		return ""
	}
	defer func() { _ = root.Close() }()
	name, err := root.ReadString("proc/sys/kernel/hostname")
	if err != nil {
		return ""
	}
	return name
}

// requireGPU judges by what the document tells, so that its reader can do the
// same.
func requireGPU(s *measurement.Snapshot) error {
	var reason string
	for _, c := range s.Collectors {
		if c.Name == (gpu.Collector{}).Name() {
			reason = c.Reason
		}
	}
	hw, found := s.Subtype(measurement.TypeGPU, gpu.SubtypeHardware)
	if _, answered := s.Subtype(measurement.TypeGPU, gpu.SubtypeSMI); !found && answered {
		return nil // the bus could not be read, and the driver tells of GPUs
	}
	count, known := hw.Data[gpu.KeyCount]
	switch {
	case !known:
		return errors.New(errors.Unavailable, "a GPU is required and could not be looked for: %s", reason)
	case count.Equal(measurement.Int(0)):
		return errors.New(errors.NotFound, "a GPU is required and the node has none on its PCI bus").
			WithAdvice("choose a node with a GPU by --node or --node-selector")
	}
	switch hw.Data[gpu.KeyState].String() {
	case gpu.DriverNotAnswering, gpu.DriverNotBound:
		return errors.New(errors.Unavailable, "a GPU is required; the node has %v, which do not answer: %s", count, reason).
			WithAdvice("look at the driver on the node: its kernel log, and nvidia-smi there")
	}
	return nil // not asked: whether they answer is unknown, and there they are
}
