package gpu

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/NVIDIA/aicr/pkg/measurement"
)

// A lease on nvidia-smi holds up in the kernel whoever opens it, as a file
// system that hangs does.
func TestNvidiaSMIThatCannotEvenBeStartedInTimeIsNoAnswer(t *testing.T) {
	dir := script(t, "exit 0")
	f, err := os.OpenFile(filepath.Join(dir, "nvidia-smi"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	lease := func(typ int) error {
		_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, typ)
		return err
	}
	if err := lease(unix.F_WRLCK); err != nil {
		t.Skip("no leases on this file system: ", err)
	}
	defer func() { _ = lease(unix.F_UNLCK); _ = f.Close() }()

	const limit = time.Second
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	begin := time.Now()
	r := collect(ctx, t, h100Host(), dir)
	if took := time.Since(begin); took > limit+400*time.Millisecond {
		t.Errorf("took %v", took)
	}
	hw := hardwareOf(r)
	if !hw.Data[KeyCount].Equal(measurement.Int(2)) || hw.Data[KeyState].String() != DriverNotAnswering || !strings.Contains(r.Status.Reason, "could not be started in time") {
		t.Errorf("%+v", r)
	}
}
