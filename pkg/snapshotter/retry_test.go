package snapshotter_test

import (
	"context"
	stderrors "errors"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/k8s/agent"
	"github.com/NVIDIA/aicr/pkg/k8s/agent/agenttest"
	"github.com/NVIDIA/aicr/pkg/snapshotter"
)

// shape is a cluster of no substance in which each Job is complete at once and
// has staged a snapshot.
type shape struct {
	*fake.Clientset
	o        snapshotter.RunOptions
	deployed bool
}

func newShape() *shape {
	s := &shape{Clientset: fake.NewClientset()}
	agenttest.AllowAccessReviews(s.Clientset)
	s.o = snapshotter.RunOptions{
		Client: s, Timeout: time.Minute,
		Agent: agent.Config{Namespace: "ns", RunID: "run", Image: "example.com/aicr:test"},
	}
	s.PrependReactor("create", "jobs", func(a clienttesting.Action) (bool, runtime.Object, error) {
		job := a.(clienttesting.CreateAction).GetObject().(*batchv1.Job)
		s.deployed = true // under the fake's lock, as all reactions are
		job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		return false, nil, s.Tracker().Add(&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: agent.StagingConfigMapName("run")},
			Data:       map[string]string{"snapshot.yaml": "kind: Snapshot\n"},
		})
	})
	return s
}

// fails makes the requests of that kind that come after the Job was created end with
// the errors, one after the other and the last for good. Nil is none. It
// returns the count of these requests.
func (s *shape) fails(verb, resource string, answers ...error) *int {
	n := new(int)
	s.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		if !s.deployed {
			return false, nil, nil
		}
		*n++
		err := answers[min(*n, len(answers))-1]
		return err != nil, nil, err
	})
	return n
}

var (
	away    = apierrors.NewServiceUnavailable("starting")
	refused = apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "x", stderrors.New("no"))
)

func TestASnapshotIsReadAgainWhileTheAPIServerIsAway(t *testing.T) {
	broken := apierrors.NewInternalError(stderrors.New("x"))
	tests := map[string]struct {
		answers []error
		limit   time.Duration
		want    error
		reads   [2]int // at least and at most
	}{
		"comes back":             {[]error{away, away, away, nil}, time.Minute, nil, [2]int{4, 4}},
		"stays away":             {[]error{away}, time.Minute, errors.Unavailable, [2]int{10, 30}},
		"is away for a long run": {[]error{away}, time.Hour, context.DeadlineExceeded, [2]int{700, 800}},
		"fails for good":         {[]error{broken}, time.Minute, errors.Internal, [2]int{1, 1}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShape()
				s.o.Timeout, s.o.NoCleanup = tt.limit, true
				reads := s.fails("get", "configmaps", tt.answers...)
				start := time.Now()
				res, err := snapshotter.Run(t.Context(), s.o)
				if !stderrors.Is(err, tt.want) || (res != nil) != (tt.want == nil) {
					t.Errorf("%v, %v, want %v", res, err, tt.want)
				}
				if *reads < tt.reads[0] || *reads > tt.reads[1] {
					t.Errorf("%d reads", *reads)
				}
				if took := time.Since(start); took > tt.limit {
					t.Errorf("took %s", took)
				}
			})
		})
	}
}

func TestC20_CleaningUpGoesOnUntilOnlyRefusalsAreLeft(t *testing.T) {
	tests := map[string]struct {
		job, clusterRole []error
		want             []error
		jobs, roles      [2]int // requests, at least and at most
	}{
		"all succeeds":                {[]error{nil}, []error{nil}, nil, [2]int{1, 1}, [2]int{1, 1}},
		"only a refusal":              {[]error{nil}, []error{refused}, []error{errors.Unauthorized}, [2]int{1, 1}, [2]int{1, 1}},
		"a refusal beside an outage":  {[]error{away, away, nil}, []error{refused}, []error{errors.Unauthorized}, [2]int{3, 3}, [2]int{3, 3}},
		"an outage that does not end": {[]error{away}, []error{refused}, []error{errors.Unauthorized, errors.Unavailable}, [2]int{10, 60}, [2]int{10, 60}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShape()
				jobs := s.fails("delete", "jobs", tt.job...)
				roles := s.fails("delete", "clusterroles", tt.clusterRole...)
				res, err := snapshotter.Run(t.Context(), s.o)
				if res == nil || (err == nil) != (tt.want == nil) {
					t.Errorf("%v, %v", res, err)
				}
				for _, want := range tt.want {
					if !stderrors.Is(err, want) {
						t.Errorf("%v, want %v in it", err, want)
					}
				}
				for kind, n := range map[string]struct {
					got  int
					want [2]int
				}{"Job": {*jobs, tt.jobs}, "ClusterRole": {*roles, tt.roles}} {
					if n.got < n.want[0] || n.got > n.want[1] {
						t.Errorf("the %s was deleted %d times, want %v", kind, n.got, n.want)
					}
				}
			})
		})
	}
}
