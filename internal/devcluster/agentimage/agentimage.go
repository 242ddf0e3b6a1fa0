// Package agentimage builds the agent's image from the sources of this
// repository, for nodes of a development cluster.
package agentimage

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/NVIDIA/aicr/internal/devcluster/assets"
)

// Repository is where the image claims to come from. No such registry exists,
// so a node that lacks the image fails at once instead of pulling another.
const Repository = "aicr.local/aicr"

// caFiles are the places of CA certificates on a developer's machine.
var caFiles = [...]string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"}

// Image is an image in a file.
type Image struct {
	// Ref is what pods call it.
	Ref string
	// Archive is the docker archive's path.
	Archive string
	// Binary is the path of the program that is in it.
	Binary string
}

// Build compiles cmd/aicr of the repository that the working folder lies in,
// as version (empty: the sources' own default), and packs it for the machine's
// kind of processor into dir. The files are the caller's.
func Build(ctx context.Context, set assets.Set, dir, version string) (Image, error) {
	root, err := assets.Root()
	if err != nil {
		return Image{}, err
	}
	packer, ok := set.Packer()
	if !ok {
		return Image{}, fmt.Errorf("build the agent's image: %w", assets.ErrMissing)
	}
	tag := version
	if tag == "" {
		tag = "dev"
	}
	image := Image{
		Ref:     Repository + ":" + tag,
		Archive: filepath.Join(dir, "aicr.tar"),
		Binary:  filepath.Join(dir, "aicr"),
	}
	ldflags := "-s -w -X github.com/NVIDIA/aicr/internal/cli.defaultImage=" + image.Ref
	if version != "" {
		ldflags += " -X github.com/NVIDIA/aicr/internal/cli.version=" + version
	}
	compile := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", ldflags, "-o", image.Binary, "./cmd/aicr")
	compile.Dir = root
	compile.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if err := run(compile); err != nil {
		return Image{}, fmt.Errorf("build the agent: %w", err)
	}
	platform := "linux/" + runtime.GOARCH
	args := []string{
		"-name=aicr", "-binary=" + platform + "=" + image.Binary, "-ref=" + image.Ref, "-version=" + tag,
		"-archive=" + image.Archive, "-platform=" + platform,
	}
	for _, file := range caFiles {
		if _, err := os.Stat(file); err == nil {
			args = append(args, "-ca="+file)
			break
		}
	}
	if err := run(exec.CommandContext(ctx, packer, args...)); err != nil {
		return Image{}, fmt.Errorf("pack the agent's image: %w", err)
	}
	return image, nil
}

func run(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, strings.TrimSpace(string(out)))
	}
	return nil
}
