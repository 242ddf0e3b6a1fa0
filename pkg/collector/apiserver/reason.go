package apiserver

import (
	"context"
	"errors"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Reason tells why a request failed, so that what a person would do different
// things about is told apart. action is what was asked, in the words of a
// permission ("list pods"); object is what was asked for ("node \"a\"").
func Reason(err error, action, object string) string {
	switch {
	case apierrors.IsForbidden(err):
		return "forbidden: the agent may not " + action
	case apierrors.IsUnauthorized(err):
		return "unauthorized: the API server does not accept the agent's credentials"
	case apierrors.IsNotFound(err):
		return "not found: the cluster has no " + object
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "the API server gave no answer in time"
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return "the API server refused: " + err.Error()
	}
	var lost *url.Error
	if errors.As(err, &lost) {
		return "the API server cannot be reached: " + err.Error()
	}
	return "the API server's answer cannot be read: " + err.Error()
}
