package cli

import (
	"cmp"
	"context"
	stderrors "errors"
	"os"

	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/event"
	"github.com/NVIDIA/aicr/pkg/k8s/agent"
	"github.com/NVIDIA/aicr/pkg/k8s/client"
	"github.com/NVIDIA/aicr/pkg/k8s/labels"
	"github.com/NVIDIA/aicr/pkg/measurement"
	"github.com/NVIDIA/aicr/pkg/runid"
	"github.com/NVIDIA/aicr/pkg/serializer"
	"github.com/NVIDIA/aicr/pkg/snapshotter"
)

// deployment is a snapshot by an agent in a cluster.
type deployment struct {
	app     *app
	options snapshotter.RunOptions
	server  string
	format  serializer.Format
	// dest takes the snapshot; nil where it is a ConfigMap, which the agent
	// writes.
	dest   serializer.Destination
	toFile bool
}

func (d *deployment) complete(a *app, o *snapshotOptions) error {
	d.app, d.format = a, serializer.Format(o.format)
	cfg, err := o.agentConfig()
	if err != nil {
		return err
	}
	cfg.Debug = a.debug
	if _, isConfigMap, _ := o.configMap(); isConfigMap {
		cfg.Output = o.output
	} else {
		d.dest, d.toFile = o.destination(a), o.output != "" && o.output != "-"
	}
	rest, namespace, err := o.cluster.load()
	if err != nil {
		return err
	}
	cfg.Namespace = namespace
	rest.WarningHandlerWithContext = apiWarnings{a.ui.Log}
	kube, rest, err := client.New(rest, thisVersion())
	if err != nil {
		return err
	}
	d.server = rest.Host
	d.options = snapshotter.RunOptions{
		Client: kube, Agent: cfg, Timeout: o.timeout, NoCleanup: o.noCleanup, Events: a.ui.Events, Log: a.ui.Log,
	}
	if a.debug {
		d.options.LogWriter = a.ui.Lines()
		if !a.logJSON { // in JSON lines, each of the agent's says that it is the agent's
			d.options.LogPrefix = "agent"
		}
	}
	return nil
}

// agentConfig reads the flags about the agent. The namespace is the cluster's
// to tell.
func (o *snapshotOptions) agentConfig() (agent.Config, error) {
	none := agent.Config{}
	if o.image == "" {
		return none, errors.New(errors.InvalidRequest, "there is no image for the agent: this build has no default").
			WithAdvice("name one with --image or AICR_IMAGE, or capture this machine with --local")
	}
	selector, err := parseSelector("--node-selector", o.nodeSelector)
	if err != nil {
		return none, err
	}
	if o.node != "" && selector != nil {
		return none, errors.New(errors.InvalidRequest, "--node and --node-selector both choose the node").
			WithAdvice("leave one of the two out")
	}
	tolerations, err := parseTolerations("--toleration", o.tolerations)
	if err != nil {
		return none, err
	}
	requests, err := parseResources("--requests", o.requests)
	if err != nil {
		return none, err
	}
	limits, err := parseResources("--limits", o.limits)
	if err != nil {
		return none, err
	}
	return agent.Config{
		RunID:              cmp.Or(o.runID, runid.Generate()),
		JobName:            o.jobName,
		ServiceAccountName: o.serviceAccount,
		Image:              o.image,
		ImagePullSecrets:   splitComma(o.imagePullSecrets),
		NodeSelector:       selector,
		NodeName:           o.node,
		Tolerations:        tolerations,
		Privileged:         o.privileged,
		RequireGPU:         o.requireGPU,
		RuntimeClassName:   o.runtimeClass,
		MaxNodesPerEntry:   o.maxNodesPerEntry,
		Services:           splitComma(o.services),
		OS:                 o.os,
		Requests:           requests,
		Limits:             limits,
		Format:             o.format,
	}, nil
}

func (d *deployment) validate(ctx context.Context) error {
	if err := d.options.Agent.Validate(); err != nil {
		return err
	}
	if d.dest == nil {
		return nil
	}
	return d.dest.Check(ctx)
}

func (d *deployment) run(ctx context.Context) error {
	a, cfg := d.app, d.options.Agent
	a.ui.Log.Info("run " + cfg.RunID + " in namespace " + cfg.Namespace + " of " + d.server)
	stop := a.tellSignal(ctx)
	defer stop()
	res, err := a.deps.run(ctx, d.options)
	if res != nil {
		// What is here is worth delivering even where cleaning up failed or a
		// signal came meanwhile.
		err = stderrors.Join(d.deliver(context.WithoutCancel(ctx), res.Data), err)
	}
	if d.options.NoCleanup {
		a.ui.Log.Info("the run's objects stay, as --no-cleanup asks; an hour after its end the Job goes and takes what it owns along; " +
			"list them with: kubectl get job,pod,sa,role,rolebinding,clusterrole,clusterrolebinding -A -l " + labels.RunID + "=" + cfg.RunID)
	}
	return err
}

// deliver hands the snapshot to its destination in the format that was asked
// for, byte for byte as the agent wrote it where that is its format already.
func (d *deployment) deliver(ctx context.Context, data []byte) error {
	a := d.app
	doc := serializer.Document{Format: d.format, Data: data, Kind: measurement.Kind, Version: thisVersion()}
	if s, err := serializer.Decode(data); err != nil {
		a.ui.Log.Warn("the agent wrote a document that this version cannot read", "err", err)
	} else {
		doc.Version = s.Metadata.Version
		a.remark(s)
		if s.Metadata.Version != thisVersion() {
			a.ui.Log.Warn("the agent in " + d.options.Agent.Image + " is aicr " + s.Metadata.Version + ", this is " + thisVersion())
		}
	}
	if d.dest == nil {
		a.delivered(d.options.Agent.Output)
		return nil
	}
	converted, err := serializer.Convert(d.format, data)
	if err != nil {
		// Better the bytes as they are than none: the run is over.
		err = errors.Wrap(errors.Internal, err, "the snapshot is delivered as the agent wrote it")
	} else {
		doc.Data = converted
	}
	if werr := d.dest.Write(ctx, doc); werr != nil {
		if d.toFile {
			a.keep(doc)
		}
		return stderrors.Join(werr, err)
	}
	a.delivered(d.dest.String())
	return err
}

// keep saves a snapshot whose file could not be written after all, since the
// run that brought it is over.
func (a *app) keep(doc serializer.Document) {
	f, err := os.CreateTemp("", "aicr-snapshot-*."+string(doc.Format))
	if err == nil {
		_, err = f.Write(doc.Data)
		err = stderrors.Join(err, f.Close())
	}
	if err != nil {
		a.ui.Log.Warn("the snapshot could not be kept elsewhere either", "err", err)
		return
	}
	a.ui.Log.Warn("the snapshot is kept in " + f.Name())
}

func (a *app) delivered(where string) {
	a.ui.Events.Emit(event.Event{Type: event.Delivered, Message: where})
}
