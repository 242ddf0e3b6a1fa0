// Package assets finds and builds the programs that a development cluster
// runs: etcd, the Kubernetes components and kubectl, one file with a link for
// each, and the pause image and image packer that a node needs.
//
// They are built once from the nested module tools/ into the user's cache
// folder, below a name made of the Kubernetes version and a hash of those
// sources, so that every clone of the same sources shares one build.
package assets

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

// EnvDir names the variable with a folder of programs to use instead of those
// built here. It is the one that Kubernetes' own test tools read.
const EnvDir = "KUBEBUILDER_ASSETS"

// ErrMissing is what Find's error wraps when nothing was built yet.
var ErrMissing = errors.New("no Kubernetes programs for these sources: run make kube (or set " + EnvDir + ")")

// modulePath is how the repository's root is known: by its go.mod's module.
const modulePath = "github.com/NVIDIA/aicr"

// Set is a folder of programs, links to programs, and images. It belongs to
// the user's cache and is shared: nothing may write into it.
type Set struct {
	// Dir holds one file a program, named after it.
	Dir string
}

// Programs lists the names that a complete Set has.
func Programs() []string {
	return []string{
		"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler",
		"kubelet", "kube-proxy", "kubectl",
	}
}

// Program gives the path of the program of that name, and whether it is there.
func (s Set) Program(name string) (string, bool) {
	path := filepath.Join(s.Dir, name)
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	info, err := os.Stat(path)
	return path, err == nil && info.Mode().IsRegular()
}

// PauseImage gives the path of the tarball with the image that holds a pod's
// namespaces open, and whether it is there.
func (s Set) PauseImage() (string, bool) {
	path := filepath.Join(s.Dir, "pause.tar")
	_, err := os.Stat(path)
	return path, err == nil
}

// Packer gives the path of the program that packs images (see tools/image),
// and whether it is there.
func (s Set) Packer() (string, bool) { return s.Program(packer) }

// Find gives the Set to use: KUBEBUILDER_ASSETS where set, else the one built
// for the sources of the repository that the working folder lies in.
func Find() (Set, error) {
	if dir := os.Getenv(EnvDir); dir != "" {
		set := Set{Dir: dir}
		for _, name := range []string{"etcd", "kube-apiserver"} {
			if _, ok := set.Program(name); !ok {
				return Set{}, fmt.Errorf("%s=%s has no %s", EnvDir, dir, name)
			}
		}
		return set, nil
	}
	root, err := Root()
	if err != nil {
		return Set{}, err
	}
	dir, err := Dir(root)
	if err != nil {
		return Set{}, err
	}
	if _, err := os.Stat(dir); err != nil {
		return Set{}, fmt.Errorf("%w: looked in %s", ErrMissing, dir)
	}
	return Set{Dir: dir}, nil
}

// Root gives the repository's root: the nearest folder, from the working
// folder upwards, whose go.mod is of this module.
func Root() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the repository's root: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module "+modulePath+"\n") {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("find the repository's root: no go.mod of %s in %s or above", modulePath, start)
		}
	}
}

// Dir gives the cache folder for the sources below root, built or not.
func Dir(root string) (string, error) {
	version, err := Version(root)
	if err != nil {
		return "", err
	}
	sum, err := hashSources(filepath.Join(root, "tools"))
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the user's cache folder: %w", err)
	}
	return filepath.Join(cache, "aicr", "kube-"+version+"-"+sum[:16]), nil
}

var requireLine = regexp.MustCompile(`(?m)^\s*(?:require\s+)?k8s\.io/kubernetes (v\S+)`)

// Version gives the Kubernetes version that tools/go.mod requires: the one
// place where it is written.
func Version(root string) (string, error) {
	path := filepath.Join(root, "tools", "go.mod")
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the Kubernetes version: %w", err)
	}
	match := requireLine.FindSubmatch(text)
	if match == nil {
		return "", fmt.Errorf("read the Kubernetes version: %s does not require k8s.io/kubernetes", path)
	}
	return string(match[1]), nil
}

// hashSources hashes what decides the build below the module tools: its
// go.mod and go.sum and all Go files but tests. Nested modules are left out.
func hashSources(dir string) (string, error) {
	hash := sha256.New()
	fmt.Fprintf(hash, "%s/%s\n", runtime.GOOS, runtime.GOARCH)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			_, statErr := os.Stat(filepath.Join(path, "go.mod"))
			if path != dir && statErr == nil {
				return fs.SkipDir
			}
			return nil
		}
		source := strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
		if !source && name != "go.mod" && name != "go.sum" {
			return nil
		}
		return hashFile(hash, dir, path)
	})
	if err != nil {
		return "", fmt.Errorf("hash the sources in %s: %w", dir, err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

func hashFile(hash io.Writer, dir, path string) error {
	rel, err := filepath.Rel(dir, path)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	// A length before each part, so that no two trees give the same stream.
	fmt.Fprintf(hash, "%s\n%d\n", filepath.ToSlash(rel), len(text))
	_, err = hash.Write(text)
	return err
}
