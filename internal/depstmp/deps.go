// Package depstmp holds dependencies until what needs them has landed.
package depstmp

import (
	_ "github.com/NVIDIA/go-nvlib/pkg/nvpci"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/prometheus/procfs"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/spf13/cobra"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/term"
	_ "k8s.io/cli-runtime/pkg/genericclioptions"
	_ "k8s.io/client-go/kubernetes/fake"
	_ "k8s.io/client-go/tools/watch"
	_ "sigs.k8s.io/yaml"
)
