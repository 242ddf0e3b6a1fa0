package agent_test

import (
	"context"
	stderrors "errors"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/NVIDIA/aicr/internal/devcluster"
	"github.com/NVIDIA/aicr/internal/devcluster/devtest"
	"github.com/NVIDIA/aicr/pkg/runid"
)

// requestsOf returns what the API server has recorded of these scenes' users,
// wherever it was about: in any namespace and in none. Where the cluster is
// not ours there is no record, and ok is false.
func requestsOf(t *testing.T, scenes ...*scene) (byUser map[string][]devcluster.AuditEvent, ok bool) {
	t.Helper()
	cluster := devtest.Cluster(t)
	if cluster.Attached() {
		return nil, false
	}
	// A request is recorded before it is answered, so that what was answered
	// before this one is there when this one is.
	last := "last-" + runid.Generate()
	_, _ = devtest.Client(t).CoreV1().ConfigMaps("default").Get(t.Context(), last, metav1.GetOptions{})
	byUser = map[string][]devcluster.AuditEvent{}
	devtest.Eventually(t, "the audit log", time.Minute, func(context.Context) error {
		events, err := cluster.AuditEvents()
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(events, func(e devcluster.AuditEvent) bool { return e.Name == last }) {
			return stderrors.New("the last request is not recorded yet")
		}
		for _, e := range events {
			if slices.ContainsFunc(scenes, func(s *scene) bool { return s.user == e.User }) {
				byUser[e.User] = append(byUser[e.User], e)
			}
		}
		return nil
	})
	return byUser, true
}

// onlyReviewed fails unless all that the scenes' users sent are reads and
// access reviews.
func onlyReviewed(t *testing.T, scenes ...*scene) {
	t.Helper()
	byUser, ok := requestsOf(t, scenes...)
	if !ok {
		return
	}
	for _, s := range scenes {
		var reviews int
		for _, e := range byUser[s.user] {
			switch {
			case e.APIGroup == "authorization.k8s.io" && e.Verb == "create":
				reviews++
			case e.Verb != "get" && e.Verb != "list" && e.Verb != "watch":
				t.Errorf("%s sent %s %s", s.user, e.Verb, e.URI)
			}
		}
		if reviews == 0 {
			t.Errorf("no review of %s is recorded: the test shows nothing", s.user)
		}
	}
}
