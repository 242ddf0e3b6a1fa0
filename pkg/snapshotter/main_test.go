package snapshotter_test

import (
	"os"
	"testing"

	"github.com/NVIDIA/aicr/internal/devcluster/devtest"
)

func TestMain(m *testing.M) { os.Exit(devtest.Main(m, devtest.Options{})) }
