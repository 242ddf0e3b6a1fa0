package devtest

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/NVIDIA/aicr/internal/devcluster"
	"github.com/NVIDIA/aicr/internal/devcluster/agentimage"
	"github.com/NVIDIA/aicr/internal/devcluster/assets"
)

// buildLimit bounds building the agent's image on a machine with a cold cache.
const buildLimit = 10 * time.Minute

// Node gives the package's node, with the agent's image loaded. It belongs to
// all tests: none may stop it.
func Node(t testing.TB) *devcluster.Node {
	t.Helper()
	cluster := Cluster(t)
	if cluster.Attached() {
		t.Skipf("needs a node of its own, and %s names another cluster", EnvKubeconfig)
	}
	if err := devcluster.CheckNode(); err != nil {
		giveUp(t, EnvRequireNode, err) // before the image takes its time
	}
	f := mustShared(t)
	if _, err := f.image.get(f.buildImage); err != nil {
		giveUp(t, EnvRequireNode, err)
	}
	node, err := f.node.get(func() (*devcluster.Node, error) { return f.startNode(cluster) })
	if err != nil {
		giveUp(t, EnvRequireNode, err)
	}
	return node
}

// Image gives the reference of the agent's image that is loaded on the node;
// on another cluster, the one that AICR_TEST_IMAGE names.
func Image(t testing.TB) string {
	t.Helper()
	if Cluster(t).Attached() {
		ref := os.Getenv(EnvImage)
		if ref == "" {
			t.Skipf("needs an image of the agent: name one in %s", EnvImage)
		}
		return ref
	}
	Node(t)
	return mustShared(t).image.value.Ref
}

// Binary gives the path of the aicr program that the image holds, built from
// the sources of this repository. It needs no node.
func Binary(t testing.TB) string {
	t.Helper()
	f := mustShared(t)
	image, err := f.image.get(f.buildImage)
	if err != nil {
		giveUp(t, EnvRequireCluster, err)
	}
	return image.Binary
}

// buildImage builds the agent's image into a folder that Main removes.
func (f *fixture) buildImage() (agentimage.Image, error) {
	set, err := assets.Find()
	if err != nil {
		return agentimage.Image{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), buildLimit)
	defer cancel()
	dir, err := os.MkdirTemp("", "aicr-image-")
	if err != nil {
		return agentimage.Image{}, fmt.Errorf("make a folder for the image: %w", err)
	}
	f.imageDir = dir
	return agentimage.Build(ctx, set, dir, "")
}

func (f *fixture) startNode(cluster *devcluster.Cluster) (*devcluster.Node, error) {
	ctx, cancel := context.WithTimeout(context.Background(), buildLimit)
	defer cancel()
	node, err := cluster.StartNode(ctx, devcluster.NodeOptions{})
	if err != nil {
		return nil, err
	}
	return node, node.LoadImage(ctx, f.image.value.Archive)
}
