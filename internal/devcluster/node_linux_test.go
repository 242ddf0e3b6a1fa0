package devcluster_test

import (
	"os"
	"testing"
	"time"

	"github.com/NVIDIA/aicr/internal/devcluster"
)

func TestNode(t *testing.T) {
	c, err := devcluster.Start(t.Context(), devcluster.Options{Log: os.Stderr, Audit: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Stop(); err != nil {
			t.Fatal(err)
		}
	}()
	n, err := c.StartNode(t.Context(), devcluster.NodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_ = n
	out, err := c.Kubectl(t.Context(), "get", "node", "-o", "wide").CombinedOutput()
	t.Logf("%s %v", out, err)
	if os.Getenv("HOLD") != "" {
		t.Log(c.Kubeconfig())
		time.Sleep(300 * time.Second)
	}
}
