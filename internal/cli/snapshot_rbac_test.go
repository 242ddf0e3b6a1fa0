package cli

import (
	stderrors "errors"
	"os"
	"testing"

	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/k8s/agent"
)

func TestC15_ManifestsAreWrittenAllOrNone(t *testing.T) {
	t.Chdir(t.TempDir())
	m := roleManifests{files: []agent.Manifest{{FileName: "01.yaml"}, {FileName: "no-such-folder/02.yaml"}}}
	if err := m.write("all"); !stderrors.Is(err, errors.InvalidRequest) {
		t.Errorf("%v, want INVALID_REQUEST", err)
	}
	left, err := os.ReadDir(".")
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	m.files = m.files[:1]
	if err := m.write("all"); err != nil {
		t.Fatal(err)
	}
	if err := m.write("all"); !stderrors.Is(err, errors.Conflict) {
		t.Errorf("%v, want CONFLICT", err)
	}
}
