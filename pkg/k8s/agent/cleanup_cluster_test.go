package agent_test

import (
	"context"
	stderrors "errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/NVIDIA/aicr/internal/devcluster/devtest"
	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/k8s/agent"
)

func TestC20_AllThatFailedIsToldAndOnlyThatTriedAgain(t *testing.T) {
	t.Parallel()
	x := &tap{}
	s := newScene(t, through(t, x.trip), nil)
	s.deploy()
	s.stage(s.jobOwner())
	x.set(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		if about(r, http.MethodDelete, "clusterroles") || about(r, http.MethodDelete, "serviceaccounts") || about(r, http.MethodDelete, "configmaps") {
			return status(r, http.StatusInternalServerError, metav1.StatusReasonInternalError)
		}
		return next.RoundTrip(r)
	})
	enabled := agent.CleanupOptions{Enabled: true}
	err := s.Cleanup(t.Context(), enabled)
	failed := []string{"ClusterRole ", "ServiceAccount ", "ConfigMap "}
	for _, want := range failed {
		if err == nil || !strings.Contains(err.Error(), "delete "+want) {
			t.Errorf("%q is not told: %v", want, err)
		}
	}
	if got := len(errors.Parts(err)); got != len(failed) {
		t.Errorf("%d errors, want %d: %v", got, len(failed), err)
	}

	x.set(nil)
	s.must(s.Cleanup(t.Context(), enabled))
	var again []string
	for _, r := range x.requests("") {
		again = append(again, strings.Split(r, "/")[0]+r[strings.LastIndex(r[:strings.LastIndex(r, "/")], "/")+1:strings.LastIndex(r, "/")])
	}
	slices.Sort(again)
	if got, want := strings.Join(again, ", "), "DELETE clusterroles, DELETE configmaps, DELETE serviceaccounts"; got != want {
		t.Errorf("tried again: %s, want %s", got, want)
	}

	x.set(nil)
	s.must(s.Cleanup(t.Context(), enabled))
	if got := x.requests(""); len(got) > 0 {
		t.Errorf("with nothing left to delete: %v", got)
	}
	s.left()
}

// TestC22_CleanupWaitsForACreateInFlight: the server has committed, or will, the
// answer is under way, and the caller cleans up.
func TestC22_CleanupWaitsForACreateInFlight(t *testing.T) {
	t.Parallel()
	for _, resource := range []string{"jobs", "clusterroles", "rolebindings"} {
		t.Run(resource, func(t *testing.T) {
			t.Parallel()
			x, once := &tap{}, sync.Once{}
			inFlight, release := make(chan struct{}), make(chan struct{})
			s := newScene(t, through(t, x.trip), nil)
			x.set(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
				if about(r, http.MethodPost, resource) {
					once.Do(func() {
						close(inFlight)
						<-release
					})
				}
				return next.RoundTrip(r)
			})
			deployed, cleaned := make(chan error, 1), make(chan error, 1)
			go func() { deployed <- s.Deploy(t.Context()) }()
			<-inFlight
			go func() { cleaned <- s.Cleanup(t.Context(), agent.CleanupOptions{Enabled: true}) }()
			var err error
			select {
			case err = <-cleaned:
				t.Error("Cleanup did not wait for the answer")
				close(release)
			case <-time.After(300 * time.Millisecond): // one that does not wait is faster
				close(release)
				err = <-cleaned
			}
			s.must(err)
			if err := <-deployed; !stderrors.Is(err, errors.Conflict) || !strings.Contains(err.Error(), "cleaned up already") {
				t.Errorf("Deploy: %v, want a CONFLICT that says so", err)
			}
			s.left()

			x.set(nil)
			if err := s.Deploy(t.Context()); !stderrors.Is(err, errors.Conflict) {
				t.Errorf("another Deploy: %v, want CONFLICT", err)
			}
			for _, r := range x.requests(http.MethodPost) {
				if !strings.Contains(r, "authorization.k8s.io/v1/self") {
					t.Errorf("created after Cleanup: %s", r)
				}
			}
		})
	}
}

func TestC22_ACleanupThatIsCancelledMeanwhileStillDeletes(t *testing.T) {
	t.Parallel()
	x := &tap{}
	s := newScene(t, through(t, x.trip), nil)
	s.deploy()
	s.stage() // has to be looked for first
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	x.set(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		cancel()
		return next.RoundTrip(r)
	})
	s.must(s.Cleanup(ctx, agent.CleanupOptions{Enabled: true}))
	s.left()
}

func TestC22_ACleanupOfAServerThatDoesNotAnswerEndsWithItsDeadline(t *testing.T) {
	t.Parallel()
	x := &tap{}
	s := newScene(t, through(t, x.trip), nil)
	s.deploy()
	x.set(deaf)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	start := time.Now()
	err := s.Cleanup(ctx, agent.CleanupOptions{Enabled: true})
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	if !stderrors.Is(err, errors.Timeout) || !strings.Contains(err.Error(), "Role "+s.namespace) {
		t.Errorf("%v, want a TIMEOUT that names what is left", err)
	}
	x.set(nil)
	s.cleanup()
	s.left()
}

// deaf never answers. As net/http's own transport, it returns the cause of the
// context's end.
func deaf(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, context.Cause(r.Context())
}

// unending answers with a body that does not end before the context does.
func unending(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
	resp, err := answer(r, http.StatusOK, nil)
	if err == nil {
		resp.Body = io.NopCloser(blocked{r.Context()})
	}
	return resp, err
}

// blocked is a body that says nothing until its request's context is over.
type blocked struct {
	ctx context.Context //nolint:containedctx // a reader has no other way to it
}

func (b blocked) Read([]byte) (int, error) {
	<-b.ctx.Done()
	return 0, context.Cause(b.ctx)
}

// TestC22_AContextsCauseDoesNotHideThatTimeIsOver: a context with a cause ends
// requests with that, which tells nothing of a timeout.
func TestC22_AContextsCauseDoesNotHideThatTimeIsOver(t *testing.T) {
	t.Parallel()
	x := &tap{}
	deployed := newScene(t, through(t, x.trip), nil)
	deployed.deploy()
	t.Cleanup(func() { x.set(nil) })
	x.set(deaf)
	fresh := newScene(t, through(t, deaf), nil)
	cutOff := newScene(t, through(t, unending), nil)
	for name, call := range map[string]func(context.Context) error{
		"Deploy":            fresh.Deploy,
		"a cut-off answer":  cutOff.Deploy,
		"CheckPermissions":  fresh.CheckPermissions,
		"GetSnapshot":       func(ctx context.Context) error { _, err := deployed.GetSnapshot(ctx); return err },
		"WaitForCompletion": func(ctx context.Context) error { return deployed.WaitForCompletion(ctx, 0) },
		"WaitForPodReady":   func(ctx context.Context) error { return deployed.WaitForPodReady(ctx, 0) },
		"GetPodLogs":        func(ctx context.Context) error { _, err := deployed.GetPodLogs(ctx); return err },
		"Cleanup": func(ctx context.Context) error {
			return deployed.Cleanup(ctx, agent.CleanupOptions{Enabled: true})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, stderrors.New("the caller's reason"))
			defer cancel()
			if err := call(ctx); !stderrors.Is(err, errors.Timeout) {
				t.Errorf("%s %v, want TIMEOUT", errors.CodeOf(err), err)
			}
		})
	}
}

// TestC23_TheJobIsKeptWhereTheLookAtTheStagingConfigMapFailed, since it alone
// proves whose that is.
func TestC23_TheJobIsKeptWhereTheLookAtTheStagingConfigMapFailed(t *testing.T) {
	t.Parallel()
	devtest.Controllers(t)
	x := &tap{}
	s := newScene(t, through(t, x.trip), nil)
	s.deploy()
	s.stage() // an older agent's
	x.set(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		if about(r, http.MethodGet, "configmaps") {
			return status(r, http.StatusInternalServerError, metav1.StatusReasonInternalError)
		}
		return next.RoundTrip(r)
	})
	err := s.Cleanup(t.Context(), agent.CleanupOptions{Enabled: true})
	if err == nil || !strings.Contains(err.Error(), s.JobName()) || !strings.Contains(err.Error(), "is kept") {
		t.Errorf("%v, want an error that names the Job that is kept", err)
	}
	s.left("ConfigMap", "Job", "Pod")
	x.set(nil)
	s.cleanup()
	s.left()
}

func TestC23_AJobThatMayNotBeReadIsDeletedAndWhatItProvedIsLeft(t *testing.T) {
	t.Parallel()
	x := &tap{}
	s := newScene(t, through(t, x.trip), nil)
	s.deploy()
	s.stage() // an older agent's: only the live Job proves it
	x.set(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		if about(r, http.MethodGet, "jobs") {
			return status(r, http.StatusForbidden, metav1.StatusReasonForbidden)
		}
		return next.RoundTrip(r)
	})
	s.cleanup()
	s.left("ConfigMap")
}

func TestC23_AStagedSnapshotOfALostJobIsDeletedWithIt(t *testing.T) {
	t.Parallel()
	s, _, _ := lostScene(t, "Job", true)
	s.stage() // an older agent's
	s.cleanup()
	s.left()
}

func TestC23_ASecondDeployersJobProvesNothingForTheFirst(t *testing.T) {
	t.Parallel()
	first, _, w := lostScene(t, "Job", false)
	standing(first, "Job", runLabels(first, "another"))
	first.stage()
	before := stateOf(first, "ConfigMap")
	first.cleanup()
	first.left("ConfigMap", "Job")
	if after := stateOf(first, "ConfigMap"); after != before {
		t.Errorf("changed: %v, was %v", after, before)
	}
	if !strings.Contains(w.String(), agent.StagingConfigMapName(first.config.RunID)) {
		t.Errorf("no warning names it: %s", w)
	}
}

// TestC23_ASecondDeployerOfTheSameRunIsRefusedAndTheFirstGoesOn.
func TestC23_ASecondDeployerOfTheSameRunIsRefusedAndTheFirstGoesOn(t *testing.T) {
	t.Parallel()
	devtest.Controllers(t)
	first := newScene(t, nil, nil)
	first.deploy()
	second := *first
	second.Deployer = agent.NewDeployer(first.admin, first.config)
	if err := second.Deploy(t.Context()); !stderrors.Is(err, errors.Conflict) {
		t.Errorf("%v, want CONFLICT", err)
	}
	first.stage(first.jobOwner())
	second.cleanup()
	first.endPod(0)
	first.must(first.WaitForCompletion(t.Context(), time.Minute))
	if got, err := first.GetSnapshot(t.Context()); err != nil || string(got) != "kind: Snapshot\n" {
		t.Errorf("%q, %v", got, err)
	}
	first.cleanup()
	first.left()
}

// TestC24_AnAgentThatStillRunsLeavesNothing: it writes while Cleanup goes on, at
// each point that matters.
func TestC24_AnAgentThatStillRunsLeavesNothing(t *testing.T) {
	t.Parallel()
	devtest.Controllers(t)
	for name, at := range map[string]struct {
		method, resource string
		after            bool
	}{
		"before the look at the ConfigMap": {http.MethodGet, "configmaps", false},
		"after the look at the ConfigMap":  {http.MethodGet, "configmaps", true},
		"before the Job's delete":          {http.MethodDelete, "jobs", false},
		"after the Job's delete":           {http.MethodDelete, "jobs", true},
		"beside the last deletes":          {http.MethodDelete, "clusterroles", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x, once := &tap{}, sync.Once{}
			s := newScene(t, through(t, x.trip), nil)
			s.deploy()
			s.pod() // runs, as far as anybody can tell
			owner := s.jobOwner()
			var wrote bool
			write := func() { once.Do(func() { s.stage(owner); wrote = true }) }
			x.set(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
				if !about(r, at.method, at.resource) {
					return next.RoundTrip(r)
				}
				if !at.after {
					write()
				}
				resp, err := next.RoundTrip(r)
				if at.after {
					write()
				}
				return resp, err
			})
			s.cleanup()
			if !wrote {
				t.Fatal("the agent wrote nothing: the test shows nothing")
			}
			s.left()
		})
	}
}
