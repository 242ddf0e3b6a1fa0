// Command demo shows a whole run: it brings up a real cluster with a node on
// this machine, takes a snapshot of it with a real pod, shows the snapshot and
// the cluster's objects before, during and after, and takes everything down.
// Where the machine cannot run a node it shows a local snapshot instead.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/NVIDIA/aicr/internal/devcluster"
	"github.com/NVIDIA/aicr/internal/devcluster/agentimage"
	"github.com/NVIDIA/aicr/internal/devcluster/assets"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := (&demo{out: os.Stdout}).run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

type demo struct {
	out   io.Writer
	dir   string
	image agentimage.Image
}

// step tells what is done and how long it took.
func (d *demo) step(what string, do func() error) error {
	begin := time.Now()
	fmt.Fprintf(d.out, "== %s\n", what)
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	fmt.Fprintf(d.out, "== %s: %.1f s\n", what, time.Since(begin).Seconds())
	return nil
}

func (d *demo) run(ctx context.Context) (err error) {
	if d.dir, err = os.MkdirTemp("", "aicr-demo-"); err != nil {
		return err
	}
	defer os.RemoveAll(d.dir)
	err = d.step("build aicr and its image", func() error {
		set, err := assets.Find()
		if err != nil {
			return err
		}
		d.image, err = agentimage.Build(ctx, set, d.dir, os.Getenv("AICR_BUILD_VERSION"))
		return err
	})
	if err != nil {
		return err
	}
	if reason := devcluster.CheckNode(); reason != nil {
		fmt.Fprintf(d.out, "no node here (%v): a snapshot of this machine instead\n", reason)
		return d.local(ctx)
	}
	return d.cluster(ctx)
}

// local shows a snapshot of this machine, without a cluster.
func (d *demo) local(ctx context.Context) error {
	file := filepath.Join(d.dir, "snapshot.yaml")
	return d.step("aicr snapshot --local", func() error {
		if err := d.aicr(ctx, "snapshot", "--local", "-o", file); err != nil {
			return err
		}
		return show(d.out, file)
	})
}

// cluster shows a run on a cluster that is taken down afterwards, whatever
// happens.
func (d *demo) cluster(ctx context.Context) (err error) {
	var c *devcluster.Cluster
	err = d.step("start Kubernetes", func() (err error) {
		c, err = devcluster.Start(ctx, devcluster.Options{Log: d.out})
		return err
	})
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, d.step("take everything down", c.Stop))
	}()
	err = d.step("start a node and load the image", func() error {
		node, err := c.StartNode(ctx, devcluster.NodeOptions{})
		if err != nil {
			return err
		}
		return node.LoadImage(ctx, d.image.Archive)
	})
	if err != nil {
		return err
	}
	return d.snapshot(ctx, c)
}

// snapshot runs aicr as a user would, while a watcher notes what objects come
// and go.
func (d *demo) snapshot(ctx context.Context, c *devcluster.Cluster) error {
	watcher, err := newWatcher(ctx, c.Config())
	if err != nil {
		return err
	}
	file := filepath.Join(d.dir, "snapshot.yaml")
	err = d.step("aicr snapshot -n aicr-demo -o snapshot.yaml", func() error {
		return watcher.during(ctx, func() error {
			return d.aicr(ctx, "snapshot", "--kubeconfig", c.Kubeconfig(), "-n", "aicr-demo", "-o", file)
		})
	})
	if err != nil {
		return err
	}
	if err := show(d.out, file); err != nil {
		return err
	}
	return watcher.report(ctx, d.out)
}

func (d *demo) aicr(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, d.image.Binary, args...)
	cmd.Stdout, cmd.Stderr = d.out, d.out
	return cmd.Run()
}
