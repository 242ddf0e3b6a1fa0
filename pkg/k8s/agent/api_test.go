package agent_test

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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

// functions are those that the contract names.
type functions struct {
	newDeployer func(client kubernetes.Interface, config agent.Config) *agent.Deployer
	stagingName func(runID string) string
	render      func(options agent.ManifestOptions) ([]agent.Manifest, error)
}

// What other programs are compiled against: a name, a parameter or a type that
// changes breaks them, and this test.
func TestC3_NamesAndSignaturesAreThoseOfTheContract(t *testing.T) {
	f := functions{agent.NewDeployer, agent.StagingConfigMapName, agent.BuildServiceAccountRoleManifests}

	var d deployer = f.newDeployer(fake.NewClientset(), everyField())
	if got, want := d.JobName(), "job-run"; got != want {
		t.Errorf("Job %q, want %q", got, want)
	}
	if err := d.Cleanup(t.Context(), agent.CleanupOptions{Enabled: true}); err != nil {
		t.Error(err)
	}
	if got, want := f.stagingName("run"), "aicr-agent-snapshot-run"; got != want {
		t.Errorf("staging ConfigMap %q, want %q", got, want)
	}
	manifests, err := f.render(agent.ManifestOptions{Namespace: "ns", ServiceAccountName: "robot", DiscoverNetwork: false})
	if err != nil {
		t.Fatal(err)
	}
	want := agent.Manifest{FileName: "01-role.yaml", Kind: "Role", Name: "aicr-agent-robot-rbac", Content: manifests[0].Content}
	if diff := cmp.Diff(want, manifests[0]); diff != "" || !bytes.Contains(want.Content, []byte("kind: Role\n")) {
		t.Errorf("%s\n%s", diff, want.Content)
	}
}

func TestC4_AConfigOfEveryFieldIsValid(t *testing.T) {
	if err := everyField().Validate(); err != nil {
		t.Error(err)
	}
}

// everyField names each field of the contract with its type.
func everyField() agent.Config {
	// Variables, since constants would fit other types too.
	ns, run, job, text, yes, count := "ns", "run", "job", "x", true, 1
	resources := corev1.ResourceList{}
	return agent.Config{
		Namespace: ns, RunID: run, NameBase: text, JobName: job, ServiceAccountName: text,
		Image: text, ImagePullSecrets: []string{text}, NodeSelector: map[string]string{"k": text}, Tolerations: []corev1.Toleration{},
		Output: "cm://ns/" + agent.StagingConfigMapName(run), OwnsOutputConfigMap: yes,
		Debug: yes, Privileged: yes, RequireGPU: yes, RuntimeClassName: text, MaxNodesPerEntry: count, OS: text,
		DiscoverNetwork: !yes, Requests: resources, Limits: resources, Timeout: time.Minute,
	}
}
