// Command usage is the usage example of the reference text, word for word but
// for the use of the snapshot that it leaves to the reader. It is here to be
// compiled.
package main

import (
	"context"
	"os"
	"time"

	"github.com/NVIDIA/aicr/pkg/k8s/agent"
	"github.com/NVIDIA/aicr/pkg/k8s/client"
	"github.com/NVIDIA/aicr/pkg/runid"
)

func main() {
	ctx := context.Background()

	// Get Kubernetes client
	clientset, _, err := client.GetKubeClient()
	if err != nil {
		panic(err)
	}

	// One run ID scopes every object this deployment creates.
	runID := runid.Generate()

	// Configure deployer
	config := agent.Config{
		Namespace: "gpu-operator",
		RunID:     runID,
		Image:     "ghcr.io/nvidia/aicr-validator:latest",
		Output:    "cm://gpu-operator/" + agent.StagingConfigMapName(runID),
		// Output is owned by this run, so Cleanup may delete it. Point
		// Output at a ConfigMap of your own and leave this false: an
		// artifact you named is never deleted here.
		OwnsOutputConfigMap: true,
		NodeSelector: map[string]string{
			"nodeGroup": "customer-gpu",
		},
	}

	// Create deployer
	deployer := agent.NewDeployer(clientset, config)

	// Always clean up this run's objects, including on the failure path.
	defer func() {
		_ = deployer.Cleanup(context.Background(), agent.CleanupOptions{Enabled: true})
	}()

	// Deploy RBAC and Job
	if err := deployer.Deploy(ctx); err != nil {
		panic(err)
	}

	// Wait for completion (deployer.JobName() is the run-scoped name)
	if err := deployer.WaitForCompletion(ctx, 5*time.Minute); err != nil {
		panic(err)
	}

	// Get snapshot
	snapshot, err := deployer.GetSnapshot(ctx)
	if err != nil {
		panic(err)
	}

	// Use snapshot...
	_, _ = os.Stdout.Write(snapshot)
}
