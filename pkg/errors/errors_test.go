package errors_test

import (
	"context"
	stderrors "errors"
	"fmt"
	"slices"
	"testing"

	"github.com/NVIDIA/aicr/pkg/errors"
)

func TestC5_CodesAreFoundInTheWholeTreeAndSetTheExitStatus(t *testing.T) {
	cause := stderrors.New("cause")
	tests := map[string]struct {
		err  error
		code errors.Code
		exit int
	}{
		"nil":                 {nil, "", 0},
		"no code":             {cause, errors.Internal, 1},
		"cancelled":           {context.Canceled, errors.Internal, 1},
		"invalid request":     {errors.New(errors.InvalidRequest, "x"), "INVALID_REQUEST", 2},
		"conflict":            {errors.New(errors.Conflict, "x"), "CONFLICT", 2},
		"not found":           {errors.New(errors.NotFound, "x"), "NOT_FOUND", 3},
		"unauthorized":        {errors.New(errors.Unauthorized, "x"), "UNAUTHORIZED", 4},
		"timeout":             {errors.New(errors.Timeout, "x"), "TIMEOUT", 5},
		"expired context":     {fmt.Errorf("wait: %w", context.DeadlineExceeded), "TIMEOUT", 5},
		"unavailable":         {errors.New(errors.Unavailable, "x"), "SERVICE_UNAVAILABLE", 6},
		"internal":            {errors.New(errors.Internal, "x"), "INTERNAL", 8},
		"bare code":           {fmt.Errorf("x: %w", errors.NotFound), "NOT_FOUND", 3},
		"unknown code":        {errors.New("ODD", "x"), "ODD", 1},
		"wrapped":             {fmt.Errorf("x: %w", errors.New(errors.NotFound, "y")), "NOT_FOUND", 3},
		"joined":              {stderrors.Join(cause, errors.New(errors.Conflict, "y")), "CONFLICT", 2},
		"the outermost wins":  {errors.Wrap(errors.Internal, errors.New(errors.NotFound, "y"), "x"), "INTERNAL", 8},
		"the first join wins": {stderrors.Join(errors.New(errors.Timeout, "x"), errors.New(errors.NotFound, "y")), "TIMEOUT", 5},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := errors.CodeOf(tt.err); got != tt.code {
				t.Errorf("code %q, want %q", got, tt.code)
			}
			if got := errors.ExitCode(tt.err); got != tt.exit {
				t.Errorf("exit %d, want %d", got, tt.exit)
			}
		})
	}
}

func TestC5_CodesWorkWithIsAndAs(t *testing.T) {
	cause := stderrors.New("cause")
	err := fmt.Errorf("outer: %w", errors.Wrap(errors.NotFound, cause, "read %s", "x"))
	if !stderrors.Is(err, errors.NotFound) || !stderrors.Is(err, cause) {
		t.Errorf("%v: code or cause is not in the chain", err)
	}
	if stderrors.Is(err, errors.Conflict) {
		t.Error("it is another code as well")
	}
	var e *errors.Error
	if !stderrors.As(err, &e) || e.Code != errors.NotFound || e.Message != "read x" {
		t.Errorf("As found %+v", e)
	}
}

func TestTextIsTheMessageAndItsCause(t *testing.T) {
	cause := stderrors.New("cause")
	for want, err := range map[string]error{
		"read x":        errors.New(errors.Internal, "read %s", "x"),
		"read x: cause": errors.Wrap(errors.Internal, cause, "read %s", "x"),
		"cause":         errors.Wrap(errors.Internal, cause, ""),
		"NOT_FOUND":     errors.NotFound,
	} {
		if got := err.Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestAdviceIsFoundInTheWholeTree(t *testing.T) {
	advised := errors.New(errors.NotFound, "x").WithAdvice("do %s", "this")
	tests := map[string]struct {
		err  error
		want string
	}{
		"nil":           {nil, ""},
		"none":          {errors.New(errors.NotFound, "x"), ""},
		"its own":       {advised, "do this"},
		"below":         {fmt.Errorf("y: %w", errors.Wrap(errors.Internal, advised, "z")), "do this"},
		"outer wins":    {errors.Wrap(errors.Internal, advised, "z").WithAdvice("that"), "that"},
		"joined second": {fmt.Errorf("y: %w", stderrors.Join(errors.New(errors.Timeout, "t"), advised)), "do this"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := errors.AdviceOf(tt.err); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestPartsAreWhatWasJoinedAtTheTop(t *testing.T) {
	a, b := errors.New(errors.NotFound, "a"), stderrors.New("b")
	within := fmt.Errorf("c: %w", stderrors.Join(a, b))
	tests := map[string]struct {
		err  error
		want []error
	}{
		"nil":           {nil, nil},
		"no join":       {a, []error{a}},
		"joins in join": {stderrors.Join(nil, b, stderrors.Join(a, within)), []error{b, a, within}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := errors.Parts(tt.err); !slices.Equal(got, tt.want) {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

func TestWithAdviceLeavesTheOriginal(t *testing.T) {
	e := errors.New(errors.NotFound, "x")
	advised := e.WithAdvice("do this")
	if e.Advice != "" || advised.Advice != "do this" {
		t.Errorf("the original says %q, the copy %q", e.Advice, advised.Advice)
	}
}

func ExampleError_WithAdvice() {
	err := errors.New(errors.NotFound, "RuntimeClass %q does not exist", "nvidia").
		WithAdvice("install the GPU operator, or leave out --runtime-class")
	fmt.Println(err)
	fmt.Println(errors.AdviceOf(err))
	fmt.Println(errors.ExitCode(err))
	// Output:
	// RuntimeClass "nvidia" does not exist
	// install the GPU operator, or leave out --runtime-class
	// 3
}
