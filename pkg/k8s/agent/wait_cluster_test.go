package agent_test

import (
	"context"
	stderrors "errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/NVIDIA/aicr/internal/devcluster"
	"github.com/NVIDIA/aicr/internal/devcluster/devtest"
	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/k8s/agent"
	"github.com/NVIDIA/aicr/pkg/runid"
)

// waiting starts WaitForCompletion and returns what it ends with, and when it
// has reached the server.
func (s *scene) waiting(timeout time.Duration) <-chan error {
	done := make(chan error, 1)
	go func() { done <- s.WaitForCompletion(s.t.Context(), timeout) }()
	return done
}

func TestC32_CompleteIsSuccessAtOnceAlsoIfItWasAlreadySo(t *testing.T) {
	t.Parallel()
	devtest.Controllers(t)
	s := newScene(t, nil, nil)
	s.deploy()
	done := s.waiting(time.Minute)
	s.endPod(0)
	s.must(<-done)
	start := time.Now()
	s.must(s.WaitForCompletion(t.Context(), time.Minute))
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("a Job that was complete already took %s", took)
	}
}

func TestC32_AFailedJobTellsReasonExitCodeAndLastLines(t *testing.T) {
	t.Parallel()
	devtest.Controllers(t)
	s := newScene(t, nil, nil)
	s.deploy()
	s.endPod(7)
	err := s.WaitForCompletion(t.Context(), time.Minute)
	for _, want := range []string{s.JobName(), "BackoffLimitExceeded", "exit code 7", "played by the test"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not told: %v", want, err)
		}
	}
	if !stderrors.Is(err, errors.Internal) {
		t.Errorf("code %s", errors.CodeOf(err))
	}
	if err := s.WaitForPodReady(t.Context(), time.Minute); err == nil || !strings.Contains(err.Error(), "exit code 7") {
		t.Errorf("WaitForPodReady of a failed pod: %v", err)
	}
}

func TestC32_ADeletedJobIsAnErrorAtOnce(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, nil)
	s.deploy()
	done := s.waiting(time.Minute)
	background := metav1.DeletePropagationBackground
	s.must(s.admin.BatchV1().Jobs(s.namespace).Delete(t.Context(), s.JobName(), metav1.DeleteOptions{PropagationPolicy: &background}))
	if err := <-done; !stderrors.Is(err, errors.NotFound) || !strings.Contains(err.Error(), "deleted") {
		t.Errorf("deleted while waiting: %v", err)
	}
	if err := s.WaitForCompletion(t.Context(), time.Minute); !stderrors.Is(err, errors.NotFound) {
		t.Errorf("deleted before: %v", err)
	}
}

// podWaits are the calls that wait for the Job's pod.
func (s *scene) podWaits() map[string]func() error {
	return map[string]func() error{
		"WaitForPodReady": func() error { return s.WaitForPodReady(s.t.Context(), time.Minute) },
		"StreamLogs":      func() error { return s.StreamLogs(s.t.Context(), io.Discard, "") },
	}
}

func TestC32_AWaitForThePodEndsWhenTheJobIsDeleted(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"WaitForPodReady", "StreamLogs"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x, both := &tap{}, make(chan struct{}, 2)
			s := newScene(t, through(t, x.trip), nil)
			s.deploy()
			x.set(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
				resp, err := next.RoundTrip(r)
				if err == nil && r.URL.Query().Get("watch") != "" {
					select {
					case both <- struct{}{}:
					default:
					}
				}
				return resp, err
			})
			done := make(chan error, 1)
			go func() { done <- s.podWaits()[name]() }()
			<-both
			<-both // the Job's watch and the pods'
			background := metav1.DeletePropagationBackground
			s.must(s.admin.BatchV1().Jobs(s.namespace).Delete(t.Context(), s.JobName(), metav1.DeleteOptions{PropagationPolicy: &background}))
			if err := <-done; !stderrors.Is(err, errors.NotFound) || !strings.Contains(err.Error(), "deleted") {
				t.Errorf("%v, want NOT_FOUND", err)
			}
		})
	}
}

// TestC32_AWaitForThePodEndsWhenTheJobFailsWithoutOne: a quota lets none be
// created, and the Job's deadline, which the test shortens, ends it.
func TestC32_AWaitForThePodEndsWhenTheJobFailsWithoutOne(t *testing.T) {
	t.Parallel()
	devtest.Controllers(t)
	s := newScene(t, nil, nil)
	_, err := s.admin.CoreV1().ResourceQuotas(s.namespace).Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "none"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
	}, metav1.CreateOptions{})
	s.must(err)
	devtest.Eventually(t, "the quota holds", time.Minute, func(ctx context.Context) error {
		quota, err := s.admin.CoreV1().ResourceQuotas(s.namespace).Get(ctx, "none", metav1.GetOptions{})
		if err == nil && len(quota.Status.Hard) == 0 {
			err = stderrors.New("not yet")
		}
		return err
	})
	s.deploy()
	_, err = s.admin.BatchV1().Jobs(s.namespace).Patch(t.Context(), s.JobName(), types.MergePatchType,
		[]byte(`{"spec":{"activeDeadlineSeconds":1}}`), metav1.PatchOptions{})
	s.must(err)
	for name, wait := range s.podWaits() {
		if err := wait(); !stderrors.Is(err, errors.Internal) || !strings.Contains(err.Error(), "DeadlineExceeded") {
			t.Errorf("%s: %v, want INTERNAL that tells why the Job failed", name, err)
		}
	}
}

func TestC32_TheTimeOverTellsWhatThePodWaitedFor(t *testing.T) {
	t.Parallel()
	devtest.Controllers(t)
	s := newScene(t, nil, func(c *agent.Config) { c.NodeName = "no-such-node" })
	s.deploy()
	s.pod()
	devtest.Eventually(t, "the scheduler has looked at the pod", time.Minute, func(context.Context) error {
		if len(s.pod().Status.Conditions) == 0 {
			return stderrors.New("not yet")
		}
		return nil
	})
	for what, err := range map[string]error{
		"own timeout": s.WaitForCompletion(t.Context(), 300*time.Millisecond),
		"ready":       s.WaitForPodReady(t.Context(), 300*time.Millisecond),
		"context's": func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			return s.WaitForCompletion(ctx, 0)
		}(),
	} {
		if !stderrors.Is(err, errors.Timeout) || !strings.Contains(err.Error(), "Unschedulable") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestC32_ACancelledWaitReturnsTheCancellation(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, nil)
	s.deploy()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.WaitForCompletion(ctx, time.Minute); !stderrors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestC31_APodWithForgedLabelsIsNeverChosen(t *testing.T) {
	t.Parallel()
	devtest.Controllers(t)
	s := newScene(t, nil, nil)
	s.deploy()
	ours := s.pod()
	isController, suspended := true, true
	other, err := s.admin.BatchV1().Jobs(s.namespace).Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "other"},
		Spec:       batchv1.JobSpec{Suspend: &suspended, Template: corev1.PodTemplateSpec{Spec: ours.Spec}},
	}, metav1.CreateOptions{})
	s.must(err)
	for name, owner := range map[string][]metav1.OwnerReference{
		"no-owner":       nil,
		"other-uid":      {{APIVersion: "batch/v1", Kind: "Job", Name: s.JobName(), UID: other.UID, Controller: &isController}},
		"no-controller":  {{APIVersion: "batch/v1", Kind: "Job", Name: s.JobName(), UID: s.job().UID}},
		"other-kind":     {{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: s.job().UID, Controller: &isController}},
		"zz-other-group": {{APIVersion: "example.com/v1", Kind: "Job", Name: s.JobName(), UID: s.job().UID, Controller: &isController}},
	} {
		forged, err := s.admin.CoreV1().Pods(s.namespace).Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owner, Labels: map[string]string{
				"app.kubernetes.io/component": "snapshot-agent", "aicr.run/run-id": s.config.RunID,
			}},
			Spec: ours.Spec,
		}, metav1.CreateOptions{})
		if err != nil {
			// The garbage collector may have been faster with one.
			t.Logf("%s: %v", name, err)
			continue
		}
		patch := []byte(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`)
		if _, err := s.admin.CoreV1().Pods(s.namespace).Patch(t.Context(), forged.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
			t.Logf("%s: %v", name, err)
		}
	}
	err = s.WaitForPodReady(t.Context(), time.Second)
	if !stderrors.Is(err, errors.Timeout) || !strings.Contains(err.Error(), ours.Name) {
		t.Errorf("%v, want a TIMEOUT about %s", err, ours.Name)
	}
	s.setStatus(ours.Name, corev1.PodStatus{
		Phase:      corev1.PodRunning,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	})
	s.must(s.WaitForPodReady(t.Context(), time.Minute))
}

// watchCounter closes the first watches right after they were opened.
type watchCounter struct {
	mu      sync.Mutex
	watches int
	reached chan struct{}
}

func TestC30_AWaitLivesThroughClosedWatches(t *testing.T) {
	t.Parallel()
	devtest.Controllers(t)
	const closed = 3
	c := &watchCounter{reached: make(chan struct{})}
	s := newScene(t, through(t, func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if err == nil && r.URL.Query().Get("watch") != "" {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.watches++; c.watches <= closed {
				_ = resp.Body.Close()
				resp.Body = http.NoBody
			} else if c.watches == closed+1 {
				close(c.reached)
			}
		}
		return resp, err
	}), nil)
	s.deploy()
	done := s.waiting(time.Minute)
	<-c.reached
	s.endPod(0)
	s.must(<-done)
}

func TestC30_AWaitLivesThroughAnExpiredResourceVersion(t *testing.T) {
	t.Parallel()
	devtest.Controllers(t)
	reached := make(chan struct{})
	var mu sync.Mutex
	var expired int
	s := newScene(t, through(t, func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		if r.URL.Query().Get("watch") != "" {
			mu.Lock()
			defer mu.Unlock()
			if expired++; expired <= 2 {
				return &http.Response{StatusCode: http.StatusGone, Status: "410 Gone", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
					Header: http.Header{}, Body: http.NoBody, Request: r}, nil
			} else if expired == 3 {
				close(reached)
			}
		}
		return next.RoundTrip(r)
	}), nil)
	s.deploy()
	done := s.waiting(time.Minute)
	<-reached
	s.endPod(0)
	s.must(<-done)
}

// TestC30_AWaitLivesThroughARestartOfTheAPIServer has a cluster of its own,
// since it takes the API server away.
func TestC30_AWaitLivesThroughARestartOfTheAPIServer(t *testing.T) {
	t.Parallel()
	devtest.OwnCluster(t) // skips where the machine cannot
	devtest.Controllers(t)
	cluster, err := devcluster.Start(t.Context(), devcluster.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	client, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{t: t, admin: client, namespace: "default"}
	s.config = agent.Config{Namespace: "default", RunID: runid.Generate(), Image: "example.com/aicr:test"}
	s.Deployer = agent.NewDeployer(client, s.config)
	s.deploy()
	s.pod()
	done := s.waiting(2 * time.Minute)
	s.must(cluster.KillAPIServer())
	s.must(cluster.StartAPIServer(t.Context()))
	select {
	case err := <-done:
		t.Fatalf("the wait ended with the server: %v", err)
	default:
	}
	s.endPod(0)
	s.must(<-done)
	s.cleanup()
	s.left()
}

func TestC33_ASnapshotThatIsNotThereIsNamed(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, nil)
	s.deploy()
	name := agent.StagingConfigMapName(s.config.RunID)
	_, err := s.GetSnapshot(t.Context())
	if !stderrors.Is(err, errors.NotFound) || !strings.Contains(err.Error(), name) {
		t.Errorf("no ConfigMap: %v", err)
	}
	cm := s.stage()
	delete(cm.Data, "snapshot.yaml")
	_, err = s.admin.CoreV1().ConfigMaps(s.namespace).Update(t.Context(), cm, metav1.UpdateOptions{})
	s.must(err)
	_, err = s.GetSnapshot(t.Context())
	if !stderrors.Is(err, errors.NotFound) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), `"snapshot.yaml"`) {
		t.Errorf("no key: %v", err)
	}
}
