package cli

import (
	"bytes"
	"context"
	stderrors "errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/klog/v2"

	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/event"
	"github.com/NVIDIA/aicr/pkg/measurement"
	"github.com/NVIDIA/aicr/pkg/serializer"
	"github.com/NVIDIA/aicr/pkg/snapshotter"
)

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// call is one invocation with stubs for the use cases.
type call struct {
	env      map[string]string
	run      func(context.Context, snapshotter.RunOptions) (*snapshotter.Result, error)
	capture  func(context.Context, snapshotter.CaptureOptions) (*measurement.Snapshot, error)
	out, err buffer
}

func (c *call) main(ctx context.Context, args ...string) int {
	a := &app{
		streams: Streams{Out: &c.out, Err: &c.err},
		env:     func(k string) (string, bool) { v, ok := c.env[k]; return v, ok },
		deps:    deps{run: c.run, capture: c.capture},
	}
	return a.main(ctx, args)
}

// clusterEnv points KUBECONFIG at a cluster whose context names a namespace.
func clusterEnv(t *testing.T, namespace string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig.yaml")
	text := "clusters: [{name: c, cluster: {server: 'https://cluster.invalid'}}]\n" +
		"contexts: [{name: c, context: {cluster: c, namespace: '" + namespace + "'}}]\ncurrent-context: c\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", path)
}

func snapshot(version string) *measurement.Snapshot {
	return &measurement.Snapshot{
		APIVersion: measurement.APIVersion, Kind: measurement.Kind,
		Metadata:     measurement.Metadata{Timestamp: time.Unix(0, 0).UTC(), Version: version, SourceNode: "node-1"},
		Measurements: []measurement.Measurement{},
		Collectors:   []measurement.CollectorStatus{{Name: "os", State: measurement.StateOK}},
	}
}

func encode(t *testing.T, f serializer.Format, s *measurement.Snapshot) string {
	t.Helper()
	b, err := serializer.Encode(f, s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// gives returns a run that brings these bytes back.
func gives(data string) func(context.Context, snapshotter.RunOptions) (*snapshotter.Result, error) {
	return func(context.Context, snapshotter.RunOptions) (*snapshotter.Result, error) {
		return &snapshotter.Result{Data: []byte(data)}, nil
	}
}

func TestErrorsAreOneLineOfWhatAndOneOfWhatToDo(t *testing.T) {
	clusterEnv(t, "team")
	tests := map[string]struct {
		err  error
		code int
		want string
	}{
		"with advice": {errors.New(errors.Conflict, "taken").WithAdvice("choose another"), 2, "error: taken\n  choose another\n"},
		"usual advice": {errors.New(errors.Unavailable, "gone"), 6,
			"error: gone\n  check that the API server runs and can be reached from here: kubectl get --raw /readyz\n"},
		"joined": {stderrors.Join(errors.New(errors.Timeout, "a").WithAdvice("b"), stderrors.New("c")), 5, "error: a\n  b\nerror: c\n  look for more with --debug\n"},
		"lines of a log are set off": {errors.New(errors.NotFound, "failed; its last lines:\nx\ny"), 3,
			"error: failed; its last lines:\n  x\n  y\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := call{run: func(context.Context, snapshotter.RunOptions) (*snapshotter.Result, error) { return nil, tt.err }}
			if code := c.main(t.Context(), "snapshot", "--image", "img"); code != tt.code {
				t.Errorf("status %d, want %d", code, tt.code)
			}
			_, got, _ := strings.Cut(c.err.String(), "\n") // after the line that names the run
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestJSONLinesCarryStepsAndAgentLogGoesBesides(t *testing.T) {
	clusterEnv(t, "team")
	c := call{run: func(_ context.Context, o snapshotter.RunOptions) (*snapshotter.Result, error) {
		o.Events.Emit(event.Event{Type: event.Created, Kind: "Job", Name: "aicr-1"})
		_, _ = o.LogWriter.Write([]byte("[agent] hello\n"))
		return nil, errors.New(errors.Timeout, "late")
	}}
	c.main(t.Context(), "--debug", "--log-json", "snapshot", "--image", "img")
	for _, want := range []string{`"event":"created","kind":"Job","name":"aicr-1"`, "[agent] hello\n", `"msg":"late","code":"TIMEOUT"`} {
		if !strings.Contains(c.err.String(), want) {
			t.Errorf("%s is missing in %s", want, c.err.String())
		}
	}
}

// client-go logs whole requests at its high levels, tokens included.
func TestClientLogShowsOnlyWithDebugAndNeverItsVerboseMessages(t *testing.T) {
	clusterEnv(t, "team")
	for _, debug := range []bool{false, true} {
		c := call{run: func(context.Context, snapshotter.RunOptions) (*snapshotter.Result, error) {
			klog.ErrorS(stderrors.New("closed"), "watch ended")
			for v := klog.Level(1); v <= 10; v++ {
				klog.V(v).InfoS("request", "body", "secret")
			}
			return nil, errors.New(errors.Timeout, "late")
		}}
		args := []string{"snapshot", "--image", "img"}
		if debug {
			args = append(args, "--debug")
		}
		c.main(t.Context(), args...)
		if got := strings.Contains(c.err.String(), `debug: watch ended err=closed`); got != debug {
			t.Errorf("debug %v: %s", debug, c.err.String())
		}
		if strings.Contains(c.err.String(), "secret") {
			t.Errorf("debug %v: a verbose message is shown: %s", debug, c.err.String())
		}
	}
}
