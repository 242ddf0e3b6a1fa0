package cli

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/NVIDIA/aicr/pkg/errors"
)

const completionLong = `Write a script that makes a shell complete aicr's commands and flags.

  bash        source <(aicr completion bash)
  zsh         source <(aicr completion zsh)
  fish        aicr completion fish | source
  powershell  aicr completion powershell | Out-String | Invoke-Expression`

func (a *app) newCompletion() *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:       "completion SHELL",
		Short:     "Write a completion script for a shell",
		Long:      completionLong,
		ValidArgs: shells,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 && slices.Contains(shells, args[0]) {
				return nil
			}
			return errors.New(errors.InvalidRequest, "aicr completion takes one argument, the shell").
				WithAdvice("name one of %s", strings.Join(shells, ", "))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return writeCompletion(cmd.Root(), args[0], a.streams.Out)
		},
	}
}

func writeCompletion(root *cobra.Command, shell string, w io.Writer) error {
	switch shell {
	case "bash":
		return root.GenBashCompletionV2(w, true)
	case "zsh":
		return root.GenZshCompletion(w)
	case "fish":
		return root.GenFishCompletion(w, true)
	default:
		return root.GenPowerShellCompletionWithDesc(w)
	}
}
