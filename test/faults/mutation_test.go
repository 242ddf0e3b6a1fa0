package faults

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/NVIDIA/aicr/internal/devcluster/devtest"
)

// mutation is an edit that takes a guarantee away.
type mutation struct {
	name, file string
	breaks     string // the promise that must be seen to be broken
	edits      []edit
}

// edit replaces the one place where a file holds a text.
type edit struct{ from, to string }

func mutations() []mutation {
	return []mutation{
		{"drop the precondition", "pkg/k8s/agent/cleanup.go", "(a)", []edit{
			{"metav1.NewUIDPreconditions(string(uid))", "nil"},
		}},
		{"skip the invocation label", "pkg/k8s/labels/labels.go", "(a)", []edit{
			{"InvocationID: invocationID,", ""},
		}},
		{"delete by name", "pkg/k8s/agent/cleanup.go", "(a)", []edit{
			{"if !confirmed {", "if false && !confirmed {"},
		}},
		{"record after create", "pkg/k8s/agent/ledger.go", "(b)", []edit{
			{"\tif !d.ledger.add(r) {\n\t\treturn none, d.cleanedUp()\n\t}\n", ""},
			{"\td.ledger.confirm(r, got.GetUID())\n\td.emit(", "\td.ledger.add(r)\n\td.ledger.confirm(r, got.GetUID())\n\td.emit("},
		}},
	}
}

// TestAMutationOfTheCodeIsNoticed runs the bounded part of TestFaults on code
// that lacks a guarantee: it must fail, for the reason that is to be expected.
// Without -all it only checks that the edits still have their targets.
func TestAMutationOfTheCodeIsNoticed(t *testing.T) {
	t.Parallel()
	devtest.OwnCluster(t) // skips where the mutants would
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutations() {
		t.Run(strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			overlay := m.overlay(t, root)
			if !*all {
				return
			}
			mutant := filepath.Join(t.TempDir(), "mutant")
			build := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", overlay, "-o", mutant, ".")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("build the mutant: %v\n%s", err, out)
			}
			out, err := exec.CommandContext(t.Context(), mutant, "-test.run=^TestFaults$", "-test.skip=/case/restart").CombinedOutput()
			if err == nil || !strings.Contains(string(out), ": "+m.breaks+" ") {
				t.Errorf("not noticed: %v\n%s", err, out)
			}
		})
	}
}

// overlay writes the mutated file and the list of overlays that names it. An
// edit whose target is not there exactly once is a fault of the edit.
func (m mutation) overlay(t *testing.T, root string) string {
	t.Helper()
	file := filepath.Join(root, filepath.FromSlash(m.file))
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(source)
	for _, e := range m.edits {
		if n := strings.Count(text, e.from); n != 1 {
			t.Fatalf("%s holds %d times what is to be edited: %q", m.file, n, e.from)
		}
		text = strings.Replace(text, e.from, e.to, 1)
	}
	dir := t.TempDir()
	mutated, list := filepath.Join(dir, "mutated.go"), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(mutated, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{file: mutated}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(list, replace, 0o600); err != nil {
		t.Fatal(err)
	}
	return list
}
