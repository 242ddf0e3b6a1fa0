package assets

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// PauseRef is the reference of the pause image on a node.
const PauseRef = "aicr.local/pause:1"

// packer is the name of the program that packs images; see tools/image.
const packer = "image"

// Build gives the Set for the sources below root, building it first where it
// is not in the cache yet: about eleven minutes on two cores the first time,
// half a minute once Go has compiled the packages. It can run at once in
// several processes; the first to finish wins. Progress goes to log.
func Build(ctx context.Context, root string, log io.Writer) (Set, error) {
	dir, err := Dir(root)
	if err != nil {
		return Set{}, err
	}
	set := Set{Dir: dir}
	if _, err := os.Stat(dir); err == nil {
		return set, nil
	}
	version, err := Version(root)
	if err != nil {
		return Set{}, err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return Set{}, fmt.Errorf("make the cache folder: %w", err)
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), "build-")
	if err != nil {
		return Set{}, fmt.Errorf("make a folder to build in: %w", err)
	}
	defer os.RemoveAll(work)
	fmt.Fprintf(log, "building Kubernetes %s into %s: the first time takes about 11 minutes on two cores\n", version, dir)
	begin := time.Now()
	if err := buildInto(ctx, root, work, version); err != nil {
		return Set{}, err
	}
	if err := publish(work, dir); err != nil {
		return Set{}, err
	}
	fmt.Fprintf(log, "built Kubernetes %s in %s\n", version, time.Since(begin).Round(time.Second))
	return set, nil
}

func buildInto(ctx context.Context, root, work, version string) error {
	b := builder{tools: filepath.Join(root, "tools"), out: work}
	kube := filepath.Join(work, exe("kube"))
	if err := b.compile(ctx, "./kube", kube, versionFlags(version)); err != nil {
		return err
	}
	for _, name := range Programs() {
		if err := os.Symlink(filepath.Base(kube), filepath.Join(work, exe(name))); err != nil {
			return fmt.Errorf("link %s: %w", name, err)
		}
	}
	if err := b.compile(ctx, "./image", filepath.Join(work, exe(packer)), ""); err != nil {
		return err
	}
	return b.packPause(ctx)
}

// packPause makes the pause image: a registry is nothing that tests can have.
func (b builder) packPause(ctx context.Context) error {
	program := filepath.Join(b.out, exe("pause"))
	if err := b.compile(ctx, "./pause", program, ""); err != nil {
		return err
	}
	platform := runtime.GOOS + "/" + runtime.GOARCH
	return run(exec.CommandContext(ctx, filepath.Join(b.out, exe(packer)),
		"-name=pause", "-binary="+platform+"="+program, "-ref="+PauseRef,
		"-archive="+filepath.Join(b.out, "pause.tar"), "-platform="+platform))
}

// builder compiles programs of the nested module.
type builder struct {
	tools string // the module's folder
	out   string
}

func (b builder) compile(ctx context.Context, pkg, out, ldflags string) error {
	// No more than two compilers at once: packages of Kubernetes take up to
	// 2.4 GB of memory each to compile.
	cmd := exec.CommandContext(ctx, "go", "build", "-p", "2", "-trimpath",
		"-ldflags", strings.TrimSpace("-s -w "+ldflags), "-o", out, pkg)
	cmd.Dir = b.tools
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	return run(cmd)
}

// versionFlags stamps the version that the programs report; without it they
// say v0.0.0, which clients take for a server older than any.
func versionFlags(version string) string {
	major, minor := "", ""
	if parts := strings.Split(strings.TrimPrefix(version, "v"), "."); len(parts) > 1 {
		major, minor = parts[0], parts[1]
	}
	var flags []string
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, kv := range []string{
			"gitVersion=" + version, "gitMajor=" + major, "gitMinor=" + minor, "gitTreeState=clean",
		} {
			flags = append(flags, "-X "+pkg+"."+kv)
		}
	}
	return strings.Join(flags, " ")
}

// publish gives the built folder its final name, in one step. Another build
// of the same sources that came first is as good.
func publish(work, dir string) error {
	if err := os.Chmod(work, 0o755); err != nil {
		return fmt.Errorf("publish the build: %w", err)
	}
	err := os.Rename(work, dir)
	if err != nil && !isDir(dir) {
		return fmt.Errorf("publish the build: %w", err)
	}
	return nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func exe(name string) string {
	if runtime.GOOS == "windows" {
		return name + ".exe"
	}
	return name
}

// run runs a command whose output matters only when it fails.
func run(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
}
