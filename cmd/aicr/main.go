// Command aicr captures the state of GPU nodes.
package main

import (
	"context"
	"os"

	"github.com/NVIDIA/aicr/internal/cli"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args[1:], cli.Streams{Out: os.Stdout, Err: os.Stderr}, os.LookupEnv))
}
