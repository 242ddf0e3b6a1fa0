// Package hosttest makes small hosts for tests, and compares what is read of
// them with golden files.
package hosttest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"
)

// Tree writes files, by name, below a new folder and returns it. The content
// "-> x" makes a symbolic link to x, "script x" an executable file.
func Tree(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := write(p, content); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Archive returns the files of a host that is written down in a txtar file,
// as Tree takes them.
func Archive(t testing.TB, name string) map[string]string {
	t.Helper()
	a, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range a.Files {
		files[f.Name] = string(f.Data)
	}
	return files
}

func write(p, content string) error {
	if target, ok := strings.CutPrefix(content, "-> "); ok {
		return os.Symlink(strings.TrimSpace(target), p)
	}
	if rest, ok := strings.CutPrefix(content, "script "); ok {
		return os.WriteFile(p, []byte(rest), 0o755)
	}
	return os.WriteFile(p, []byte(content), 0o644)
}

// Golden compares v as YAML with the file testdata/<name>, which -update
// writes.
func Golden(t testing.TB, name string, v any) {
	t.Helper()
	got, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	p := filepath.Join("testdata", name)
	if flag.Lookup(flagUpdate).Value.String() == "true" {
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(p)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got); write it with -update\n%s", p, diff)
	}
}

// flagUpdate is read by its name, so that nothing here is a variable.
const flagUpdate = "update"

func init() { flag.Bool(flagUpdate, false, "write the golden files") }

// Shared returns the files of a folder of real inputs that lies beside a
// developer's checkout, and skips the test where there is none.
func Shared(t testing.TB, pattern string) []string {
	t.Helper()
	dir, err := os.Getwd()
	for err == nil {
		if _, errMod := os.Stat(filepath.Join(dir, "go.mod")); errMod == nil || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "..", "shared", "testdata", pattern))
	if len(files) == 0 {
		t.Skip("there is no folder of real inputs beside this checkout")
	}
	return files
}
