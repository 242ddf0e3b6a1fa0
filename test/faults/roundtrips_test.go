package faults

import (
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/NVIDIA/aicr/internal/devcluster/devtest"
)

// What a clean run in prefix mode may cost where the namespace stands and the
// server's rules review is complete: requests, and one after the other on its
// critical path.
const (
	maxRequests   = 40
	maxRoundTrips = 8
)

// TestRequestsAndRoundTripsOfACleanRun counts from Deploy to the end of
// Cleanup. The pod's own time is apart, and with it the watch for the Job,
// which is opened while the pod starts.
func TestRequestsAndRoundTripsOfACleanRun(t *testing.T) {
	t.Parallel()
	c := newRun(t, devtest.OwnCluster(t).Config(), scenarios()[0])
	_, err := c.admin.CoreV1().Namespaces().Patch(t.Context(), c.namespace, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"app.kubernetes.io/managed-by":"aicr"}}}`), metav1.PatchOptions{})
	c.must(err)
	l := &lockstep{next: c.next}
	c.next = l
	c.play()
	c.judge()
	got := c.record().requests
	if len(got) > maxRequests {
		t.Errorf("%d requests, at most %d are allowed:\n%s", len(got), maxRequests, lines(got))
	}
	trips := slices.DeleteFunc(l.rounds, func(round []string) bool {
		return !slices.ContainsFunc(round, func(verb string) bool { return verb != "watch jobs" && verb != "list jobs" })
	})
	if len(trips) > maxRoundTrips {
		t.Errorf("%d round trips one after the other, at most %d are allowed:\n%s", len(trips), maxRoundTrips, lines(trips))
	}
	t.Logf("%d requests in %d round trips:\n%s", len(got), len(trips), lines(trips))
}

// lockstep lets requests go in rounds: those that are ready together go
// together, and the next round begins when all are answered and the client has
// had the time to make what follows from them. The rounds are the critical
// path of a client whose requests all take the same time.
type lockstep struct {
	next http.RoundTripper

	mu      sync.Mutex
	timer   *time.Timer
	flying  int
	waiting []*held
	rounds  [][]string
}

type held struct {
	what string
	free chan struct{}
}

// settle is what the client gets to make its next requests, on a machine that
// is busy with other tests too.
const settle = 250 * time.Millisecond

// RoundTrip implements http.RoundTripper.
func (l *lockstep) RoundTrip(r *http.Request) (*http.Response, error) {
	req, _, _, err := parse(r)
	if err != nil {
		return nil, err
	}
	h := &held{req.verb + " " + req.resource, make(chan struct{})}
	l.mu.Lock()
	l.waiting = append(l.waiting, h)
	l.wait()
	l.mu.Unlock()
	<-h.free
	resp, err := l.next.RoundTrip(r)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flying--
	l.wait()
	return resp, err
}

// wait begins the next round once it has been quiet for a moment.
func (l *lockstep) wait() {
	if l.timer == nil {
		l.timer = time.AfterFunc(settle, l.release)
	}
	l.timer.Reset(settle)
}

func (l *lockstep) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.flying > 0 || len(l.waiting) == 0 {
		return
	}
	var round []string
	for _, h := range l.waiting {
		round = append(round, h.what)
		close(h.free)
	}
	slices.Sort(round)
	l.rounds = append(l.rounds, round)
	l.flying, l.waiting = len(l.waiting), nil
}
