package ui_test

import (
	"os"

	"github.com/NVIDIA/aicr/internal/ui"
)

func ExampleNew() {
	u := ui.New(os.Stdout, ui.Options{Prefix: "agent"})
	u.Log.Warn("collector gpu failed", "reason", "no driver")
	// Output:
	// agent: warning: collector gpu failed reason="no driver"
}
