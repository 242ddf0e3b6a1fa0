package cli

import (
	"cmp"
	"context"
	stderrors "errors"
	"fmt"
	"math"
	"runtime/debug"
	"strconv"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/NVIDIA/aicr/pkg/collector/host"
	"github.com/NVIDIA/aicr/pkg/k8s/client"
	"github.com/NVIDIA/aicr/pkg/measurement"
	"github.com/NVIDIA/aicr/pkg/serializer"
	"github.com/NVIDIA/aicr/pkg/snapshotter"
)

// capture is a snapshot of the machine that this process runs on: as the agent
// in a run's pod, or for --local.
type capture struct {
	app     *app
	options *snapshotOptions
	request snapshotter.CaptureOptions
	dest    serializer.Destination
}

func (c *capture) complete(a *app, o *snapshotOptions) error {
	c.app, c.options = a, o
	c.request = snapshotter.CaptureOptions{
		Host:             snapshotter.HostLocal(),
		Version:          thisVersion(),
		NodeName:         o.node,
		OS:               o.os,
		Services:         splitComma(o.services),
		RequireGPU:       o.requireGPU,
		MaxNodesPerEntry: o.maxNodesPerEntry,
		Log:              a.ui.Log,
	}
	if a.agentMode() {
		c.request.Host = a.podView()
		if c.request.NodeName == "" {
			c.request.NodeName, _ = a.env("NODE_NAME")
		}
	}
	ref, toConfigMap, err := o.configMap()
	if err != nil {
		return err
	}
	if err := c.connect(toConfigMap); err != nil {
		return err
	}
	if toConfigMap {
		c.dest = serializer.NewConfigMap(serializer.ConfigMapOptions{Client: c.request.Kube, Ref: ref, Owner: a.ownerJob()})
	} else {
		c.dest = o.destination(a)
	}
	return nil
}

// podView tells what an agent in a pod sees of its node. Controllers that do
// not say how privileged the pod is are older; then the kernel tells.
func (a *app) podView() host.View {
	v, _ := a.env("AICR_PRIVILEGED")
	privileged, err := strconv.ParseBool(v)
	return snapshotter.HostForPod(privileged || err != nil)
}

// ownerJob is the Job that the agent's ConfigMap goes with; nil where the
// ConfigMap is the caller's.
func (a *app) ownerJob() *serializer.JobRef {
	name, _ := a.env("AICR_OWNER_JOB_NAME")
	uid, _ := a.env("AICR_OWNER_JOB_UID")
	if name == "" || uid == "" {
		return nil
	}
	return &serializer.JobRef{Name: name, UID: types.UID(uid)}
}

// connect makes the client for the collectors and a ConfigMap: with the pod's
// credentials in a run's pod, and elsewhere only where a cluster was asked for.
func (c *capture) connect(needed bool) error {
	var kube kubernetes.Interface
	var err error
	switch cluster := &c.options.cluster; {
	case c.app.agentMode():
		kube, _, err = client.InCluster(thisVersion())
		if err != nil && !needed {
			c.app.ui.Log.Warn("this pod has no credentials for the cluster, which is left out", "err", err)
			return nil
		}
	case needed || cluster.chosen():
		rest, _, lerr := cluster.load()
		if lerr != nil {
			return lerr
		}
		rest.WarningHandlerWithContext = apiWarnings{c.app.ui.Log}
		kube, _, err = client.New(rest, thisVersion())
	}
	if err != nil {
		return err
	}
	c.request.Kube = kube
	return nil
}

func (c *capture) validate(ctx context.Context) error { return c.dest.Check(ctx) }

// memoryTarget is what this process' own memory stays about, in bytes, by
// collecting garbage more often where it comes near. Pages of a large cluster
// are garbage soon, and a node's memory is its workloads'.
const memoryTarget = 48 << 20

func (c *capture) run(ctx context.Context) error {
	if debug.SetMemoryLimit(-1) == math.MaxInt64 { // GOMEMLIMIT wins
		debug.SetMemoryLimit(memoryTarget)
	}
	ctx, cancel := context.WithTimeout(ctx, c.options.timeout)
	defer cancel()
	s, err := c.app.deps.capture(ctx, c.request)
	// Half a snapshot, cut off by the time or a signal, is none. One that
	// lacks the required GPU is whole, and the evidence.
	if s == nil || ctx.Err() != nil {
		return cmp.Or(err, fmt.Errorf("deliver the snapshot: %w", context.Cause(ctx)))
	}
	c.app.remark(s)
	return stderrors.Join(err, c.write(ctx, s))
}

func (c *capture) write(ctx context.Context, s *measurement.Snapshot) error {
	format := serializer.Format(c.options.format)
	data, err := serializer.Encode(format, s)
	if err != nil {
		return err
	}
	err = c.dest.Write(ctx, serializer.Document{Format: format, Data: data, Kind: s.Kind, Version: s.Metadata.Version})
	if err != nil {
		return err
	}
	if !c.options.toStdout() {
		c.app.delivered(c.dest.String())
	}
	return nil
}

// remark tells which collectors could not do their part.
func (a *app) remark(s *measurement.Snapshot) {
	for _, c := range s.Collectors {
		switch c.State {
		case measurement.StateFailed:
			a.ui.Log.Warn("collector "+c.Name+" failed", "reason", c.Reason)
		case measurement.StatePartial:
			a.ui.Log.Warn("collector "+c.Name+" could not read all", "unread", len(c.Unread), "reason", c.Reason)
		}
	}
}
