package agent_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/NVIDIA/aicr/pkg/k8s/agent"
	"github.com/NVIDIA/aicr/pkg/k8s/agent/agenttest"
)

// deployFake returns the Job that a Config leads to.
func deployFake(t *testing.T, change func(*agent.Config)) *batchv1.Job {
	t.Helper()
	client := fake.NewClientset()
	agenttest.AllowAccessReviews(client)
	config := validConfig()
	if change != nil {
		change(&config)
	}
	d := agent.NewDeployer(client, config)
	if err := d.Deploy(context.Background()); err != nil {
		t.Fatal(err)
	}
	job, err := client.BatchV1().Jobs(config.Namespace).Get(context.Background(), d.JobName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return job
}

func envOf(job *batchv1.Job) map[string]string {
	env := map[string]string{}
	for _, e := range job.Spec.Template.Spec.Containers[0].Env {
		env[e.Name] = e.Value
		if e.ValueFrom != nil {
			env[e.Name] = "<" + e.ValueFrom.FieldRef.FieldPath + ">"
		}
	}
	return env
}

func TestC26_JobRunsTheAgentOnce(t *testing.T) {
	job := deployFake(t, func(c *agent.Config) { c.Timeout = 5 * time.Minute })
	s := job.Spec
	for what, pair := range map[string][2]any{
		"completions":             {int32(1), *s.Completions},
		"parallelism":             {int32(1), *s.Parallelism},
		"backoffLimit":            {int32(0), *s.BackoffLimit},
		"ttlSecondsAfterFinished": {int32(3600), *s.TTLSecondsAfterFinished},
		"activeDeadlineSeconds":   {int64(360), *s.ActiveDeadlineSeconds},
		"restartPolicy":           {corev1.RestartPolicyNever, s.Template.Spec.RestartPolicy},
		"containers":              {1, len(s.Template.Spec.Containers)},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: want %v, got %v", what, pair[0], pair[1])
		}
	}
	c := s.Template.Spec.Containers[0]
	staging := "cm://test/aicr-agent-snapshot-" + testRunID
	if diff := cmp.Diff([]string{"aicr", "snapshot", "-o", staging}, append(c.Command, c.Args...)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{
		"AICR_AGENT_MODE":     "true",
		"AICR_LOG_PREFIX":     "agent",
		"NODE_NAME":           "<spec.nodeName>",
		"AICR_PRIVILEGED":     "false",
		"AICR_OWNER_JOB_NAME": "<metadata.labels['batch.kubernetes.io/job-name']>",
		"AICR_OWNER_JOB_UID":  "<metadata.labels['batch.kubernetes.io/controller-uid']>",
	}, envOf(job)); diff != "" {
		t.Error(diff)
	}
	debug := deployFake(t, func(c *agent.Config) { c.Debug = true }).Spec.Template.Spec.Containers[0]
	if diff := cmp.Diff([]string{"--debug", "--log-json", "snapshot", "-o", staging}, debug.Args); diff != "" {
		t.Error(diff)
	}
	if got := *deployFake(t, nil).Spec.ActiveDeadlineSeconds; got != 3660 {
		t.Errorf("active deadline without a timeout: %d s, want one hour and a minute", got)
	}
}

func TestC24_ADeliveredConfigMapIsToldOfNoOwner(t *testing.T) {
	env := envOf(deployFake(t, func(c *agent.Config) { c.Output = "cm://test/mine" }))
	for _, name := range []string{"AICR_OWNER_JOB_NAME", "AICR_OWNER_JOB_UID"} {
		if v, ok := env[name]; ok {
			t.Errorf("%s=%s is set for a ConfigMap of the caller's own", name, v)
		}
	}
}

func TestC28_OptionsShapeThePod(t *testing.T) {
	gpu := corev1.ResourceName("nvidia.com/gpu")
	for _, privileged := range []bool{true, false} {
		job := deployFake(t, func(c *agent.Config) { c.RequireGPU, c.Privileged = true, privileged })
		c := job.Spec.Template.Spec.Containers[0]
		if got := c.Resources.Limits[gpu]; got.Value() != 1 {
			t.Errorf("privileged %t: asks for %s GPUs, want 1", privileged, got.String())
		}
		if envOf(job)["AICR_REQUIRE_GPU"] != "true" {
			t.Errorf("privileged %t: the agent is not told", privileged)
		}
	}

	defaults := deployFake(t, nil).Spec.Template.Spec
	if diff := cmp.Diff([]corev1.Toleration{{Operator: corev1.TolerationOpExists}}, defaults.Tolerations); diff != "" {
		t.Error("nil tolerations tolerate all:", diff)
	}
	if got := defaults.Affinity.NodeAffinity; got.RequiredDuringSchedulingIgnoredDuringExecution != nil ||
		got.PreferredDuringSchedulingIgnoredDuringExecution[0].Preference.MatchExpressions[0].Key != "nvidia.com/gpu.present" {
		t.Errorf("GPU nodes are preferred and not required: %+v", got)
	}

	none := deployFake(t, func(c *agent.Config) {
		c.Tolerations = []corev1.Toleration{}
		c.NodeSelector = map[string]string{"pool": "gpu"}
	}).Spec.Template.Spec
	if len(none.Tolerations) != 0 {
		t.Errorf("an empty list tolerates none: %v", none.Tolerations)
	}
	if none.Affinity != nil || none.NodeSelector["pool"] != "gpu" {
		t.Errorf("a selector stands alone: %+v", none)
	}

	class := deployFake(t, func(c *agent.Config) {
		c.Format, c.OS, c.MaxNodesPerEntry, c.Services = "json", "ubuntu", 7, []string{"sshd", "a.timer"}
	})
	env := envOf(class)
	if env["AICR_FORMAT"] != "json" || env["AICR_OS"] != "ubuntu" || env["AICR_MAX_NODES_PER_ENTRY"] != "7" || env["AICR_SERVICES"] != "sshd,a.timer" {
		t.Errorf("options do not reach the agent: %v", env)
	}
}

func TestC28_RequestsAndLimitsMergeOverTheDefaults(t *testing.T) {
	q := resource.MustParse
	for _, tc := range []struct {
		name             string
		requests, limits corev1.ResourceList
		wantR, wantL     map[corev1.ResourceName]string
	}{
		{"defaults", nil, nil,
			map[corev1.ResourceName]string{"cpu": "100m", "memory": "64Mi"},
			map[corev1.ResourceName]string{"cpu": "1", "memory": "512Mi"}},
		{"by key", corev1.ResourceList{"cpu": q("200m"), "ephemeral-storage": q("1Gi")}, corev1.ResourceList{"memory": q("1Gi")},
			map[corev1.ResourceName]string{"cpu": "200m", "memory": "64Mi", "ephemeral-storage": "1Gi"},
			map[corev1.ResourceName]string{"cpu": "1", "memory": "1Gi"}},
		{"a larger request raises the default limit", corev1.ResourceList{"cpu": q("4")}, nil,
			map[corev1.ResourceName]string{"cpu": "4", "memory": "64Mi"},
			map[corev1.ResourceName]string{"cpu": "4", "memory": "512Mi"}},
		{"a smaller limit lowers the default request", nil, corev1.ResourceList{"memory": q("32Mi")},
			map[corev1.ResourceName]string{"cpu": "100m", "memory": "32Mi"},
			map[corev1.ResourceName]string{"cpu": "1", "memory": "32Mi"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := deployFake(t, func(c *agent.Config) { c.Requests, c.Limits = tc.requests, tc.limits }).
				Spec.Template.Spec.Containers[0].Resources
			text := func(l corev1.ResourceList) map[corev1.ResourceName]string {
				out := map[corev1.ResourceName]string{}
				for k, v := range l {
					out[k] = v.String()
				}
				return out
			}
			if diff := cmp.Diff(tc.wantR, text(got.Requests)); diff != "" {
				t.Error("requests", diff)
			}
			if diff := cmp.Diff(tc.wantL, text(got.Limits)); diff != "" {
				t.Error("limits", diff)
			}
		})
	}
}
