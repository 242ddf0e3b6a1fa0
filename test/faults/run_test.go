package faults

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/NVIDIA/aicr/pkg/k8s/agent"
	"github.com/NVIDIA/aicr/pkg/k8s/configmap"
	"github.com/NVIDIA/aicr/pkg/serializer"
)

// callLimit bounds each call: what takes longer hangs.
const callLimit = 2 * time.Minute

// run is one run of a scenario. The test plays the Job controller and the
// agent.
type run struct {
	*world
	*wire
	scenario scenario
	deployer *agent.Deployer
	ref      configmap.Ref // what the agent writes
	said     *messages

	mu    sync.Mutex
	ctx   *caller
	calls []call

	beside       sync.WaitGroup
	violations   atomic.Int32
	leftAndNamed int
}

// call is what a method of the Deployer ended with.
type call struct {
	name string
	err  error
	// struck says that the fault happened in it.
	struck bool
}

func newRun(t testing.TB, config *rest.Config, s scenario) *run {
	t.Helper()
	w := newWorld(t, config, s.absent)
	x := newWire(w)
	c := &run{world: w, wire: x, scenario: s, said: &messages{}, ctx: newCaller()}
	cfg := agent.Config{
		Namespace: w.namespace, RunID: w.runID, Image: "example.com/aicr:test",
		Logger: slog.New(c.said),
	}
	if s.change != nil {
		s.change(&cfg)
	}
	if s.identity {
		w.place(w.at("serviceaccounts", existing), nil)
	}
	c.ref = configmap.Ref{Namespace: w.namespace, Name: w.staging().name}
	if s.keeps {
		c.ref.Name = "mine"
	}
	c.deployer = agent.NewDeployer(x.client(), cfg)
	x.loses = s.loses
	x.interrupt = func(err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ctx.end(err)
	}
	x.cleanup = c.cleanUpBeside
	if s.late {
		x.before = func(r request) {
			if r.verb == "delete" && r.resource == "jobs" {
				c.agent()
			}
		}
	}
	return c
}

// call makes one call and keeps what it ended with.
func (c *run) call(name string, f func(context.Context) error) error {
	before := c.record().struck != nil
	c.mu.Lock()
	ctx := c.ctx
	c.mu.Unlock()
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	err := f(limited)
	c.beside.Wait()
	if limited.Err() != nil && ctx.Err() == nil {
		c.t.Errorf("%s hangs: %v", name, err)
	}
	c.calls = append(c.calls, call{name, err, !before && c.record().struck != nil})
	return err
}

// cleanUpBeside starts another Cleanup and gives it a moment to begin. It must
// end, and well.
func (c *run) cleanUpBeside() {
	begun := time.After(aMoment)
	c.beside.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), callLimit)
		defer cancel()
		if err := c.deployer.Cleanup(ctx, agent.CleanupOptions{Enabled: true}); err != nil {
			c.violation("c", "Cleanup beside the run: %v", err)
		}
	})
	<-begun
}

// fresh gives the calls to come a context that is not over.
func (c *run) fresh() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ctx = newCaller()
}

// play goes through the scenario as a caller does who gives up at the first
// error, unless stubborn, and cleans up: once while the fault may last, and
// once after it.
func (c *run) play() {
	c.t.Helper()
	deployed := c.call("Deploy", c.deployer.Deploy) == nil
	if deployed {
		c.checkStands()
	}
	if !c.scenario.late {
		c.agent()
	}
	if c.scenario.reads && (deployed || c.scenario.stubborn) {
		c.complete()
		c.read()
	}
	clean := func(ctx context.Context) error {
		return c.deployer.Cleanup(ctx, agent.CleanupOptions{Enabled: true})
	}
	_ = c.call("Cleanup", clean) // with a context that may be over
	c.arrive()
	c.heal()
	c.fresh()
	if err := c.call("Cleanup, healed", clean); err != nil {
		c.violation("c", "Cleanup with the fault gone: %v", err)
	}
}

func (c *run) read() {
	c.t.Helper()
	limit := time.Minute
	if c.fault != nil && c.fault.lasts {
		limit = time.Second // a wait outlasts it, or its own limit
	}
	err := c.call("WaitForCompletion", func(ctx context.Context) error { return c.deployer.WaitForCompletion(ctx, limit) })
	if err != nil && !c.scenario.stubborn {
		return
	}
	_ = c.call("GetSnapshot", func(ctx context.Context) error {
		data, err := c.deployer.GetSnapshot(ctx)
		if err == nil && string(data) != c.document() {
			c.violation("c", "GetSnapshot gave %q", data)
		}
		return err
	})
}

// document is what this run's agent writes.
func (c *run) document() string { return documentOf(c.runID) }

// job returns the run's Job where it stands.
func (c *run) job() *batchv1.Job {
	c.t.Helper()
	job, err := c.admin.BatchV1().Jobs(c.namespace).Get(context.Background(), c.deployer.JobName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		c.t.Errorf("read the Job: %v", err)
		return nil
	}
	if _, ours := c.record().made[job.UID]; !ours {
		return nil
	}
	return job
}

// agent plays the agent of the run's Job: it writes the ConfigMap.
func (c *run) agent() {
	c.t.Helper()
	job := c.job()
	if job == nil {
		return
	}
	o := serializer.ConfigMapOptions{Client: c.admin, Ref: c.ref}
	if !c.scenario.older && !c.scenario.keeps {
		o.Owner = &serializer.JobRef{Name: job.Name, UID: job.UID}
	}
	ctx := context.Background()
	err := serializer.NewConfigMap(o).Write(ctx, serializer.Document{
		Format: serializer.YAML, Data: []byte(c.document()), Kind: "Snapshot", Version: "test",
	})
	if err != nil {
		c.t.Errorf("play the agent: %v", err)
		return
	}
	written := c.at("configmaps", c.ref.Name)
	if !c.scenario.keeps {
		// Also where somebody else put one there after the gate had looked: it
		// is the live Job that proves whose it is (C23).
		c.give(written)
		return
	}
	live, err := c.admin.CoreV1().ConfigMaps(c.namespace).Get(ctx, c.ref.Name, metav1.GetOptions{})
	if err != nil {
		c.t.Errorf("play the agent: %v", err)
		return
	}
	c.spare(written, live)
}

// complete plays the Job controller of a pod that ended well.
func (c *run) complete() {
	c.t.Helper()
	if err := completeJob(context.Background(), c.admin.BatchV1().Jobs(c.namespace), c.job()); err != nil {
		c.t.Errorf("complete the Job: %v", err)
	}
}

func completeJob(ctx context.Context, jobs interface {
	UpdateStatus(context.Context, *batchv1.Job, metav1.UpdateOptions) (*batchv1.Job, error)
}, job *batchv1.Job) error {
	if job == nil {
		return nil
	}
	now := metav1.Now()
	condition := func(t batchv1.JobConditionType) batchv1.JobCondition {
		return batchv1.JobCondition{Type: t, Status: corev1.ConditionTrue, LastTransitionTime: now}
	}
	job.Status = batchv1.JobStatus{
		StartTime: &job.CreationTimestamp, CompletionTime: &now, Succeeded: 1,
		Conditions: []batchv1.JobCondition{condition(batchv1.JobSuccessCriteriaMet), condition(batchv1.JobComplete)},
	}
	_, err := jobs.UpdateStatus(ctx, job, metav1.UpdateOptions{})
	return err
}

// messages gathers what the run warns of.
type messages struct {
	mu   sync.Mutex
	text []string
}

// Enabled implements slog.Handler, as do the other methods.
func (m *messages) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }
func (m *messages) WithAttrs([]slog.Attr) slog.Handler           { return m }
func (m *messages) WithGroup(string) slog.Handler                { return m }
func (m *messages) Handle(_ context.Context, r slog.Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.text = append(m.text, r.Message)
	return nil
}

func (m *messages) list() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.text)
}

// caller is the context of somebody who waits, gives up or runs out of time
// when a test says so.
type caller struct {
	context.Context //nolint:containedctx // it is one
	once            sync.Once
	done            chan struct{}
	err             error
}

func newCaller() *caller { return &caller{Context: context.Background(), done: make(chan struct{})} }

// Done implements context.Context.
func (c *caller) Done() <-chan struct{} { return c.done }

// Err implements context.Context.
func (c *caller) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

func (c *caller) end(err error) {
	c.once.Do(func() {
		c.err = err
		close(c.done)
	})
}

func (o object) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s/%s", o.resource, o.namespace, o.name))
}
