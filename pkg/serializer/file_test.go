package serializer

import (
	"bytes"
	"context"
	stderrors "errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/NVIDIA/aicr/pkg/errors"
)

func doc(text string) Document {
	return Document{Format: YAML, Data: []byte(text), Kind: "Snapshot", Version: "v1.2.3"}
}

// listing returns what a folder holds, with the files' texts.
func listing(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		b, _ := os.ReadFile(filepath.Join(dir, e.Name()))
		out[e.Name()] = string(b)
	}
	return out
}

func TestFileIsReplacedAsAWholeAndNothingElseStays(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out.yaml")
	f := NewFile(path)
	for _, text := range []string{"a long first document\n", "short\n"} {
		if err := f.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := f.Write(t.Context(), doc(text)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]string{"out.yaml": text}, listing(t, dir)); diff != "" {
			t.Error(diff)
		}
	}
}

// A reader that has the old file open goes on reading the old document.
func TestFileReaderNeverSeesHalfADocument(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("windows does not replace a file that is open")
	}
	path := filepath.Join(t.TempDir(), "out.yaml")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := NewFile(path).Write(t.Context(), doc("new")); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := b.ReadFrom(r); err != nil || b.String() != "old" {
		t.Errorf("reader got %q, %v", b.String(), err)
	}
}

func TestFileCheckChangesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out.yaml")
	if err := NewFile(path).Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{}, listing(t, dir)); diff != "" {
		t.Error(diff)
	}
	if err := os.WriteFile(path, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	before, _ := os.Stat(path)
	if err := NewFile(path).Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	after, _ := os.Stat(path)
	if !os.SameFile(before, after) || !before.ModTime().Equal(after.ModTime()) {
		t.Error("the file was touched")
	}
	if diff := cmp.Diff(map[string]string{"out.yaml": "old"}, listing(t, dir)); diff != "" {
		t.Error(diff)
	}
}

func TestFileIsLeftAsItWasWhenTheRunIsCancelled(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := NewFile(filepath.Join(dir, "out")).Write(ctx, doc("x")); !stderrors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff(map[string]string{}, listing(t, dir)); diff != "" {
		t.Error(diff)
	}
}

func TestUnwritableFileIsInvalidRequestBeforeAndAtTheWrite(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "gone"), link); err != nil {
		t.Skip(err)
	}
	inFile := filepath.Join(dir, "file")
	if err := os.WriteFile(inFile, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct{ path, want string }{
		"folder":            {dir, "folder"},
		"missing folder":    {filepath.Join(dir, "no", "out"), "out"},
		"folder to be made": {filepath.Join(dir, "no") + string(filepath.Separator), "no"},
		"link to nothing":   {link, "link to a file that does not exist"},
		"below a file":      {filepath.Join(inFile, "out"), "out"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := listing(t, dir)
			for _, err := range []error{NewFile(tt.path).Check(t.Context()), NewFile(tt.path).Write(t.Context(), doc("x"))} {
				if !stderrors.Is(err, errors.InvalidRequest) || !strings.Contains(err.Error(), tt.want) || errors.AdviceOf(err) == "" {
					t.Errorf("error %v, advice %q", err, errors.AdviceOf(err))
				}
			}
			if diff := cmp.Diff(before, listing(t, dir)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestStdoutGetsTheDocumentUntouched(t *testing.T) {
	var b bytes.Buffer
	d := NewStdout(&b)
	if err := d.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.Write(t.Context(), doc("a\n")); err != nil || b.String() != "a\n" {
		t.Errorf("wrote %q, %v", b.String(), err)
	}
}
