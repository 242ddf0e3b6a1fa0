package devcluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// cgroupRoots gives the folders in which a group is to be made: that of each
// controller (version 1), or the one of all (version 2).
func cgroupRoots() ([]string, error) {
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("look for cgroups: %w", err)
	}
	defer mounts.Close()
	var v1, v2 []string
	lines := bufio.NewScanner(mounts)
	for lines.Scan() {
		// Fields: ID, parent, device, root, mount point, options ..., "-", type.
		before, after, _ := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(before)
		if len(fields) < 5 {
			continue
		}
		switch kind, _, _ := strings.Cut(after, " "); kind {
		case "cgroup":
			v1 = append(v1, fields[4])
		case "cgroup2":
			v2 = append(v2, fields[4])
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("look for cgroups: %w", err)
	}
	if len(v1) > 0 {
		// A version 2 tree beside them is used by runtimes as a twelfth
		// hierarchy, so what they left there goes as well.
		return append(v1, v2...), nil
	}
	if len(v2) == 0 {
		return nil, fmt.Errorf("look for cgroups: %w: none are mounted", ErrUnsupported)
	}
	return v2, nil
}

// makeCgroup makes a group for a node, after it has taken away what a killed
// owner may have left below that name.
func makeCgroup(ctx context.Context, name string) error {
	if err := removeCgroup(ctx, name); err != nil {
		return err
	}
	roots, err := cgroupRoots()
	if err != nil {
		return err
	}
	for _, root := range roots {
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil {
			return fmt.Errorf("make the node's cgroup: %w", err)
		}
		if err := enableControllers(root, name); err != nil {
			return err
		}
	}
	return nil
}

// enableControllers makes the controllers of a version 2 tree usable in the
// group. In version 1 there is nothing to do.
func enableControllers(root, name string) error {
	text, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the cgroup controllers: %w", err)
	}
	for _, controller := range strings.Fields(string(text)) {
		for _, group := range []string{root, filepath.Join(root, name)} {
			path := filepath.Join(group, "cgroup.subtree_control")
			if err := os.WriteFile(path, []byte("+"+controller), 0); err != nil {
				return fmt.Errorf("enable the cgroup controller %s: %w", controller, err)
			}
		}
	}
	return nil
}

// removeCgroup removes the group and all below it. The kernel lets go of a
// group a moment after its last process is gone, so this retries.
func removeCgroup(ctx context.Context, name string) error {
	roots, err := cgroupRoots()
	if err != nil {
		return err
	}
	return waitFor(ctx, "the node's cgroups to be removed", nil, func(context.Context) error {
		var errs []error
		for _, root := range roots {
			errs = append(errs, removeTree(filepath.Join(root, name)))
		}
		return errors.Join(errs...)
	})
}

// removeTree removes a group's folders from the innermost outwards. Their
// files are the kernel's and go with them.
func removeTree(top string) error {
	var dirs []string
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err == nil && entry.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, dir := range slices.Backward(dirs) {
		if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}
