// Package cli is the command line of aicr: one file a command, each with an
// Options struct that is completed, validated and run. Commands hold no logic
// of their own; they turn flags into calls of the packages below.
//
// The result of a command goes to standard output, all else to standard error.
// What can be found wrong without a cluster is found before a request is sent.
package cli

import (
	"context"
	"io"
	"log/slog"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/NVIDIA/aicr/internal/ui"
)

// Streams are where a command writes.
type Streams struct {
	// Out takes the result.
	Out io.Writer
	// Err takes everything else.
	Err io.Writer
}

// LookupEnv reads a variable of the environment, as os.LookupEnv does.
type LookupEnv func(key string) (string, bool)

// app is what the commands of one invocation share.
type app struct {
	streams Streams
	env     LookupEnv
	deps    deps

	debug, logJSON bool
	ui             *ui.UI
	// started tells that the arguments were read without fault, so that an
	// error from here on is no usage error.
	started bool
}

// Main runs the command that args name (without the program's name) and
// returns the exit status: that of errors.ExitCode, or 128 and the signal's
// number where SIGINT or SIGTERM ended the run. It takes these two signals over
// for as long as it runs.
func Main(ctx context.Context, args []string, streams Streams, env LookupEnv) int {
	return (&app{streams: streams, env: env, deps: realDeps()}).main(ctx, args)
}

func (a *app) main(ctx context.Context, args []string) int {
	a.ui = ui.New(a.streams.Err, ui.Options{})
	ctx, stop := a.untilSignal(ctx)
	defer stop()
	root := a.newRoot() //nolint:contextcheck // cobra hands ctx on to the command
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil && !a.started {
		err = usageError(err)
	}
	return a.exit(ctx, err)
}

func (a *app) newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "aicr",
		Short: "Capture the state of GPU nodes",
		Long: "aicr captures the state of a GPU node: operating system, Kubernetes, GPUs and drivers.\n" +
			"It deploys an agent onto a node of a cluster, or looks at the machine that it runs on.",
		SilenceErrors: true, // a.exit tells them
		SilenceUsage:  true,
		// Suggestions are part of the advice.
		DisableSuggestions: true,
		Args:               noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := bindEnv(cmd.Flags(), a.env); err != nil {
				return err
			}
			a.started = true
			a.startUI()
			return nil
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetOut(a.streams.Out)
	root.SetErr(a.streams.Err)
	root.SetUsageFunc(usage)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return flagError(cmd, err) })

	flags := root.PersistentFlags()
	flags.BoolVar(&a.debug, "debug", false, "tell more on standard error, the agent's log included")
	flags.BoolVar(&a.logJSON, "log-json", false, "write JSON lines on standard error")
	takeFromEnv(flags)

	root.AddCommand(a.newSnapshot(), a.newVersion(), a.newCompletion())
	return root
}

// startUI replaces the plain UI by the one that the flags ask for.
func (a *app) startUI() {
	prefix, _ := a.env("AICR_LOG_PREFIX")
	a.ui = ui.New(a.streams.Err, ui.Options{JSON: a.logJSON, Debug: a.debug, Prefix: prefix})
	klog.SetSlogLogger(slog.New(fromClientGo{a.ui.Log.Handler()}))
}
