package cli

import (
	"context"
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
	for _, e := range parts(err) {
		a.tell(e)
	}
	if s, ok := context.Cause(ctx).(signalled); ok {
		return s.exitStatus()
	}
	return errors.ExitCode(err)
}

// tell writes one error: a line of what happened and a line of what to do.
func (a *app) tell(err error) {
	advice := errors.AdviceOf(err)
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

// parts returns the errors that were joined at the top of err.
func parts(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var out []error
	for _, e := range joined.Unwrap() {
		out = append(out, parts(e)...)
	}
	return out
}
