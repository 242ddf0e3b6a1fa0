package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/k8s/configmap"
	"github.com/NVIDIA/aicr/pkg/serializer"
	"github.com/NVIDIA/aicr/pkg/snapshotter"
)

const snapshotLong = `Capture the state of one node.

By default an agent is deployed: a Job whose pod captures the node that it runs
on. The snapshot is brought back and everything that was created is deleted. With
--local this machine is captured instead.

Every flag below that names a variable in brackets can be set by it; an explicit
flag wins.`

const snapshotExamples = `  # a node that the scheduler chooses, preferably one with GPUs
  aicr snapshot > snapshot.yaml

  # one node, in the namespace of the GPU operator
  aicr snapshot -n gpu-operator --node gpu-17 -o gpu-17.yaml

  # into a ConfigMap, which the agent writes and nobody deletes
  aicr snapshot -n gpu-operator -o cm://gpu-operator/before-upgrade

  # this machine, without a cluster
  aicr snapshot --local -t json

  # the RBAC for a ServiceAccount of your own, to read and apply; no snapshot
  aicr snapshot -n gpu-operator --add-roles-to-service-account robot`

// snapshotOptions are the flags of aicr snapshot.
type snapshotOptions struct {
	output, format   string
	image            string
	imagePullSecrets []string
	jobName          string
	serviceAccount   string
	node             string
	nodeSelector     []string
	tolerations      []string
	timeout          time.Duration
	noCleanup        bool
	privileged       bool
	requireGPU       bool
	runtimeClass     string
	maxNodesPerEntry int
	services         []string
	os               string
	requests, limits []string
	runID            string
	local            bool
	addRolesTo       string
	cluster          clusterFlags

	flags *pflag.FlagSet
}

// snapshotRun is a snapshot by one of its ways, or what prepares one.
type snapshotRun interface {
	// complete turns flags into what the way needs.
	complete(a *app, o *snapshotOptions) error
	// validate finds what is wrong before a request is sent or a collector runs.
	validate(ctx context.Context) error
	run(ctx context.Context) error
}

func (a *app) newSnapshot() *cobra.Command {
	o := &snapshotOptions{}
	cmd := &cobra.Command{
		Use:     "snapshot [flags]",
		Short:   "Capture the state of a node",
		Long:    snapshotLong,
		Example: snapshotExamples,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			run := o.way(a)
			if err := o.validate(a); err != nil {
				return err
			}
			if err := run.complete(a, o); err != nil {
				return err
			}
			if err := run.validate(cmd.Context()); err != nil {
				return err
			}
			return run.run(cmd.Context())
		},
	}
	o.flags = cmd.Flags()
	o.register(o.flags)
	// The flag exists, so that this cannot fail.
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{"yaml", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// way returns what the flags ask for.
func (o *snapshotOptions) way(a *app) snapshotRun {
	switch {
	case o.flags.Changed(addRolesFlag):
		return &roleManifests{}
	case a.agentMode() || o.local:
		return &capture{}
	}
	return &deployment{}
}

// agentMode reports whether this process is the agent in a run's pod.
func (a *app) agentMode() bool { return envBool(a.env, "AICR_AGENT_MODE") }

func (o *snapshotOptions) register(flags *pflag.FlagSet) {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.StringVarP(&o.output, "output", "o", "-", "`where` the snapshot goes: - for standard output, a file, or cm://namespace/name")
	f.StringVarP(&o.format, "format", "t", string(serializer.YAML), "`yaml` or json")
	f.BoolVar(&o.local, "local", false, "capture this machine; no cluster is needed")
	f.DurationVar(&o.timeout, "timeout", snapshotter.DefaultRunTimeout, "limit of the whole run")
	f.BoolVar(&o.requireGPU, "require-gpu", false, "ask for one nvidia.com/gpu, and fail where no GPU is found")
	f.StringVar(&o.os, "os", "", "the node's operating system by its `ID` in os-release, such as ubuntu; default: found out")
	f.IntVar(&o.maxNodesPerEntry, "max-nodes-per-entry", 0, "most node names in an entry of the topology; 0 for all")
	f.StringArrayVar(&o.services, "service", nil, "`name` of a further systemd service to read; repeatable")
	_ = f.SetAnnotation("service", envAnnotation, []string{"AICR_SERVICES"}) // it exists
	f.StringVar(&o.node, "node", "", "`name` of the node to capture; with --local, this machine's name as a node")
	takeFromEnv(f)
	flags.AddFlagSet(f)

	f = pflag.NewFlagSet("", pflag.ContinueOnError)
	f.StringVar(&o.image, "image", defaultImage, "the agent's `image`")
	f.StringArrayVar(&o.imagePullSecrets, "image-pull-secret", nil, "`name` of a Secret to pull the image with; repeatable")
	f.StringVar(&o.jobName, "job-name", "", "`prefix` of the Job's name; default aicr")
	f.StringVar(&o.serviceAccount, "service-account-name", "",
		"`name` of the ServiceAccount to run as where it exists, and then given no rights; else the prefix of the run's own")
	f.StringArrayVar(&o.nodeSelector, "node-selector", nil, "labels of the node, as `key=value`[,key=value]; repeatable")
	f.StringArrayVar(&o.tolerations, "toleration", nil,
		"taints to tolerate: `key[=value]:effect`, *:effect, * for all, or none; repeatable; default *")
	f.BoolVar(&o.noCleanup, "no-cleanup", false, "leave the run's objects; the Job still goes an hour after its end, by its TTL")
	f.BoolVar(&o.privileged, "privileged", true, "a privileged pod, which a whole snapshot needs")
	f.StringVar(&o.runtimeClass, "runtime-class", "", "`name` of the pod's RuntimeClass, such as nvidia")
	f.StringArrayVar(&o.requests, "requests", nil, "`cpu=1,memory=1Gi`, merged over the defaults; repeatable")
	f.StringArrayVar(&o.limits, "limits", nil, "`cpu=1,memory=1Gi`, merged over the defaults; repeatable")
	f.StringVar(&o.runID, "run-id", "", "`ID` that scopes the names of the run's objects; default: generated")
	takeFromEnv(f)
	// No variable sets this one: it is an act, not a setting.
	f.StringVar(&o.addRolesTo, addRolesFlag, "",
		"take no snapshot and contact no cluster: write the RBAC that the ServiceAccount of that `name` needs to ./snapshot-rbac-RUN, to read and apply")
	annotate(f, podAnnotation)
	flags.AddFlagSet(f)

	o.cluster.register(flags)
}

// validate checks what the ways have in common.
func (o *snapshotOptions) validate(a *app) error {
	if o.runID == "" && o.flags.Changed("run-id") {
		return errors.New(errors.InvalidRequest, "--run-id is empty").
			WithAdvice("leave it out to have one generated")
	}
	if _, err := serializer.ParseFormat(o.format); err != nil {
		return err
	}
	if o.timeout <= 0 {
		return errors.New(errors.InvalidRequest, "--timeout %s is not positive", o.timeout).
			WithAdvice("allow the run some time, such as 5m")
	}
	if o.maxNodesPerEntry < 0 {
		return errors.New(errors.InvalidRequest, "--max-nodes-per-entry %d is negative", o.maxNodesPerEntry).
			WithAdvice("give 0 for all nodes")
	}
	if _, _, err := o.configMap(); err != nil {
		return err
	}
	// An agent takes whatever its controller, of another version perhaps,
	// gives it.
	if !o.local || a.agentMode() {
		return nil
	}
	var pointless error
	o.flags.VisitAll(func(f *pflag.Flag) {
		if annotated(f, podAnnotation) && f.Changed && pointless == nil {
			pointless = errors.New(errors.InvalidRequest, "--%s is about an agent's pod, and --local deploys none", f.Name).
				WithAdvice("leave one of the two out")
		}
	})
	return pointless
}

// configMap returns the ConfigMap that the output names, if it names one.
func (o *snapshotOptions) configMap() (ref configmap.Ref, ok bool, err error) {
	if !configmap.IsURI(o.output) {
		return configmap.Ref{}, false, nil
	}
	ref, err = configmap.ParseURI(o.output)
	return ref, true, err
}

func (o *snapshotOptions) toStdout() bool { return o.output == "" || o.output == "-" }

// destination returns where this process itself writes to, if that is no
// ConfigMap.
func (o *snapshotOptions) destination(a *app) serializer.Destination {
	if o.toStdout() {
		return serializer.NewStdout(a.streams.Out)
	}
	return serializer.NewFile(o.output)
}
