// Package apierror gives the errors that requests to an API server end with the
// codes of package errors.
package apierror

import (
	"context"
	stderrors "errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/NVIDIA/aicr/pkg/errors"
)

// Code classifies the error that a request to the API server ended with. An
// error that has a code already keeps it; nil is "". Timeout is the caller's own
// limit, a context's deadline; a server, a gateway or a network that took too
// long is Unavailable.
func Code(err error) errors.Code {
	var coded *errors.Error
	var opErr *net.OpError
	var netErr net.Error
	var urlErr *url.Error
	switch {
	case err == nil:
		return ""
	case stderrors.As(err, &coded):
		return coded.Code
	case apierrors.IsNotFound(err):
		return errors.NotFound
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return errors.Unauthorized
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err):
		return errors.Conflict
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
		return errors.InvalidRequest
	case apierrors.IsServiceUnavailable(err), apierrors.IsTooManyRequests(err), apierrors.IsServerTimeout(err),
		apierrors.IsTimeout(err), Status(err) == http.StatusBadGateway, Status(err) == http.StatusGatewayTimeout:
		return errors.Unavailable
	case stderrors.As(err, &opErr): // before the deadline: a dialer's own limit claims to be one
		return errors.Unavailable
	case stderrors.Is(err, context.DeadlineExceeded):
		return errors.Timeout
	case stderrors.Is(err, context.Canceled):
		return errors.Internal
	case credentialsFailed(err):
		return errors.Unauthorized
	case stderrors.As(err, &netErr), stderrors.As(err, &urlErr), stderrors.Is(err, io.ErrUnexpectedEOF):
		return errors.Unavailable
	}
	return errors.Internal
}

// Status is the HTTP status that the API server, or a gateway before it,
// answered with; 0 where err is no answer.
func Status(err error) int {
	var answer apierrors.APIStatus
	if !stderrors.As(err, &answer) {
		return 0
	}
	return int(answer.Status().Code)
}

// Wrap returns err with the code of Code and, where there is something to
// say that holds for every request, an advice. The format tells what was
// attempted on which object.
func Wrap(err error, format string, args ...any) *errors.Error {
	e := errors.Wrap(Code(err), err, format, args...)
	switch {
	case errors.AdviceOf(err) != "":
		return e
	case apierrors.IsUnauthorized(err), credentialsFailed(err):
		return e.WithAdvice("renew the credentials of this kubeconfig context")
	case e.Code == errors.Unavailable:
		return e.WithAdvice("check that the API server runs and can be reached from here: kubectl get --raw /readyz")
	}
	return e
}

// credentialsFailed reports whether no request was sent because a credential
// plugin gave nothing. client-go has no type for that, only this text.
func credentialsFailed(err error) bool {
	return strings.Contains(err.Error(), "getting credentials: ")
}
