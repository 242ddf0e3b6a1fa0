package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/event"
	"github.com/NVIDIA/aicr/pkg/k8s/agent"
	"github.com/NVIDIA/aicr/pkg/measurement"
	"github.com/NVIDIA/aicr/pkg/serializer"
	"github.com/NVIDIA/aicr/pkg/snapshotter"
)

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
				"--max-nodes-per-entry", "5", "--service", "sshd", "--service", "a.timer", "--os", "ubuntu", "--requests", "cpu=1,memory=1Gi", "--limits", "cpu=2", "--debug",
			},
			want: agent.Config{
				Namespace: "other", RunID: "r", Image: "img", Format: "json", JobName: "job", ServiceAccountName: "sa", NodeName: "node-1",
				ImagePullSecrets: []string{"a", "b"}, RequireGPU: true, RuntimeClassName: "nvidia", MaxNodesPerEntry: 5, OS: "ubuntu", Services: []string{"sshd", "a.timer"},
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

func TestSnapshotWhoseFileCannotBeWrittenAfterAllIsKeptElsewhere(t *testing.T) {
	clusterEnv(t, "team")
	kept := t.TempDir()
	t.Setenv("TMPDIR", kept)
	dir := filepath.Join(t.TempDir(), "gone")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	data := encode(t, serializer.YAML, snapshot(thisVersion()))
	c := call{run: func(context.Context, snapshotter.RunOptions) (*snapshotter.Result, error) {
		return &snapshotter.Result{Data: []byte(data)}, os.RemoveAll(dir)
	}}
	if code := c.main(t.Context(), "snapshot", "--image", "img", "-o", filepath.Join(dir, "s.yaml")); code == 0 {
		t.Error("status 0")
	}
	files, err := filepath.Glob(filepath.Join(kept, "aicr-snapshot-*.yaml"))
	if err != nil || len(files) != 1 || !strings.Contains(c.err.String(), files[0]) {
		t.Fatalf("kept %v, %v: %s", files, err, c.err.String())
	}
	if got, err := os.ReadFile(files[0]); err != nil || string(got) != data {
		t.Errorf("%v: %s", err, got)
	}
}
