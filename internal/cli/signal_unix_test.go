//go:build unix

package cli

import (
	"context"
	stderrors "errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/NVIDIA/aicr/pkg/measurement"
	"github.com/NVIDIA/aicr/pkg/snapshotter"
)

func TestSignalEndsTheRunWhichCleansUpAndSetsTheStatus(t *testing.T) {
	for signal, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		t.Run(signal.String(), func(t *testing.T) {
			clusterEnv(t, "team")
			cleaned := false
			c := call{run: func(ctx context.Context, _ snapshotter.RunOptions) (*snapshotter.Result, error) {
				if err := syscall.Kill(os.Getpid(), signal); err != nil {
					t.Fatal(err)
				}
				<-ctx.Done()
				cleaned = true
				return nil, stderrors.Join(ctx.Err(), context.Cause(ctx))
			}}
			if code := c.main(t.Context(), "snapshot", "--image", "img"); code != want {
				t.Errorf("status %d, want %d: %s", code, want, c.err.String())
			}
			if !cleaned {
				t.Error("the run did not see the signal")
			}
			if n := strings.Count(c.err.String(), "error: "); n != 1 || !strings.HasSuffix(c.err.String(), "error: got the signal "+signal.String()+"\n") {
				t.Errorf("standard error %q", c.err.String())
			}
		})
	}
}

func TestASnapshotThatASignalOvertakesIsNotDeliveredAndNoSuccess(t *testing.T) {
	c := call{capture: func(ctx context.Context, _ snapshotter.CaptureOptions) (*measurement.Snapshot, error) {
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		return snapshot("v1"), nil
	}}
	if code := c.main(t.Context(), "snapshot", "--local"); code != 143 || c.out.String() != "" {
		t.Errorf("status %d, out %q", code, c.out.String())
	}
	if got, want := c.err.String(), "error: got the signal terminated\n"; got != want {
		t.Errorf("standard error %q, want %q", got, want)
	}
}
