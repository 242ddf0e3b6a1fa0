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
	name, file, from, to string
	breaks               string // the promise that must be seen to be broken
}

func mutations() []mutation {
	return []mutation{
		{
			name: "drop the precondition", file: "pkg/k8s/agent/cleanup.go", breaks: "(a)",
			from: "metav1.NewUIDPreconditions(string(uid))", to: "nil",
		},
		{
			name: "skip the invocation label", file: "pkg/k8s/labels/labels.go", breaks: "(a)",
			from: "InvocationID: invocationID,", to: "",
		},
		{
			name: "delete by name", file: "pkg/k8s/agent/cleanup.go", breaks: "(a)",
			from: "if !confirmed {", to: "if false && !confirmed {",
		},
		{
			name: "record after create", file: "pkg/k8s/agent/ledger.go", breaks: "(b)",
			from: "\td.ledger.add(r)\n\tgot, err := c.Create(ctx, want, metav1.CreateOptions{FieldManager: labels.AICR})\n",
			to: "\tgot, err := c.Create(ctx, want, metav1.CreateOptions{FieldManager: labels.AICR})\n" +
				"\tif err == nil || apierrors.IsAlreadyExists(err) {\n\t\td.ledger.add(r)\n\t}\n",
		},
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
	if n := strings.Count(string(source), m.from); n != 1 {
		t.Fatalf("%s holds %d times what is to be edited: %q", m.file, n, m.from)
	}
	dir := t.TempDir()
	mutated, list := filepath.Join(dir, "mutated.go"), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(mutated, []byte(strings.Replace(string(source), m.from, m.to, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{file: mutated}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(list, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return list
}
