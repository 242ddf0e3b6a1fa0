// Package fakes is the testing example of the reference text, with a use of
// the deployer that it leaves to the reader.
package fakes

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/NVIDIA/aicr/pkg/k8s/agent"
	"github.com/NVIDIA/aicr/pkg/k8s/agent/agenttest"
)

func TestDeployer(t *testing.T) {
	clientset := fake.NewClientset()
	deployer := agent.NewDeployer(clientset, agent.Config{
		Namespace: "test",
		RunID:     "20260821-142233-9f3a1c0b7e2d4a55",
		Image:     "test:latest",
	})
	// Test deployment logic...
	agenttest.AllowAccessReviews(clientset)
	ctx := context.Background()
	if err := deployer.Deploy(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := clientset.BatchV1().Jobs("test").Get(ctx, deployer.JobName(), metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if err := deployer.Cleanup(ctx, agent.CleanupOptions{Enabled: true}); err != nil {
		t.Error(err)
	}
	if left, err := clientset.BatchV1().Jobs("test").List(ctx, metav1.ListOptions{}); err != nil || len(left.Items) > 0 {
		t.Errorf("after Cleanup: %v, %v", left, err)
	}
}
