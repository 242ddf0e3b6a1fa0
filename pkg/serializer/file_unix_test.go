//go:build unix

package serializer

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestFileModeIsKeptOrFollowsTheUmask(t *testing.T) {
	old := syscall.Umask(0o027)
	defer syscall.Umask(old)
	dir := t.TempDir()
	existing := filepath.Join(dir, "existing")
	if err := os.WriteFile(existing, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(existing, 0o606); err != nil { // not what any umask makes
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{existing: 0o606, filepath.Join(dir, "new"): 0o640} {
		if err := NewFile(path).Write(t.Context(), doc("x")); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != want {
			t.Errorf("%s: mode %o, want %o", path, info.Mode(), want)
		}
	}
}

func TestFileKeepsItsOwnerWhenRootReplacesIt(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may give a file away")
	}
	path := filepath.Join(t.TempDir(), "out")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, 1234, 1235); err != nil {
		t.Fatal(err)
	}
	if err := NewFile(path).Write(t.Context(), doc("x")); err != nil {
		t.Fatal(err)
	}
	info, _ := os.Stat(path)
	if st := info.Sys().(*syscall.Stat_t); st.Uid != 1234 || st.Gid != 1235 {
		t.Errorf("owner %d:%d", st.Uid, st.Gid)
	}
}

func TestFileLinkIsFollowedAndStays(t *testing.T) {
	files, links := t.TempDir(), t.TempDir()
	target, link := filepath.Join(files, "target"), filepath.Join(links, "link")
	if err := os.WriteFile(target, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if err := NewFile(link).Write(t.Context(), doc("new")); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(link); err != nil || to != target {
		t.Errorf("link leads to %q, %v", to, err)
	}
	if b, _ := os.ReadFile(target); string(b) != "new" {
		t.Errorf("target holds %q", b)
	}
}

func TestFileThatIsNoRegularFileIsWrittenInPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	if err := NewFile(path).Check(t.Context()); err != nil { // must not block or eat the pipe
		t.Fatal(err)
	}
	got := make(chan string, 1)
	go func() {
		r, err := os.Open(path)
		if err != nil {
			got <- err.Error()
			return
		}
		defer r.Close()
		b, _ := io.ReadAll(r)
		got <- string(b)
	}()
	if err := NewFile(path).Write(t.Context(), doc("x")); err != nil {
		t.Fatal(err)
	}
	if g := <-got; g != "x" {
		t.Errorf("pipe gave %q", g)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("the pipe was replaced: %v %v", info, err)
	}
}
