package cli

import (
	"context"
	stderrors "errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/NVIDIA/aicr/pkg/errors"
)

// usageError makes an InvalidRequest of an error that cobra found in the
// arguments.
func usageError(err error) error {
	if errors.AdviceOf(err) != "" {
		return err
	}
	// cobra puts suggestions on lines of their own.
	what, _, _ := strings.Cut(err.Error(), "\n")
	return errors.New(errors.InvalidRequest, "%s", what).WithAdvice("see aicr --help")
}

func flagError(cmd *cobra.Command, err error) error {
	return errors.New(errors.InvalidRequest, "%s", err.Error()).WithAdvice("see %s --help", cmd.CommandPath())
}

// noArgs refuses arguments, and guesses what a misspelled command was to be.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !cmd.HasSubCommands() {
		return errors.New(errors.InvalidRequest, "%s takes no argument, got %q", cmd.CommandPath(), args[0]).
			WithAdvice("see %s --help", cmd.CommandPath())
	}
	e := errors.New(errors.InvalidRequest, "unknown command %q", args[0])
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return e.WithAdvice("did you mean %s %s?", cmd.CommandPath(), near[0])
	}
	return e.WithAdvice("see %s --help", cmd.CommandPath())
}

// exit tells what went wrong, and what to do about it, and returns the exit
// status.
func (a *app) exit(ctx context.Context, err error) int {
	if err == nil {
		return 0
	}
	s, bySignal := signalIn(context.Cause(ctx))
	for _, e := range errors.Parts(err) {
		// What the signal cut off says no more than the signal.
		_, same := signalIn(e)
		if !bySignal || !same && !stderrors.Is(e, context.Canceled) {
			a.tell(e)
		}
	}
	if bySignal {
		a.tell(s)
		return s.exitStatus()
	}
	return errors.ExitCode(err)
}

// tell writes one error: a line of what happened and a line of what to do.
func (a *app) tell(err error) {
	advice := errors.AdviceOf(err)
	if _, bySignal := signalIn(err); advice == "" && !bySignal {
		advice = usualAdvice(errors.CodeOf(err))
	}
	if a.logJSON {
		a.ui.Log.Error(err.Error(), "code", errors.CodeOf(err), "advice", advice)
		return
	}
	prefix := ""
	if p, _ := a.env("AICR_LOG_PREFIX"); p != "" {
		prefix = p + ": "
	}
	// Further lines, such as the last ones of a log, are set off.
	text := prefix + "error: " + strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "\n  ") + "\n"
	if advice != "" {
		text += prefix + "  " + advice + "\n"
	}
	_, _ = fmt.Fprint(a.ui.Lines(), text)
}

// usualAdvice is what to do about an error that does not say so itself.
func usualAdvice(c errors.Code) string {
	switch c {
	case errors.Unavailable:
		return "check that the API server runs and can be reached from here: kubectl get --raw /readyz"
	case errors.Unauthorized:
		return "ask whoever runs the cluster for this permission, or use another --context"
	case errors.Timeout:
		return "allow more time with --timeout, or look for what holds the run up with --debug"
	case errors.Internal:
		return "look for more with --debug"
	}
	return ""
}
