package agent

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/NVIDIA/aicr/pkg/k8s/labels"
)

const (
	containerName = "agent"
	// jobTTL is how long a finished Job stays where nobody deletes it.
	jobTTL = time.Hour
	// deadlineMargin is what the Job may take beyond the run: the controller
	// should see the end of its own time first and tell why.
	deadlineMargin = time.Minute
	// gracePeriod is short, since the agent has nothing to save.
	gracePeriod = 5 * time.Second

	gpuResource = corev1.ResourceName("nvidia.com/gpu")
)

// jobOwner returns an owner reference that does not keep the Job from being
// deleted before its dependents.
func jobOwner(job *batchv1.Job) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: batchv1.SchemeGroupVersion.String(),
		Kind:       kindJob,
		Name:       job.Name,
		UID:        job.UID,
	}
}

// job returns the Job that runs the agent once, as that ServiceAccount.
func (d *Deployer) job(serviceAccount string) *batchv1.Job {
	deadline := d.config.Timeout + deadlineMargin
	return &batchv1.Job{
		ObjectMeta: d.meta(d.names.job),
		Spec: batchv1.JobSpec{
			Completions:             ptr.To[int32](1),
			Parallelism:             ptr.To[int32](1),
			BackoffLimit:            ptr.To[int32](0),
			TTLSecondsAfterFinished: ptr.To(int32(jobTTL.Seconds())),
			ActiveDeadlineSeconds:   ptr.To(int64(deadline.Seconds())),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: d.labels()},
				Spec:       d.podSpec(serviceAccount),
			},
		},
	}
}

func (d *Deployer) podSpec(serviceAccount string) corev1.PodSpec {
	c := d.config
	spec := corev1.PodSpec{
		ServiceAccountName:            serviceAccount,
		AutomountServiceAccountToken:  ptr.To(true), // an existing ServiceAccount may say no
		RestartPolicy:                 corev1.RestartPolicyNever,
		TerminationGracePeriodSeconds: ptr.To(int64(gracePeriod.Seconds())),
		NodeSelector:                  maps.Clone(c.NodeSelector),
		Affinity:                      c.affinity(),
		Tolerations:                   c.tolerations(),
		Containers: []corev1.Container{{
			Name:            containerName,
			Image:           c.Image,
			Command:         []string{"aicr"},
			Args:            c.args(),
			Env:             c.env(),
			Resources:       c.resources(),
			SecurityContext: c.containerSecurity(),
			// The end of the log becomes the container's message where it fails.
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		}},
	}
	for _, s := range c.ImagePullSecrets {
		spec.ImagePullSecrets = append(spec.ImagePullSecrets, corev1.LocalObjectReference{Name: s})
	}
	if c.RuntimeClassName != "" {
		spec.RuntimeClassName = ptr.To(c.RuntimeClassName)
	}
	if c.Privileged {
		spec.HostPID, spec.HostNetwork = true, true
		spec.DNSPolicy = corev1.DNSClusterFirstWithHostNet
		spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](0), RunAsNonRoot: ptr.To(false)}
	} else {
		// No user is named: the image's own is not root, and OpenShift assigns one.
		spec.SecurityContext = &corev1.PodSecurityContext{
			RunAsNonRoot:   ptr.To(true),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		}
	}
	return spec
}

func (c Config) containerSecurity() *corev1.SecurityContext {
	if c.Privileged {
		return &corev1.SecurityContext{Privileged: ptr.To(true), RunAsUser: ptr.To[int64](0), RunAsNonRoot: ptr.To(false)}
	}
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false),
		ReadOnlyRootFilesystem:   ptr.To(true),
		RunAsNonRoot:             ptr.To(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// args are flags that agents of every version know; whatever else the agent
// needs travels in its environment, where an agent that does not know it goes
// on without.
func (c Config) args() []string {
	args := []string{"snapshot", "-o", c.Output}
	if c.Debug {
		args = append([]string{"--debug", "--log-json"}, args...)
	}
	return args
}

func (c Config) env() []corev1.EnvVar {
	env := []corev1.EnvVar{
		{Name: "AICR_AGENT_MODE", Value: "true"},
		{Name: "AICR_LOG_PREFIX", Value: "agent"},
		fieldEnv("NODE_NAME", "spec.nodeName"),
		{Name: "AICR_PRIVILEGED", Value: strconv.FormatBool(c.Privileged)},
	}
	if c.OwnsOutputConfigMap {
		env = append(env,
			fieldEnv("AICR_OWNER_JOB_NAME", "metadata.labels['"+batchv1.JobNameLabel+"']"),
			fieldEnv("AICR_OWNER_JOB_UID", "metadata.labels['"+batchv1.ControllerUidLabel+"']"))
	}
	if c.RequireGPU {
		env = append(env, corev1.EnvVar{Name: "AICR_REQUIRE_GPU", Value: "true"})
	}
	if c.MaxNodesPerEntry > 0 {
		env = append(env, corev1.EnvVar{Name: "AICR_MAX_NODES_PER_ENTRY", Value: strconv.Itoa(c.MaxNodesPerEntry)})
	}
	if len(c.Services) > 0 {
		env = append(env, corev1.EnvVar{Name: "AICR_SERVICES", Value: strings.Join(c.Services, ",")})
	}
	if c.OS != "" {
		env = append(env, corev1.EnvVar{Name: "AICR_OS", Value: c.OS})
	}
	if c.Format != "" {
		env = append(env, corev1.EnvVar{Name: "AICR_FORMAT", Value: c.Format})
	}
	if c.RuntimeClassName != "" {
		env = append(env, corev1.EnvVar{Name: "NVIDIA_VISIBLE_DEVICES", Value: "all"})
	}
	return env
}

func fieldEnv(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
}

func (c Config) affinity() *corev1.Affinity {
	switch {
	case c.NodeName != "":
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchFields: []corev1.NodeSelectorRequirement{{
						Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{c.NodeName},
					}},
				}},
			},
		}}
	case len(c.NodeSelector) == 0:
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
				Weight: 100,
				Preference: corev1.NodeSelectorTerm{
					MatchExpressions: []corev1.NodeSelectorRequirement{{
						Key: labels.GPUPresent, Operator: corev1.NodeSelectorOpIn, Values: []string{"true"},
					}},
				},
			}},
		}}
	}
	return nil
}

func (c Config) tolerations() []corev1.Toleration {
	if c.Tolerations == nil {
		return []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	return slices.Clone(c.Tolerations)
}

// resources merges what the caller asks for over the defaults. A default
// gives way where the two would contradict each other.
func (c Config) resources() corev1.ResourceRequirements {
	requests := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("100m"),
		corev1.ResourceMemory: resource.MustParse("64Mi"),
	}
	limits := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("1"),
		corev1.ResourceMemory: resource.MustParse("512Mi"),
	}
	if c.RequireGPU {
		requests[gpuResource], limits[gpuResource] = resource.MustParse("1"), resource.MustParse("1")
	}
	maps.Copy(requests, c.Requests)
	maps.Copy(limits, c.Limits)
	for name, request := range requests {
		limit, ok := limits[name]
		if !ok || request.Cmp(limit) <= 0 {
			continue
		}
		if _, asked := c.Requests[name]; !asked {
			requests[name] = limit
		} else if _, asked := c.Limits[name]; !asked {
			limits[name] = request
		}
	}
	// An extended resource is asked for in equal amounts.
	if c.RequireGPU {
		if _, asked := c.Limits[gpuResource]; asked {
			requests[gpuResource] = limits[gpuResource]
		} else {
			limits[gpuResource] = requests[gpuResource]
		}
	}
	return corev1.ResourceRequirements{Requests: requests, Limits: limits}
}
