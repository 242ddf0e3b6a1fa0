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
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"

	"github.com/NVIDIA/aicr/pkg/collector/host"
	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/event"
	"github.com/NVIDIA/aicr/pkg/k8s/agent"
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

func TestSnapshotFlagsReachTheRun(t *testing.T) {
	quantity := func(s string) resource.Quantity { return resource.MustParse(s) }
	base := agent.Config{Namespace: "team", RunID: "r", Image: "img", Privileged: true, Format: "yaml"}
	with := func(f func(*agent.Config)) agent.Config {
		c := base
		f(&c)
		return c
	}
	tests := map[string]struct {
		args []string
		env  map[string]string
		want agent.Config
	}{
		"defaults": {nil, nil, base},
		"everything": {
			args: []string{
				"-n", "other", "-t", "json", "--job-name", "job", "--service-account-name", "sa", "--node", "node-1",
				"--image-pull-secret", "a", "--image-pull-secret", "b", "--privileged=false", "--require-gpu", "--runtime-class", "nvidia",
				"--max-nodes-per-entry", "5", "--os", "ubuntu", "--requests", "cpu=1,memory=1Gi", "--limits", "cpu=2", "--debug",
			},
			want: agent.Config{
				Namespace: "other", RunID: "r", Image: "img", Format: "json", JobName: "job", ServiceAccountName: "sa", NodeName: "node-1",
				ImagePullSecrets: []string{"a", "b"}, RequireGPU: true, RuntimeClassName: "nvidia", MaxNodesPerEntry: 5, OS: "ubuntu",
				Requests: corev1.ResourceList{"cpu": quantity("1"), "memory": quantity("1Gi")},
				Limits:   corev1.ResourceList{"cpu": quantity("2")},
				Debug:    true,
			},
		},
		"a ConfigMap is the caller's": {
			args: []string{"-o", "cm://team/mine"},
			want: with(func(c *agent.Config) { c.Output = "cm://team/mine" }),
		},
		"selector and tolerations": {
			args: []string{"--node-selector", "a=1,b=", "--node-selector", "c=3", "--toleration", "k=v:NoSchedule", "--toleration", "k:NoExecute"},
			want: with(func(c *agent.Config) {
				c.NodeSelector = map[string]string{"a": "1", "b": "", "c": "3"}
				c.Tolerations = []corev1.Toleration{
					{Key: "k", Operator: "Equal", Value: "v", Effect: "NoSchedule"}, {Key: "k", Operator: "Exists", Effect: "NoExecute"},
				}
			}),
		},
		"no toleration at all": {
			args: []string{"--toleration", "none"},
			want: with(func(c *agent.Config) { c.Tolerations = []corev1.Toleration{} }),
		},
		"variables": {
			env: map[string]string{
				"AICR_NAMESPACE": "env", "AICR_FORMAT": "json", "AICR_NODE": "node-2", "AICR_REQUIRE_GPU": "true", "AICR_PRIVILEGED": "false",
				"AICR_IMAGE_PULL_SECRET": "a,b", "AICR_REQUESTS": "cpu=1", "AICR_TOLERATION": "*:NoSchedule", "AICR_JOB_NAME": "",
			},
			want: with(func(c *agent.Config) {
				c.Namespace, c.Format, c.NodeName, c.RequireGPU, c.Privileged = "env", "json", "node-2", true, false
				c.ImagePullSecrets = []string{"a", "b"}
				c.Requests = corev1.ResourceList{"cpu": quantity("1")}
				c.Tolerations = []corev1.Toleration{{Operator: "Exists", Effect: "NoSchedule"}}
			}),
		},
		"an explicit flag wins over its variable": {
			args: []string{"-n", "flag", "--toleration", "*", "--privileged"},
			env:  map[string]string{"AICR_NAMESPACE": "env", "AICR_TOLERATION": "k:NoExecute", "AICR_PRIVILEGED": "false"},
			want: with(func(c *agent.Config) {
				c.Namespace = "flag"
				c.Tolerations = []corev1.Toleration{{Operator: "Exists"}}
			}),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			clusterEnv(t, "team")
			var got snapshotter.RunOptions
			c := call{env: tt.env, run: func(_ context.Context, o snapshotter.RunOptions) (*snapshotter.Result, error) {
				got = o
				return &snapshotter.Result{Data: []byte(encode(t, serializer.YAML, snapshot(thisVersion())))}, nil
			}}
			args := append([]string{"snapshot", "--image", "img", "--run-id", "r"}, tt.args...)
			if code := c.main(t.Context(), args...); code != 0 {
				t.Fatalf("status %d: %s", code, c.err.String())
			}
			if diff := cmp.Diff(tt.want, got.Agent, cmpopts.IgnoreFields(agent.Config{}, "Logger", "Events")); diff != "" {
				t.Error(diff)
			}
			if got.Timeout != 5*time.Minute || got.Client == nil || (got.LogWriter != nil) != tt.want.Debug {
				t.Errorf("timeout %s, client %v, log %v", got.Timeout, got.Client, got.LogWriter)
			}
		})
	}
}

func TestRunIDIsGeneratedWhereNoneIsGiven(t *testing.T) {
	clusterEnv(t, "")
	ids := map[string]bool{}
	for range 2 {
		c := call{run: func(_ context.Context, o snapshotter.RunOptions) (*snapshotter.Result, error) {
			ids[o.Agent.RunID] = true
			if o.Agent.Namespace != "default" {
				t.Errorf("namespace %q", o.Agent.Namespace)
			}
			return nil, errors.New(errors.Timeout, "stop here")
		}}
		if code := c.main(t.Context(), "snapshot", "--image", "img"); code != 5 {
			t.Errorf("status %d: %s", code, c.err.String())
		}
	}
	if len(ids) != 2 || ids[""] {
		t.Errorf("run IDs %v", ids)
	}
}

func TestSnapshotIsDeliveredUntouchedOrConverted(t *testing.T) {
	yaml := "# written by another version\n" + encode(t, serializer.YAML, snapshot(thisVersion()))
	json := encode(t, serializer.JSON, snapshot(thisVersion()))
	tests := map[string]struct {
		args             []string
		data, want, file string
	}{
		"standard output":       {nil, yaml, yaml, ""},
		"explicit -":            {[]string{"-o", "-"}, yaml, yaml, ""},
		"json":                  {[]string{"-t", "json"}, yaml, json, ""},
		"json from the agent":   {[]string{"-t", "json"}, json, json, ""},
		"file":                  {[]string{"-o", "FILE"}, yaml, "", yaml},
		"the agent wrote it":    {[]string{"-o", "cm://team/mine"}, yaml, "", ""},
		"another kind is given": {nil, "kind: Unknown\n", "kind: Unknown\n", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			clusterEnv(t, "team")
			file := filepath.Join(t.TempDir(), "out")
			args := []string{"snapshot", "--image", "img"}
			for _, a := range tt.args {
				args = append(args, strings.Replace(a, "FILE", file, 1))
			}
			c := call{run: gives(tt.data)}
			if code := c.main(t.Context(), args...); code != 0 {
				t.Fatalf("status %d: %s", code, c.err.String())
			}
			if diff := cmp.Diff(tt.want, c.out.String()); diff != "" {
				t.Errorf("standard output: %s", diff)
			}
			b, _ := os.ReadFile(file)
			if diff := cmp.Diff(tt.file, string(b)); diff != "" {
				t.Errorf("file: %s", diff)
			}
			if !strings.Contains(c.err.String(), string(event.Delivered)) {
				t.Errorf("standard error does not tell of the delivery: %s", c.err.String())
			}
		})
	}
}

func TestSnapshotIsDeliveredThoughCleaningUpFailed(t *testing.T) {
	clusterEnv(t, "team")
	data := encode(t, serializer.YAML, snapshot(thisVersion()))
	c := call{run: func(context.Context, snapshotter.RunOptions) (*snapshotter.Result, error) {
		return &snapshotter.Result{Data: []byte(data)}, errors.New(errors.Unauthorized, "delete Job team/aicr-1")
	}}
	if code := c.main(t.Context(), "snapshot", "--image", "img"); code != 4 {
		t.Errorf("status %d", code)
	}
	if c.out.String() != data || !strings.Contains(c.err.String(), "error: delete Job team/aicr-1\n  ask ") {
		t.Errorf("out %q, err %q", c.out.String(), c.err.String())
	}
}

func TestDocumentThatCannotBeConvertedIsDeliveredAsItIsWithAnError(t *testing.T) {
	clusterEnv(t, "team")
	c := call{run: gives("a: [")}
	if code := c.main(t.Context(), "snapshot", "--image", "img", "-t", "json"); code != 8 {
		t.Errorf("status %d", code)
	}
	if c.out.String() != "a: [" {
		t.Errorf("out %q", c.out.String())
	}
}

func TestAgentOfAnotherVersionIsToldInOneLine(t *testing.T) {
	clusterEnv(t, "team")
	for agentVersion, want := range map[string]int{"v0.9.0": 1, thisVersion(): 0} {
		c := call{run: gives(encode(t, serializer.YAML, snapshot(agentVersion)))}
		if code := c.main(t.Context(), "snapshot", "--image", "img"); code != 0 {
			t.Fatalf("status %d: %s", code, c.err.String())
		}
		line := "warning: the agent in img is aicr v0.9.0, this is " + thisVersion() + "\n"
		if n := strings.Count(c.err.String(), line); n != want {
			t.Errorf("agent %s: %d lines in %q", agentVersion, n, c.err.String())
		}
	}
}

func TestCollectorsThatFailedAreTold(t *testing.T) {
	clusterEnv(t, "team")
	s := snapshot(thisVersion())
	s.Collectors = []measurement.CollectorStatus{
		{Name: "gpu", State: measurement.StateFailed, Reason: "no driver"},
		{Name: "os", State: measurement.StatePartial, Reason: "some files", Unread: []measurement.Unread{{Key: "a"}, {Key: "b"}}},
		{Name: "k8s", State: measurement.StateSkipped, Reason: "no cluster"},
	}
	c := call{run: gives(encode(t, serializer.YAML, s))}
	c.main(t.Context(), "snapshot", "--image", "img")
	for _, want := range []string{
		"warning: collector gpu failed reason=\"no driver\"\n",
		"warning: collector os could not read all unread=2 reason=\"some files\"\n",
	} {
		if !strings.Contains(c.err.String(), want) {
			t.Errorf("%q is missing in %s", want, c.err.String())
		}
	}
	if strings.Contains(c.err.String(), "k8s") {
		t.Errorf("what was skipped is told: %s", c.err.String())
	}
}

func TestNoCleanupSaysThatTheTTLStillApplies(t *testing.T) {
	clusterEnv(t, "team")
	var options snapshotter.RunOptions
	c := call{run: func(_ context.Context, o snapshotter.RunOptions) (*snapshotter.Result, error) {
		options = o
		return nil, errors.New(errors.Timeout, "the pod waits")
	}}
	c.main(t.Context(), "snapshot", "--image", "img", "--no-cleanup", "--run-id", "r")
	if !options.NoCleanup {
		t.Error("the run cleans up")
	}
	if e := c.err.String(); !strings.Contains(e, "an hour after its end") || !strings.Contains(e, "-l aicr.run/run-id=r") {
		t.Errorf("standard error %q", e)
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

func TestC26_AgentIsToldByItsEnvironment(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	tests := map[string]struct {
		env  map[string]string
		args []string
		want snapshotter.CaptureOptions
	}{
		"in a privileged pod": {
			env: map[string]string{
				"AICR_AGENT_MODE": "true", "AICR_LOG_PREFIX": "agent", "NODE_NAME": "node-1", "AICR_PRIVILEGED": "true",
				"AICR_REQUIRE_GPU": "true", "AICR_OS": "ubuntu", "AICR_MAX_NODES_PER_ENTRY": "7", "AICR_FORMAT": "json",
			},
			want: snapshotter.CaptureOptions{Host: host.Privileged(), NodeName: "node-1", RequireGPU: true, OS: "ubuntu", MaxNodesPerEntry: 7},
		},
		"in a restricted pod": {
			env:  map[string]string{"AICR_AGENT_MODE": "true", "NODE_NAME": "node-1", "AICR_PRIVILEGED": "false"},
			want: snapshotter.CaptureOptions{Host: host.Container(), NodeName: "node-1"},
		},
		"of a controller that does not say": {
			env:  map[string]string{"AICR_AGENT_MODE": "true", "NODE_NAME": "node-1"},
			args: []string{"--debug", "--log-json"},
			want: snapshotter.CaptureOptions{Host: host.Privileged(), NodeName: "node-1"},
		},
		"local": {
			args: []string{"--local", "--node", "mine"},
			env:  map[string]string{"AICR_IMAGE": "a variable for other runs"},
			want: snapshotter.CaptureOptions{Host: host.Local(), NodeName: "mine"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got snapshotter.CaptureOptions
			c := call{env: tt.env, capture: func(_ context.Context, r snapshotter.CaptureOptions) (*measurement.Snapshot, error) {
				got = r
				return snapshot("v1"), nil
			}}
			format := serializer.YAML
			if tt.env["AICR_FORMAT"] == "json" {
				format = serializer.JSON
			}
			if code := c.main(t.Context(), append([]string{"snapshot", "-o", "-"}, tt.args...)...); code != 0 {
				t.Fatalf("status %d: %s", code, c.err.String())
			}
			tt.want.Version = thisVersion()
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreFields(snapshotter.CaptureOptions{}, "Log")); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(encode(t, format, snapshot("v1")), c.out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestC24_OwnerOnlyWhereTheControllerNamesAJobWhole(t *testing.T) {
	tests := map[string]struct {
		env  map[string]string
		want *serializer.JobRef
	}{
		"both":    {map[string]string{"AICR_OWNER_JOB_NAME": "job", "AICR_OWNER_JOB_UID": "uid"}, &serializer.JobRef{Name: "job", UID: "uid"}},
		"neither": {nil, nil},
		"no UID":  {map[string]string{"AICR_OWNER_JOB_NAME": "job"}, nil},
		"no name": {map[string]string{"AICR_OWNER_JOB_UID": "uid"}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a := &app{env: func(k string) (string, bool) { v, ok := tt.env[k]; return v, ok }}
			if diff := cmp.Diff(tt.want, a.ownerJob()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSnapshotWithoutARequiredGPUIsWrittenAndFails(t *testing.T) {
	c := call{capture: func(context.Context, snapshotter.CaptureOptions) (*measurement.Snapshot, error) {
		return snapshot("v1"), errors.New(errors.NotFound, "there is no GPU")
	}}
	if code := c.main(t.Context(), "snapshot", "--local", "--require-gpu"); code != 3 {
		t.Errorf("status %d", code)
	}
	if c.out.String() == "" || !strings.Contains(c.err.String(), "error: there is no GPU\n") {
		t.Errorf("out %q, err %q", c.out.String(), c.err.String())
	}
}

func TestAgentWithoutCredentialsCannotWriteAConfigMap(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	c := call{env: map[string]string{"AICR_AGENT_MODE": "true"}}
	if code := c.main(t.Context(), "snapshot", "-o", "cm://ns/name"); code != 2 {
		t.Errorf("status %d", code)
	}
	if !strings.Contains(c.err.String(), "pod's credentials") {
		t.Errorf("err %q", c.err.String())
	}
}
