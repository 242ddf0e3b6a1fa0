package agent_test

import (
	"context"
	stderrors "errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/k8s/agent"
	"github.com/NVIDIA/aicr/pkg/k8s/agent/agenttest"
)

const testRunID = "20260821-142233-9f3a1c0b7e2d4a55"

func validConfig() agent.Config {
	return agent.Config{Namespace: "test", RunID: testRunID, Image: "example.com/aicr:test"}
}

func TestC7_BadInputIsRefusedBeforeAnyRequest(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*agent.Config)
		says   string
	}{
		{"run ID empty", func(c *agent.Config) { c.RunID = "" }, "RunID"},
		{"run ID too long", func(c *agent.Config) { c.RunID = strings.Repeat("a", 41) }, "41 characters"},
		{"run ID as long as a name", func(c *agent.Config) { c.RunID = strings.Repeat("a", 63) }, "63 characters"},
		{"run ID longer than any name", func(c *agent.Config) { c.RunID = strings.Repeat("a", 1000) }, "1000 characters"},
		{"run ID no label", func(c *agent.Config) { c.RunID = "Run_1" }, "Run_1"},
		{"run ID ends with a dash", func(c *agent.Config) { c.RunID = "run-" }, "run-"},
		{"namespace empty", func(c *agent.Config) { c.Namespace = "" }, "Namespace"},
		{"namespace invalid", func(c *agent.Config) { c.Namespace = "a.b" }, "a.b"},
		{"job prefix", func(c *agent.Config) { c.JobName = "-x" }, "JobName"},
		{"name base", func(c *agent.Config) { c.NameBase = "Base" }, "NameBase"},
		{"service account", func(c *agent.Config) { c.ServiceAccountName = "a/b" }, "ServiceAccountName"},
		{"pull secret", func(c *agent.Config) { c.ImagePullSecrets = []string{""} }, "ImagePullSecrets"},
		{"image empty", func(c *agent.Config) { c.Image = "" }, "Image"},
		{"image with a space", func(c *agent.Config) { c.Image = "a b" }, "a b"},
		{"selector", func(c *agent.Config) { c.NodeSelector = map[string]string{"": "x"} }, "NodeSelector"},
		{"selector and node", func(c *agent.Config) {
			c.NodeSelector, c.NodeName = map[string]string{"a": "b"}, "n"
		}, "NodeName"},
		{"output without a name", func(c *agent.Config) { c.Output = "cm://test" }, "name is missing"},
		{"output without a namespace", func(c *agent.Config) { c.Output = "cm:///x" }, "namespace is missing"},
		{"output of another scheme", func(c *agent.Config) { c.Output = "file:///x" }, "cm://"},
		{"output in another namespace", func(c *agent.Config) { c.Output = "cm://other/x" }, "rights end"},
		{"format", func(c *agent.Config) { c.Format = "toml" }, "toml"},
		{"timeout", func(c *agent.Config) { c.Timeout = -time.Second }, "Timeout"},
		{"nodes per entry", func(c *agent.Config) { c.MaxNodesPerEntry = -1 }, "MaxNodesPerEntry"},
		{"service", func(c *agent.Config) { c.Services = []string{"a,b"} }, "Services"},
		{"discovery", func(c *agent.Config) { c.DiscoverNetwork = true }, "not supported"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			config := validConfig()
			tc.change(&config)
			client := fake.NewClientset()
			d := agent.NewDeployer(client, config)
			ctx := context.Background()
			_, snapshotErr := d.GetSnapshot(ctx)
			for call, err := range map[string]error{
				"Deploy": d.Deploy(ctx), "CheckPermissions": d.CheckPermissions(ctx), "GetSnapshot": snapshotErr,
			} {
				if !stderrors.Is(err, errors.InvalidRequest) {
					t.Errorf("%s: %v, want INVALID_REQUEST", call, err)
				} else if text := err.Error() + errors.AdviceOf(err); !strings.Contains(text, tc.says) {
					t.Errorf("%s: %q does not name %q", call, text, tc.says)
				}
			}
			if err := d.Cleanup(ctx, agent.CleanupOptions{Enabled: true}); err != nil {
				t.Error(err)
			}
			if n := len(client.Actions()); n > 0 {
				t.Errorf("%d requests were sent: %v", n, client.Actions())
			}
		})
	}
}

func TestC6_ALongPrefixIsCutAndNotRefused(t *testing.T) {
	long := strings.Repeat("a", 70)
	for name, change := range map[string]func(*agent.Config){
		"JobName":            func(c *agent.Config) { c.JobName = long },
		"NameBase":           func(c *agent.Config) { c.NameBase = long },
		"ServiceAccountName": func(c *agent.Config) { c.ServiceAccountName = long },
	} {
		t.Run(name, func(t *testing.T) {
			config := validConfig()
			change(&config)
			client := fake.NewClientset()
			agenttest.AllowAccessReviews(client)
			d := agent.NewDeployer(client, config)
			if err := d.Deploy(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := d.JobName(); len(got) > 63 || !strings.HasSuffix(got, "-"+testRunID) {
				t.Errorf("Job %q", got)
			}
		})
	}
}

func TestC4_DeployerCopiesItsConfig(t *testing.T) {
	config := validConfig()
	config.NodeSelector = map[string]string{"pool": "a"}
	config.Tolerations = []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists}}
	config.Requests = corev1.ResourceList{"cpu": resource.MustParse("200m")}
	config.ImagePullSecrets = []string{"one"}
	client := fake.NewClientset()
	agenttest.AllowAccessReviews(client)
	d := agent.NewDeployer(client, config)
	config.NodeSelector["pool"] = "b"
	config.Tolerations[0].Key = "b"
	config.Requests["cpu"] = resource.MustParse("900m")
	config.ImagePullSecrets[0] = "two"
	if err := d.Deploy(context.Background()); err != nil {
		t.Fatal(err)
	}
	job, err := client.BatchV1().Jobs("test").Get(context.Background(), d.JobName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := job.Spec.Template.Spec
	if pod.NodeSelector["pool"] != "a" || pod.Tolerations[0].Key != "a" || pod.ImagePullSecrets[0].Name != "one" ||
		pod.Containers[0].Resources.Requests.Cpu().String() != "200m" {
		t.Errorf("a change after NewDeployer reached the Job: %+v", pod)
	}
}
