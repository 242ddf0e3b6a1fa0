package cli

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/NVIDIA/aicr/pkg/collector/host"
	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/measurement"
	"github.com/NVIDIA/aicr/pkg/serializer"
	"github.com/NVIDIA/aicr/pkg/snapshotter"
)

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
				"AICR_REQUIRE_GPU": "true", "AICR_OS": "ubuntu", "AICR_MAX_NODES_PER_ENTRY": "7", "AICR_SERVICES": "sshd,a.timer", "AICR_FORMAT": "json",
			},
			want: snapshotter.CaptureOptions{Host: host.Privileged(), NodeName: "node-1", RequireGPU: true, OS: "ubuntu", MaxNodesPerEntry: 7, Services: []string{"sshd", "a.timer"}},
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

func TestASnapshotThatTimeOvertakesIsNotDeliveredAndNoSuccess(t *testing.T) {
	for name, err := range map[string]error{"whole": nil, "cut off": context.DeadlineExceeded} {
		t.Run(name, func(t *testing.T) {
			c := call{capture: func(ctx context.Context, _ snapshotter.CaptureOptions) (*measurement.Snapshot, error) {
				<-ctx.Done()
				return snapshot("v1"), err
			}}
			if code := c.main(t.Context(), "snapshot", "--local", "--timeout", "1ms"); code != 5 || c.out.String() != "" {
				t.Errorf("status %d, out %q", code, c.out.String())
			}
			if n := strings.Count(c.err.String(), "error: "); n != 1 || !strings.Contains(c.err.String(), "--timeout") {
				t.Errorf("standard error %q", c.err.String())
			}
		})
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
