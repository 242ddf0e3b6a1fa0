package serializer

import (
	"context"
	"crypto/rand"
	stderrors "errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/NVIDIA/aicr/pkg/errors"
)

// newFileMode is the mode of a new file, before the process' umask.
const newFileMode = 0o644

type file struct{ path string }

// NewFile returns the destination that writes the file at path, whole or not
// at all: the document goes into a new file in the same folder, to disk, and
// then to its name, so that a reader never sees half of it.
//
// An existing file keeps its mode and, where the process may set it, its
// owner. A symbolic link is followed and stays. What is no regular file, such
// as /dev/stdout or a named pipe, is written in place. A folder, a link to
// nothing, a missing folder and whatever may not be written are
// InvalidRequest, from Check as from Write.
func NewFile(path string) Destination { return file{path} }

func (f file) String() string { return f.path }

// Check creates and removes an empty file in the folder, and opens an existing
// file for writing: only that tells for certain. It does not touch the file.
func (f file) Check(context.Context) error {
	t, err := f.target()
	if err != nil || t.inPlace {
		return err
	}
	tmp, err := createBeside(t.path)
	if err != nil {
		return f.unwritable(err)
	}
	return stderrors.Join(tmp.Close(), os.Remove(tmp.Name()))
}

func (f file) Write(ctx context.Context, d Document) (err error) {
	t, err := f.target()
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if t.inPlace {
		return f.writeInPlace(d.Data)
	}
	tmp, err := createBeside(t.path)
	if err != nil {
		return f.unwritable(err)
	}
	defer func() {
		if err != nil {
			// What failed is told; a file that cannot be removed either
			// adds nothing to it.
			_ = tmp.Close()
			_ = os.Remove(tmp.Name())
		}
	}()
	if err := fill(tmp, d.Data, t.info); err != nil {
		return errors.Wrap(errors.Internal, err, "write %s", f.path)
	}
	if err := os.Rename(tmp.Name(), t.path); err != nil {
		return errors.Wrap(errors.Internal, err, "write %s", f.path)
	}
	syncFolder(filepath.Dir(t.path))
	return nil
}

// fill writes data to disk and takes over mode and owner of the file that is
// to be replaced, if there is one.
func fill(tmp *os.File, data []byte, old fs.FileInfo) error {
	if _, err := tmp.Write(data); err != nil {
		return err
	}
	if old != nil {
		keepOwner(tmp, old)
		if err := tmp.Chmod(old.Mode().Perm()); err != nil && !noModes {
			return err
		}
	}
	if err := tmp.Sync(); err != nil {
		return err
	}
	return tmp.Close()
}

// target is what a path leads to.
type target struct {
	path    string      // with links resolved
	info    fs.FileInfo // nil: there is no file yet
	inPlace bool        // no regular file: not to be replaced
}

// target resolves the path and refuses what cannot be written.
func (f file) target() (target, error) {
	info, err := os.Stat(f.path)
	switch {
	case stderrors.Is(err, fs.ErrNotExist):
		return f.newTarget()
	case err != nil:
		return target{}, f.unwritable(err)
	case info.IsDir():
		return target{}, errors.New(errors.InvalidRequest, "write %s: it is a folder", f.path).
			WithAdvice("name a file in it")
	case !info.Mode().IsRegular():
		return target{path: f.path, info: info, inPlace: true}, nil
	}
	// Opening for writing, without truncating, changes nothing.
	w, err := os.OpenFile(f.path, os.O_WRONLY, 0)
	if err != nil {
		return target{}, f.unwritable(err)
	}
	_ = w.Close()
	resolved, err := filepath.EvalSymlinks(f.path)
	if err != nil {
		return target{}, f.unwritable(err)
	}
	return target{path: resolved, info: info}, nil
}

func (f file) newTarget() (target, error) {
	if _, err := os.Lstat(f.path); err == nil {
		return target{}, errors.New(errors.InvalidRequest, "write %s: it is a link to a file that does not exist", f.path).
			WithAdvice("remove the link, or create what it leads to")
	}
	dir := filepath.Dir(f.path)
	if _, err := os.Stat(dir); err != nil {
		return target{}, errors.Wrap(errors.InvalidRequest, err, "write %s", f.path).
			WithAdvice("create the folder %s first", dir)
	}
	return target{path: f.path}, nil
}

func (f file) writeInPlace(data []byte) error {
	w, err := os.OpenFile(f.path, os.O_WRONLY, 0)
	if err != nil {
		return f.unwritable(err)
	}
	_, err = w.Write(data)
	if err := stderrors.Join(err, w.Close()); err != nil {
		return errors.Wrap(errors.Internal, err, "write %s", f.path)
	}
	return nil
}

func (f file) unwritable(err error) error {
	return errors.Wrap(errors.InvalidRequest, err, "write %s", f.path).
		WithAdvice("choose a file in a folder that you may write to, or -o - for standard output")
}

// createBeside makes a hidden file of its own beside path. os.CreateTemp would
// give it mode 0600 whatever the umask.
func createBeside(path string) (*os.File, error) {
	dir, name := filepath.Split(path)
	return os.OpenFile(filepath.Join(dir, "."+name+"."+rand.Text()+".tmp"), os.O_RDWR|os.O_CREATE|os.O_EXCL, newFileMode)
}
