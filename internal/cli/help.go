package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is where lines of help wrap.
const helpWidth = 100

// Annotations sort flags into the sections of the help.
const (
	// podAnnotation marks a flag that is about the agent's pod.
	podAnnotation = "aicr_pod"
	// clusterAnnotation marks a flag that says which cluster and as whom.
	clusterAnnotation = "aicr_cluster"
)

// annotate marks every flag of the set.
func annotate(flags *pflag.FlagSet, key string) {
	flags.VisitAll(func(f *pflag.Flag) {
		_ = flags.SetAnnotation(f.Name, key, nil) // the flag exists: no error
	})
}

// usage writes what follows a command's description in its help. cobra's own is
// a text/template, which keeps the linker from dropping unused methods: the
// binary would be twice as large.
func usage(cmd *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if cmd.Runnable() && cmd.HasParent() {
		fmt.Fprintf(&b, "  %s\n", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s COMMAND [flags]\n\nCommands:\n", cmd.CommandPath())
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				fmt.Fprintf(&b, "  %-*s %s\n", cmd.NamePadding(), c.Name(), c.Short)
			}
		}
	}
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	local := cmd.LocalNonPersistentFlags()
	section(&b, "Flags", local, func(f *pflag.Flag) bool {
		return !annotated(f, podAnnotation) && !annotated(f, clusterAnnotation)
	})
	section(&b, "Flags for the agent's pod (not with --local)", local, func(f *pflag.Flag) bool {
		return annotated(f, podAnnotation)
	})
	section(&b, "Flags for the cluster, as kubectl has them", local, func(f *pflag.Flag) bool {
		return annotated(f, clusterAnnotation)
	})
	global := pflag.NewFlagSet("", pflag.ContinueOnError)
	global.AddFlagSet(cmd.PersistentFlags())
	global.AddFlagSet(cmd.InheritedFlags())
	section(&b, "Flags of every command", global, func(*pflag.Flag) bool { return true })
	_, err := fmt.Fprint(cmd.OutOrStdout(), b.String())
	return err
}

// section writes those of the flags that belong there, if there are any.
func section(b *strings.Builder, title string, flags *pflag.FlagSet, belongs func(*pflag.Flag) bool) {
	part := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.VisitAll(func(f *pflag.Flag) {
		if belongs(f) {
			part.AddFlag(f)
		}
	})
	if part.HasAvailableFlags() {
		fmt.Fprintf(b, "\n%s:\n%s", title, part.FlagUsagesWrapped(helpWidth))
	}
}

func annotated(f *pflag.Flag, key string) bool {
	_, ok := f.Annotations[key]
	return ok
}
