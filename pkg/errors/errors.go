// Package errors gives failures a code that a caller can branch on and that
// the CLI turns into its exit status.
//
// A [Code] is itself an error, so that errors.Is(err, errors.NotFound) holds
// for every error of that code in a chain; errors.As finds the *[Error] with
// its advice. The package does not replace the standard library's errors
// package, which callers go on using for Is, As and Join.
package errors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
)

// Code classifies a failure. Its text is stable and may be logged or compared.
type Code string

// The codes, and when each is used.
const (
	// InvalidRequest: the input is wrong; the same call fails again.
	InvalidRequest Code = "INVALID_REQUEST"
	// NotFound: a named thing does not exist.
	NotFound Code = "NOT_FOUND"
	// Unauthorized: the caller lacks a credential or a permission.
	Unauthorized Code = "UNAUTHORIZED"
	// Conflict: something of that name exists already and is left as it is.
	Conflict Code = "CONFLICT"
	// Timeout: the time allowed ran out.
	Timeout Code = "TIMEOUT"
	// Unavailable: a service could not be reached or refused to serve now.
	Unavailable Code = "SERVICE_UNAVAILABLE"
	// Internal: a failure that is none of the others.
	Internal Code = "INTERNAL"
)

// Error returns the code's text, which makes a Code a target for errors.Is.
func (c Code) Error() string { return string(c) }

// Error is a failure with its code, what happened, and what to do about it.
// It is immutable once returned.
type Error struct {
	// Code classifies the failure.
	Code Code
	// Message tells what was attempted on which object.
	Message string
	// Advice tells a person what to do, in one line; it may be empty.
	Advice string
	// Err is the cause, or nil.
	Err error
}

// Error returns the message, followed by the cause.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Message
	}
	if e.Message == "" {
		return e.Err.Error()
	}
	return e.Message + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is this error's code.
func (e *Error) Is(target error) bool {
	c, ok := target.(Code)
	return ok && c == e.Code
}

// New returns an error of that code.
func New(c Code, format string, args ...any) *Error {
	return &Error{Code: c, Message: fmt.Sprintf(format, args...)}
}

// Wrap returns an error of that code with err as its cause.
func Wrap(c Code, err error, format string, args ...any) *Error {
	return &Error{Code: c, Message: fmt.Sprintf(format, args...), Err: err}
}

// WithAdvice returns a copy of e that tells what to do.
func (e *Error) WithAdvice(format string, args ...any) *Error {
	c := *e
	c.Advice = fmt.Sprintf(format, args...)
	return &c
}

// CodeOf returns the code of the first coded error in err's tree. An expired
// context is Timeout; any other error without a code is Internal; nil is "".
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var e *Error
	var c Code
	switch {
	case errors.As(err, &e):
		return e.Code
	case errors.As(err, &c):
		return c
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	}
	return Internal
}

// AdviceOf returns the first advice in err's tree, joined errors included, or
// "".
func AdviceOf(err error) string {
	switch u := err.(type) { //nolint:errorlint // the tree is walked here, node by node
	case *Error:
		return cmp.Or(u.Advice, AdviceOf(u.Err))
	case interface{ Unwrap() error }:
		return AdviceOf(u.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range u.Unwrap() {
			if a := AdviceOf(err); a != "" {
				return a
			}
		}
	}
	return ""
}

// Parts returns the errors that were joined at the top of err, joins of joins
// included: err itself where it is no join, and none for nil.
func Parts(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var out []error
	for _, e := range joined.Unwrap() {
		out = append(out, Parts(e)...)
	}
	return out
}

// ExitCode returns the process exit status for err: 0 for nil, 1 for an error
// that carries no code, and one value for each code.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	var e *Error
	var c Code
	if !errors.As(err, &e) && !errors.As(err, &c) && !errors.Is(err, context.DeadlineExceeded) {
		return 1
	}
	switch CodeOf(err) {
	case InvalidRequest, Conflict:
		return 2
	case NotFound:
		return 3
	case Unauthorized:
		return 4
	case Timeout:
		return 5
	case Unavailable:
		return 6
	case Internal:
		return 8
	}
	return 1
}
