// Package devtest lends tests a real Kubernetes: one control plane for the
// tests of a package, started by the first that asks and stopped when all
// have run, and one node on it, likewise.
//
//	func TestMain(m *testing.M) { os.Exit(devtest.Main(m, devtest.Options{})) }
//
//	func TestCreate(t *testing.T) {
//		cluster, namespace := devtest.Cluster(t), devtest.Namespace(t)
//		...
//	}
//
// Where the machine lacks what a test asks for, the test is skipped and says
// why; with AICR_TEST_REQUIRE_CLUSTER=1 or AICR_TEST_REQUIRE_NODE=1, which
// make test sets, it fails instead. AICR_TEST_KUBECONFIG names a cluster to
// use in place of our own; what needs our own processes is skipped then.
// Tests may run in parallel.
package devtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/NVIDIA/aicr/internal/devcluster"
	"github.com/NVIDIA/aicr/internal/devcluster/agentimage"
	"github.com/NVIDIA/aicr/internal/devcluster/assets"
)

// Names of the variables that steer the package.
const (
	// EnvRequireCluster set to 1 makes a missing cluster a failure.
	EnvRequireCluster = "AICR_TEST_REQUIRE_CLUSTER"
	// EnvRequireNode set to 1 makes a missing node a failure.
	EnvRequireNode = "AICR_TEST_REQUIRE_NODE"
	// EnvKubeconfig names the kubeconfig of a cluster to test on.
	EnvKubeconfig = "AICR_TEST_KUBECONFIG"
	// EnvImage names the agent image that the nodes of that cluster can pull.
	EnvImage = "AICR_TEST_IMAGE"
)

// Options says how the package's cluster is to be.
type Options = devcluster.Options

// shared is what the tests of one package have in common. TestMain sets it
// before any test runs.
var shared *fixture //nolint:gochecknoglobals // TestMain has no other way to tests

// fixture starts each part once, when it is first asked for.
type fixture struct {
	options Options
	cluster once[*devcluster.Cluster]
	node    once[*devcluster.Node]
	image   once[agentimage.Image]

	imageDir string // set when the image is first built
}

// once keeps the result of the first call, success or not.
type once[T any] struct {
	sync.Once
	value T
	err   error
}

func (o *once[T]) get(start func() (T, error)) (T, error) {
	o.Do(func() { o.value, o.err = start() })
	return o.value, o.err
}

// Main runs a package's tests and gives the exit code, after it has stopped
// the cluster if one was started. A cluster that leaves something behind
// fails the run.
func Main(m *testing.M, o Options) int {
	shared = &fixture{options: o}
	code := m.Run()
	if err := shared.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "devtest:", err)
		return max(code, 1)
	}
	return code
}

// stop takes away what was started.
func (f *fixture) stop() error {
	var errs []error
	if c := f.cluster.value; c != nil {
		errs = append(errs, c.Stop())
	}
	if f.imageDir != "" {
		errs = append(errs, os.RemoveAll(f.imageDir))
	}
	return errors.Join(errs...)
}

// Cluster gives the package's control plane. It belongs to all tests: none
// may stop it, and one that kills its API server brings it back.
func Cluster(t testing.TB) *devcluster.Cluster {
	t.Helper()
	f := mustShared(t)
	cluster, err := f.cluster.get(func() (*devcluster.Cluster, error) {
		if path := os.Getenv(EnvKubeconfig); path != "" {
			return devcluster.Attach(path)
		}
		return devcluster.Start(context.Background(), f.options)
	})
	if err != nil {
		giveUp(t, EnvRequireCluster, err)
	}
	return cluster
}

// OwnCluster is Cluster for tests that need processes of our own, such as one
// that kills the API server or reads the audit log. Elsewhere they skip.
func OwnCluster(t testing.TB) *devcluster.Cluster {
	t.Helper()
	cluster := Cluster(t)
	if cluster.Attached() {
		t.Skipf("needs a cluster of its own, and %s names another", EnvKubeconfig)
	}
	return cluster
}

// Controllers is Cluster for tests that need somebody to act on objects:
// garbage collection, Jobs that get pods. Without controllers they skip.
func Controllers(t testing.TB) *devcluster.Cluster {
	t.Helper()
	cluster := Cluster(t)
	if !cluster.HasControllers() {
		giveUp(t, EnvRequireCluster, errors.Join(devcluster.ErrUnsupported,
			errors.New("the cluster has no controllers: run make kube and leave "+assets.EnvDir+" unset")))
	}
	return cluster
}

func mustShared(t testing.TB) *fixture {
	t.Helper()
	if shared == nil {
		t.Fatal("devtest: the package needs func TestMain(m *testing.M) { os.Exit(devtest.Main(m, devtest.Options{})) }")
	}
	return shared
}

// giveUp skips the test where the machine lacks something, unless the
// variable require says that it must not; any other error fails it.
func giveUp(t testing.TB, require string, err error) {
	t.Helper()
	missing := errors.Is(err, assets.ErrMissing) || errors.Is(err, devcluster.ErrUnsupported)
	if missing && os.Getenv(require) != "1" {
		t.Skip(err)
	}
	t.Fatal(err)
}
