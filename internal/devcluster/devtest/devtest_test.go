package devtest_test

import (
	"os"
	"testing"

	"github.com/NVIDIA/aicr/internal/devcluster/devtest"
)

func TestMain(m *testing.M) { os.Exit(devtest.Main(m, devtest.Options{Audit: true})) }

func TestNamespacesAreDistinct(t *testing.T) {
	if a, b := devtest.Namespace(t), devtest.Namespace(t); a == b {
		t.Errorf("two namespaces of one test are both %s", a)
	}
}
