package agent_test

import (
	"context"
	"io"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/NVIDIA/aicr/pkg/k8s/agent"
)

// deployer has every method that the contract names, as it names them.
type deployer interface {
	CheckPermissions(ctx context.Context) error
	Deploy(ctx context.Context) error
	JobName() string
	WaitForPodReady(ctx context.Context, timeout time.Duration) error
	WaitForCompletion(ctx context.Context, timeout time.Duration) error
	StreamLogs(ctx context.Context, w io.Writer, prefix string) error
	GetPodLogs(ctx context.Context) (string, error)
	GetSnapshot(ctx context.Context) ([]byte, error)
	Cleanup(ctx context.Context, opts agent.CleanupOptions) error
}

// What other programs are compiled against: a name, a parameter or a type that
// changes here breaks them.
func TestC3_NamesAndSignaturesAreThoseOfTheContract(t *testing.T) {
	var (
		newDeployer func(kubernetes.Interface, agent.Config) *agent.Deployer           = agent.NewDeployer
		stagingName func(runID string) string                                          = agent.StagingConfigMapName
		render      func(agent.ManifestOptions) ([]agent.Manifest, error)              = agent.BuildServiceAccountRoleManifests
		d           deployer                                                           = newDeployer(fake.NewClientset(), everyField())
		cleanUp     func(*agent.Deployer, context.Context, agent.CleanupOptions) error = (*agent.Deployer).Cleanup
	)
	if got, want := d.JobName(), "job-run"; got != want {
		t.Errorf("Job %q, want %q", got, want)
	}
	if got, want := stagingName("run"), "aicr-agent-snapshot-run"; got != want {
		t.Errorf("staging ConfigMap %q, want %q", got, want)
	}
	if err := cleanUp(newDeployer(fake.NewClientset(), agent.Config{}), t.Context(), agent.CleanupOptions{Enabled: false}); err != nil {
		t.Error(err)
	}
	manifests, err := render(agent.ManifestOptions{Namespace: "ns", ServiceAccountName: "robot", DiscoverNetwork: false})
	if err != nil {
		t.Fatal(err)
	}
	var first agent.Manifest = manifests[0]
	var fileName, kind, name string = first.FileName, first.Kind, first.Name
	var content []byte = first.Content
	if fileName != "01-role.yaml" || kind != "Role" || name != "aicr-agent-robot-rbac" || len(content) == 0 {
		t.Errorf("%+v", first)
	}
}

func TestC4_AConfigOfEveryFieldIsValid(t *testing.T) {
	if err := everyField().Validate(); err != nil {
		t.Error(err)
	}
}

// everyField names each field of the contract with its type.
func everyField() agent.Config {
	var (
		text      = "x"
		texts     = []string{"x"}
		yes       = true
		resources = corev1.ResourceList{}
	)
	return agent.Config{
		Namespace: "ns", RunID: "run", NameBase: text, JobName: "job", ServiceAccountName: text,
		Image: text, ImagePullSecrets: texts, NodeSelector: map[string]string{"k": text}, Tolerations: []corev1.Toleration{},
		Output: "cm://ns/" + agent.StagingConfigMapName("run"), OwnsOutputConfigMap: yes,
		Debug: yes, Privileged: yes, RequireGPU: yes, RuntimeClassName: text, MaxNodesPerEntry: 1, OS: text,
		DiscoverNetwork: !yes, Requests: resources, Limits: resources, Timeout: time.Minute,
	}
}
