package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/NVIDIA/aicr/internal/inventory"
)

const (
	lookEvery = 100 * time.Millisecond
	// goneLimit is how long a deleted Job's pod may take to go.
	goneLimit = 10 * time.Second
)

// watcher tells what objects came and went with a run.
type watcher struct {
	taker  *inventory.Taker
	before inventory.Inventory
	came   inventory.Inventory
}

// newWatcher looks at the cluster until it has settled, so that the run alone
// changes it.
func newWatcher(ctx context.Context, config *rest.Config) (*watcher, error) {
	taker, err := inventory.NewTaker(config)
	if err != nil {
		return nil, err
	}
	w := &watcher{taker: taker, came: inventory.Inventory{}}
	ticker := time.NewTicker(5 * lookEvery)
	defer ticker.Stop()
	for {
		now, err := taker.Take(ctx)
		if err != nil {
			return nil, err
		}
		settled := len(now.Diff(w.before)) == 0
		if w.before = now; settled {
			return w, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-ticker.C:
		}
	}
}

// during looks again and again while do runs.
func (w *watcher) during(ctx context.Context, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		now, err := w.taker.Take(ctx)
		if err == nil { // a look that failed shows nothing; the next one may
			for k, o := range now {
				if _, ok := w.before[k]; !ok {
					w.came[k] = o
				}
			}
		}
		select {
		case err := <-done:
			return err
		case <-ticker.C:
		}
	}
}

// report tells what came, and what of it is left.
func (w *watcher) report(ctx context.Context, out io.Writer) error {
	fmt.Fprintf(out, "\nbefore the run: %d objects\nduring the run there were also:\n", len(w.before))
	for _, line := range w.came.Diff(nil) {
		fmt.Fprintln(out, "  "+line)
	}
	ctx, cancel := context.WithTimeout(ctx, goneLimit)
	defer cancel()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		now, err := w.taker.Take(ctx)
		if err != nil {
			return err
		}
		left := now.Diff(w.before)
		// The namespace is ensured and stays, with what Kubernetes puts into one.
		ours := 0
		for _, line := range left {
			if !strings.Contains(line, "aicr-demo/default") && !strings.Contains(line, "kube-root-ca.crt") && !strings.HasSuffix(line, " aicr-demo") {
				ours++
			}
		}
		if ours > 0 {
			select {
			case <-ctx.Done():
				return fmt.Errorf("left after the run:\n%s", strings.Join(left, "\n"))
			case <-ticker.C:
				continue
			}
		}
		fmt.Fprintf(out, "after the run: %d objects; new is only the namespace, which stays, with what Kubernetes puts into each:\n", len(now))
		for _, line := range left {
			fmt.Fprintln(out, "  "+line)
		}
		return nil
	}
}
