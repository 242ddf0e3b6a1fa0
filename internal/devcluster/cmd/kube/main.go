// Command kube builds the Kubernetes programs of a development cluster where
// they are not built yet, and prints the folder that they are in.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/NVIDIA/aicr/internal/devcluster/assets"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "kube:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	root, err := assets.Root()
	if err != nil {
		return err
	}
	set, err := assets.Build(ctx, root, os.Stderr)
	if err != nil {
		return err
	}
	fmt.Println(set.Dir)
	return nil
}
