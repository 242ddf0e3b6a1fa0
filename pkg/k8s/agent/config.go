package agent

import (
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/event"
	"github.com/NVIDIA/aicr/pkg/k8s/configmap"
	"github.com/NVIDIA/aicr/pkg/k8s/labels"
)

// DefaultTimeout is how long a run may take where Config.Timeout is zero.
const DefaultTimeout = time.Hour

// maxRunID is the longest run ID: the longest name made with it stays within
// the 63 characters of a label.
const maxRunID = 40

// formatYAML is the document format where nothing tells another.
const formatYAML = "yaml"

// formats are the document formats that an agent writes.
func formats() []string { return []string{formatYAML, "json"} }

// unitName matches names by systemd.unit(5).
var unitName = regexp.MustCompile(`^[A-Za-z0-9:_.\\@-]{1,255}$`)

// Config describes one run. NewDeployer copies it.
type Config struct {
	// Namespace is where the run's objects live. Required.
	Namespace string
	// RunID scopes every object; see runid.Generate. Required: a DNS label of
	// at most 40 characters, unused in the namespace.
	RunID string
	// NameBase is the name prefix where JobName or ServiceAccountName is
	// empty. Default "aicr".
	NameBase string
	// JobName is a prefix of the Job's name. Default NameBase.
	JobName string
	// ServiceAccountName is used as it is where such a ServiceAccount exists,
	// and is a prefix otherwise. Default NameBase, never looked up.
	ServiceAccountName string
	// Image is the agent's image. Required.
	Image string
	// ImagePullSecrets name Secrets in Namespace.
	ImagePullSecrets []string
	// NodeSelector restricts the nodes by label. Where neither it nor NodeName
	// is set, nodes labelled nvidia.com/gpu.present=true are preferred.
	NodeSelector map[string]string
	// NodeName, if set, is the one node to capture. The scheduler still
	// places the pod, so that taints and resources are respected.
	NodeName string
	// Tolerations of the pod. Nil tolerates every taint, an empty list none.
	Tolerations []corev1.Toleration
	// Output is the cm://namespace/name that the agent writes, in Namespace.
	// Empty means the staging ConfigMap, which the run owns.
	Output string
	// OwnsOutputConfigMap says that Output belongs to this run, so that
	// Cleanup deletes it. False for a ConfigMap of the caller's own.
	OwnsOutputConfigMap bool
	// Debug makes the agent log at debug level, in JSON.
	Debug bool
	// Privileged gives the pod the host's PID and network namespaces and full
	// rights on the node, which a whole snapshot needs. Without it the pod
	// passes the Pod Security level "restricted" and sees less.
	Privileged bool
	// RequireGPU asks for one nvidia.com/gpu and fails a run that sees none.
	RequireGPU bool
	// RuntimeClassName sets the pod's runtime class, which must exist.
	RuntimeClassName string
	// MaxNodesPerEntry caps the node names in a topology entry; 0 is no cap.
	MaxNodesPerEntry int
	// Services are systemd services whose state is read besides those that
	// the agent knows of. A name without a unit's suffix is a service's.
	Services []string
	// OS is a hint of the node's operating system: an os-release ID such as
	// "ubuntu", "bottlerocket" or "talos". Empty: the agent finds out.
	OS string
	// DiscoverNetwork is not supported yet and refused.
	DiscoverNetwork bool
	// Requests and Limits are merged over the defaults by resource name.
	Requests, Limits corev1.ResourceList
	// Timeout bounds the agent's own run: with a margin, the Job's active
	// deadline. Default DefaultTimeout.
	Timeout time.Duration
	// Format is what the agent writes: yaml (default) or json. Agents that do
	// not know it write yaml.
	Format string
	// Logger gets warnings and debug messages. Nil discards them.
	Logger *slog.Logger
	// Events gets the run's steps. Nil discards them.
	Events event.Sink
}

// Validate reports the first fault as an InvalidRequest that names the field.
// It sends no request.
func (c Config) Validate() error {
	if err := c.validateNames(); err != nil {
		return err
	}
	if c.Image == "" {
		return invalid("Image", "", "is empty").WithAdvice("name the agent's image")
	}
	if strings.ContainsAny(c.Image, " \t\r\n") {
		return invalid("Image", c.Image, "contains a space")
	}
	if c.Format != "" && !slices.Contains(formats(), c.Format) {
		return invalid("Format", c.Format, "is none of "+strings.Join(formats(), ", "))
	}
	if c.Timeout < 0 {
		return invalid("Timeout", c.Timeout.String(), "is negative")
	}
	if c.MaxNodesPerEntry < 0 {
		return errors.New(errors.InvalidRequest, "MaxNodesPerEntry %d is negative", c.MaxNodesPerEntry)
	}
	if c.DiscoverNetwork {
		return errors.New(errors.InvalidRequest, "DiscoverNetwork is not supported yet").
			WithAdvice("leave it out")
	}
	if c.NodeName != "" && len(c.NodeSelector) > 0 {
		return invalid("NodeName", c.NodeName, "and NodeSelector are both set").
			WithAdvice("set one of them")
	}
	return c.validateOutput()
}

// ValidateRunID reports a run ID that no run can have as an InvalidRequest.
func ValidateRunID(id string) error {
	if id == "" {
		return invalid("RunID", "", "is empty").WithAdvice("generate one with runid.Generate")
	}
	if len(id) > maxRunID {
		return errors.New(errors.InvalidRequest, "RunID %q has %d characters, at most %d are allowed", id, len(id), maxRunID)
	}
	if msgs := validation.IsDNS1123Label(id); len(msgs) > 0 {
		return invalid("RunID", id, strings.Join(msgs, "; "))
	}
	return nil
}

func (c Config) validateNames() error {
	if err := ValidateRunID(c.RunID); err != nil {
		return err
	}
	for _, f := range []struct {
		field, value string
		optional     bool
		check        func(string) []string
	}{
		{"Namespace", c.Namespace, false, validation.IsDNS1123Label},
		{"NameBase", c.NameBase, true, isPrefix},
		{"JobName", c.JobName, true, isPrefix},
		{"ServiceAccountName", c.ServiceAccountName, true, validation.IsDNS1123Subdomain},
		{"NodeName", c.NodeName, true, validation.IsDNS1123Subdomain},
		{"RuntimeClassName", c.RuntimeClassName, true, validation.IsDNS1123Subdomain},
		{"OS", c.OS, true, validation.IsValidLabelValue},
	} {
		if f.optional && f.value == "" {
			continue
		}
		if msgs := f.check(f.value); len(msgs) > 0 {
			return invalid(f.field, f.value, strings.Join(msgs, "; "))
		}
	}
	for _, s := range c.ImagePullSecrets {
		if msgs := validation.IsDNS1123Subdomain(s); len(msgs) > 0 {
			return invalid("ImagePullSecrets", s, strings.Join(msgs, "; "))
		}
	}
	for _, s := range c.Services {
		if !unitName.MatchString(s) {
			return invalid("Services", s, "is no name of a systemd unit")
		}
	}
	for k, v := range c.NodeSelector {
		if msgs := append(validation.IsQualifiedName(k), validation.IsValidLabelValue(v)...); len(msgs) > 0 {
			return invalid("NodeSelector", k+"="+v, strings.Join(msgs, "; "))
		}
	}
	return nil
}

// isPrefix tells what is wrong with the start of a name. It may be longer than
// a name, which cuts it.
func isPrefix(s string) []string {
	if strings.Contains(s, ".") {
		return []string{"a prefix must not contain '.'"}
	}
	return validation.IsDNS1123Subdomain(s)
}

func (c Config) validateOutput() error {
	if c.Output == "" {
		return nil
	}
	ref, err := configmap.ParseURI(c.Output)
	if err != nil {
		return err
	}
	if ref.Namespace != c.Namespace {
		return errors.New(errors.InvalidRequest, "output %s is outside the run's namespace %q", ref, c.Namespace).
			WithAdvice("name a ConfigMap in %q: the agent in the pod writes it, and its rights end at the run's namespace", c.Namespace)
	}
	return nil
}

func invalid(field, value, why string) *errors.Error {
	if value == "" {
		return errors.New(errors.InvalidRequest, "%s %s", field, why)
	}
	return errors.New(errors.InvalidRequest, "%s %q: %s", field, value, why)
}

// withDefaults returns a copy that shares nothing with c, defaults filled in.
func (c Config) withDefaults() Config {
	if c.NameBase == "" {
		c.NameBase = labels.AICR
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Output == "" {
		c.Output = configmap.Ref{Namespace: c.Namespace, Name: StagingConfigMapName(c.RunID)}.String()
		c.OwnsOutputConfigMap = true
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.ImagePullSecrets = slices.Clone(c.ImagePullSecrets)
	c.Services = slices.Clone(c.Services)
	c.NodeSelector = maps.Clone(c.NodeSelector)
	c.Tolerations = slices.Clone(c.Tolerations)
	for i, t := range c.Tolerations {
		c.Tolerations[i] = *t.DeepCopy()
	}
	c.Requests, c.Limits = c.Requests.DeepCopy(), c.Limits.DeepCopy()
	return c
}
