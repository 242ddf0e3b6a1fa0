package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/NVIDIA/aicr/internal/devcluster"
	"github.com/NVIDIA/aicr/internal/devcluster/agentimage"
	"github.com/NVIDIA/aicr/internal/devcluster/assets"
)

// serve owns the cluster from its start until it is told to end.
func serve(ctx context.Context, f folder) error {
	lock, err := f.lock()
	if err != nil {
		return err
	}
	if lock == nil {
		return errors.New("another process serves a cluster here")
	}
	defer lock.Close()
	data, err := os.MkdirTemp("", "aicr-up-")
	if err != nil {
		return fmt.Errorf("make the data folder: %w", err)
	}
	defer os.RemoveAll(data)
	// Written first, so that down knows what to take away after a crash.
	s := state{PID: os.Getpid(), Data: data}
	if err := f.write(s); err != nil {
		return err
	}
	defer os.Remove(f.state())
	cluster, err := devcluster.Start(ctx, devcluster.Options{Dir: data, Log: os.Stdout, Audit: true})
	if err != nil {
		return err
	}
	if err := addNode(ctx, cluster, &s); err != nil {
		return errors.Join(err, cluster.Stop())
	}
	s.Ready = true
	if err := errors.Join(copyFile(cluster.Kubeconfig(), f.kubeconfig()), f.write(s)); err != nil {
		return errors.Join(err, cluster.Stop())
	}
	<-ctx.Done()
	return errors.Join(cluster.Stop(), os.Remove(f.kubeconfig()))
}

// addNode adds a node with the agent's image. Where the machine cannot, or
// the agent does not build, the cluster goes without, and the state says why.
func addNode(ctx context.Context, cluster *devcluster.Cluster, s *state) error {
	if err := devcluster.CheckNode(); err != nil {
		s.Note = err.Error()
		return nil
	}
	node, err := cluster.StartNode(ctx, devcluster.NodeOptions{})
	if err != nil {
		return err
	}
	s.Node = node.Name()
	set, err := assets.Find()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "aicr-image-")
	if err != nil {
		return fmt.Errorf("make a folder for the image: %w", err)
	}
	defer os.RemoveAll(dir)
	fmt.Println("building the agent's image")
	image, err := agentimage.Build(ctx, set, dir, os.Getenv("AICR_BUILD_VERSION"))
	if err != nil {
		s.Note = err.Error()
		return nil
	}
	s.Image = image.Ref
	return node.LoadImage(ctx, image.Archive)
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("copy the kubeconfig: %w", err)
	}
	if err := os.WriteFile(to, text, 0o600); err != nil {
		return fmt.Errorf("copy the kubeconfig: %w", err)
	}
	return nil
}
