package host

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
)

// maxLinks is how many symbolic links a path may pass, as in path_resolution(7).
const maxLinks = 40

// Root reads below a view's root. No path and no symbolic link leads out of
// it: an absolute link means what it means on the host. Names are relative to
// the root and separated by slashes. It may be used by several goroutines.
type Root struct{ root *os.Root }

// Open opens the view's root; the caller closes it.
func (v View) Open() (*Root, error) {
	r, err := os.OpenRoot(v.Root)
	if err != nil {
		return nil, fmt.Errorf("open the host's root: %w", err)
	}
	return &Root{r}, nil
}

// Close releases the root.
func (r *Root) Close() error { return r.root.Close() }

// ReadFile returns a regular file's content. A file of more than limit bytes
// is an error.
func (r *Root) ReadFile(name string, limit int64) ([]byte, error) {
	b, err := r.ReadHead(name, limit+1)
	if err == nil && int64(len(b)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, limit)
	}
	return b, err
}

// ReadHead returns the first limit bytes of a regular file, or all of a
// smaller one.
func (r *Root) ReadHead(name string, limit int64) ([]byte, error) {
	f, err := within(r, name, func(p string) (*os.File, error) {
		// A FIFO without a writer must not block.
		return r.root.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	})
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if fi, err := f.Stat(); err != nil {
		return nil, err
	} else if !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", name)
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

// ReadString returns a small file's content without the newline at its end.
func (r *Root) ReadString(name string) (string, error) {
	b, err := r.ReadFile(name, 1<<20)
	return strings.TrimSuffix(string(b), "\n"), err
}

// ReadDir returns a folder's entries, sorted by name.
func (r *Root) ReadDir(name string) ([]fs.DirEntry, error) {
	d, err := within(r, name, r.root.Open)
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }()
	entries, err := d.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

// Sub opens a folder as a root of its own; the caller closes it.
func (r *Root) Sub(name string) (*Root, error) {
	sub, err := within(r, name, r.root.OpenRoot)
	if err != nil {
		return nil, err
	}
	return &Root{sub}, nil
}

// Stat describes what name leads to.
func (r *Root) Stat(name string) (fs.FileInfo, error) { return within(r, name, r.root.Stat) }

// LinkName returns the last element of a symbolic link's target, which is how
// sysfs names a device's driver, bus and group.
func (r *Root) LinkName(name string) (string, error) {
	target, err := r.root.Readlink(path.Clean(name))
	return path.Base(target), err
}

// Reason returns what went wrong in err without the operation and the path,
// for where a key tells them.
func Reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

// within runs op on name. [os.Root] follows the links that it can, at little
// cost; it refuses absolute ones and such as climb above the root, and only
// then the path is resolved here. It guards that path all the same.
func within[T any](r *Root, name string, op func(string) (T, error)) (T, error) {
	v, err := op(cmp.Or(path.Clean("/" + name)[1:], "."))
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return v, err
	}
	p, err := r.resolve(name)
	if err != nil {
		return v, err
	}
	return op(p)
}

// resolve follows the symbolic links in name as a process with that root
// would, and returns a path without any.
func (r *Root) resolve(name string) (string, error) {
	todo := strings.Split(name, "/")
	done := "."
	for links := 0; len(todo) > 0; {
		elem := todo[0]
		todo = todo[1:]
		switch elem {
		case "", ".":
			continue
		case "..":
			done = path.Dir(done)
			continue
		}
		next := path.Join(done, elem)
		fi, err := r.root.Lstat(next)
		if err != nil {
			return "", err
		}
		if fi.Mode()&fs.ModeSymlink == 0 {
			done = next
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("%s: too many symbolic links", name)
		}
		target, err := r.root.Readlink(next)
		if err != nil {
			return "", err
		}
		if path.IsAbs(target) {
			done = "."
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	return done, nil
}
