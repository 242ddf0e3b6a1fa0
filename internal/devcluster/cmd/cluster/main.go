// Command cluster keeps a development cluster running apart from the terminal:
//
//	cluster up DIR    # start one, with a node where that is possible
//	cluster down DIR  # end it and take away all that it made
//
// DIR is a folder for what both need to know, and for the kubeconfig.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	commands := map[string]func(context.Context, folder) error{
		"up":    up,
		"down":  down,
		"serve": serve, // what up starts in the background
	}
	if len(args) != 2 || commands[args[0]] == nil {
		return errors.New("usage: cluster up|down DIR")
	}
	dir, err := filepath.Abs(args[1])
	if err != nil {
		return fmt.Errorf("find %s: %w", args[1], err)
	}
	return commands[args[0]](ctx, folder(dir))
}
