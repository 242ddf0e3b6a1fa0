package serializer

import (
	stderrors "errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/NVIDIA/aicr/pkg/errors"
)

func TestFileWithoutPermissionIsInvalidRequest(t *testing.T) {
	dir := t.TempDir()
	readOnly := filepath.Join(dir, "read-only")
	if err := os.WriteFile(readOnly, nil, 0o444); err != nil {
		t.Fatal(err)
	}
	closed := filepath.Join(dir, "closed")
	if err := os.Mkdir(closed, 0o555); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{readOnly, filepath.Join(closed, "out")} {
		err := asNobody(func() error { return NewFile(path).Check(t.Context()) })
		if !stderrors.Is(err, errors.InvalidRequest) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// asNobody calls f without root's rights over files. They belong to a thread,
// which is f's alone and ends with it.
func asNobody(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if os.Geteuid() == 0 {
			if err := syscall.Setfsuid(65534); err != nil {
				done <- err
				return
			}
		}
		done <- f()
	}()
	return <-done
}
