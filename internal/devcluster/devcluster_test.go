package devcluster_test

import (
	"github.com/NVIDIA/aicr/internal/devcluster"
	"os"
	"testing"
)

func TestStart(t *testing.T) {
	c, err := devcluster.Start(t.Context(), devcluster.Options{Log: os.Stderr, Audit: true})
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.Kubectl(t.Context(), "get", "sa,ns", "-A").CombinedOutput()
	t.Logf("%s %v", out, err)
	out, err = c.Kubectl(t.Context(), "version").CombinedOutput()
	t.Logf("%s %v", out, err)
	ev, err := c.AuditEvents()
	t.Log(len(ev), err)
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
}
