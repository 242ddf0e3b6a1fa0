package devcluster_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/NVIDIA/aicr/internal/devcluster"
	"github.com/NVIDIA/aicr/internal/devcluster/assets"
)

// start starts a cluster for one test, or skips it where there is nothing to
// start. These tests start their own, for starting and stopping is what
// they are about.
func start(t *testing.T, o devcluster.Options) *devcluster.Cluster {
	t.Helper()
	requireAssets(t)
	cluster, err := devcluster.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	return cluster
}

func requireAssets(t *testing.T) assets.Set {
	t.Helper()
	set, err := assets.Find()
	if errors.Is(err, assets.ErrMissing) && os.Getenv("AICR_TEST_REQUIRE_CLUSTER") != "1" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// startNode adds a node for one test.
func startNode(t *testing.T, cluster *devcluster.Cluster) *devcluster.Node {
	t.Helper()
	node, err := cluster.StartNode(t.Context(), devcluster.NodeOptions{Labels: map[string]string{"example.com/rack": "7"}})
	if err != nil {
		t.Fatal(err)
	}
	return node
}

// requireNode skips the test where there can be no node.
func requireNode(t *testing.T) {
	t.Helper()
	requireAssets(t)
	err := devcluster.CheckNode()
	if errors.Is(err, devcluster.ErrUnsupported) && os.Getenv("AICR_TEST_REQUIRE_NODE") != "1" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func clientFor(t *testing.T, cluster *devcluster.Cluster) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// processesIn lists the command lines of all processes that name the folder.
func processesIn(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(text), dir+"/") {
			found = append(found, strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
	return found
}

// command runs a program of the machine, and gives what it wrote.
func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// waitLimit bounds the waits for what takes a few seconds on a quiet machine.
const waitLimit = 2 * time.Minute
