// Package agenttest helps to test code that uses an agent.Deployer with
// client-go's fake clientset. A fake answers no access review by itself, gives
// no UIDs, ignores preconditions and enforces no permission: it shows shapes,
// not what an API server decides.
package agenttest

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/testing"
)

// AllowAccessReviews makes a fake clientset answer every access review with
// yes, as an administrator is answered.
func AllowAccessReviews(fake interface {
	PrependReactor(verb, resource string, reaction testing.ReactionFunc)
}) {
	fake.PrependReactor("create", "*", func(action testing.Action) (bool, runtime.Object, error) {
		create, ok := action.(testing.CreateAction)
		if !ok {
			return false, nil, nil
		}
		switch review := create.GetObject().DeepCopyObject().(type) {
		case *authorizationv1.SelfSubjectAccessReview:
			review.Status.Allowed = true
			return true, review, nil
		case *authorizationv1.SubjectAccessReview:
			review.Status.Allowed = true
			return true, review, nil
		}
		return false, nil, nil
	})
}
