package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/k8s/labels"
)

// fault is one thing that can happen at a request.
type fault struct {
	name string
	// at tells at which requests it makes sense; nil means at all.
	at func(scenario, request) bool
	// strike answers the request in place of the server.
	strike func(*blow) (*http.Response, error)
	// codes are those that a call may end with because of it. A call that
	// succeeds in spite of it is judged by what it promised.
	codes []errors.Code
	// interrupts says that calls may end with the caller's context.
	interrupts bool
	// lasts says that the server stays away until the case heals it.
	lasts bool
	// wide says that it hits all requests under way, so that an error may
	// name another than the one struck.
	wide bool
	// kills says that the fault stops the API server, so that its cases need
	// a cluster of their own.
	kills bool
}

// blow is a fault happening.
type blow struct {
	wire    *wire
	request *http.Request
	about   object
}

// faults are all that can happen at one request.
func faults() []fault {
	unavailable, internal := []errors.Code{errors.Unavailable}, []errors.Code{errors.Internal}
	conflict, gone := []errors.Code{errors.Conflict}, []errors.Code{errors.NotFound, errors.Conflict}
	return []fault{
		{name: "refused", codes: unavailable, strike: func(*blow) (*http.Response, error) { return nil, refused() }},
		{name: "answer lost", codes: unavailable, strike: func(b *blow) (*http.Response, error) {
			b.wire.carryOut(b.request)
			return nil, reset()
		}},
		{name: "no answer in time", codes: unavailable, strike: func(*blow) (*http.Response, error) {
			return nil, &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}
		}},
		{name: "500", codes: internal, strike: func(b *blow) (*http.Response, error) {
			return b.answer(http.StatusInternalServerError, false)
		}},
		{name: "500 but done", codes: internal, strike: func(b *blow) (*http.Response, error) {
			return b.answer(http.StatusInternalServerError, true)
		}},
		{name: "503, retry", codes: unavailable, strike: func(b *blow) (*http.Response, error) {
			return b.answer(http.StatusServiceUnavailable, false)
		}},
		{name: "503, retry, but done", codes: unavailable, strike: func(b *blow) (*http.Response, error) {
			return b.answer(http.StatusServiceUnavailable, true)
		}},
		{name: "429, retry", codes: unavailable, strike: func(b *blow) (*http.Response, error) {
			return b.answer(http.StatusTooManyRequests, false)
		}},
		{name: "504 but done", codes: unavailable, strike: func(b *blow) (*http.Response, error) {
			return b.answer(http.StatusGatewayTimeout, true)
		}},
		{name: "no answer, done late", codes: unavailable, at: isCreate, strike: func(b *blow) (*http.Response, error) {
			b.wire.postpone(b.request)
			return nil, reset()
		}},
		{name: "time over", wide: true, codes: []errors.Code{errors.Timeout}, strike: func(b *blow) (*http.Response, error) {
			return b.interrupted(context.DeadlineExceeded, b.wire.carryOut)
		}},
		{name: "time over, done late", wide: true, codes: []errors.Code{errors.Timeout}, at: isCreate, strike: func(b *blow) (*http.Response, error) {
			return b.interrupted(context.DeadlineExceeded, b.wire.postpone)
		}},
		{name: "cancelled", wide: true, interrupts: true, strike: func(b *blow) (*http.Response, error) {
			return b.interrupted(context.Canceled, func(*http.Request) {})
		}},
		{name: "cancelled but done", wide: true, interrupts: true, strike: func(b *blow) (*http.Response, error) {
			return b.interrupted(context.Canceled, b.wire.carryOut)
		}},
		{name: "cancelled, done late", wide: true, interrupts: true, at: isCreate, strike: func(b *blow) (*http.Response, error) {
			return b.interrupted(context.Canceled, b.wire.postpone)
		}},
		{name: "server away from here on", wide: true, codes: unavailable, lasts: true, strike: func(b *blow) (*http.Response, error) {
			b.wire.leave()
			return nil, refused()
		}},
		{name: "server away after it acted", wide: true, codes: unavailable, lasts: true, strike: func(b *blow) (*http.Response, error) {
			b.wire.carryOut(b.request)
			b.wire.leave()
			return nil, reset()
		}},
		{name: "foreign object in the way", codes: conflict, at: canStandInTheWay, strike: func(b *blow) (*http.Response, error) {
			b.take(b.wire.otherInvocation())
			return b.wire.forward(b.request)
		}},
		{name: "replaced right after", codes: gone, at: canBeReplaced, strike: func(b *blow) (*http.Response, error) {
			resp, err := b.wire.forward(b.request)
			// Every label of ours, so that only the UID tells.
			b.replace(b.wire.exactLabels())
			return resp, err
		}},
		{name: "lost, then replaced", codes: unavailable, at: isCreate, strike: func(b *blow) (*http.Response, error) {
			b.wire.carryOut(b.request)
			b.replace(b.wire.otherInvocation())
			return nil, reset()
		}},
		{name: "lost, then replaced, no labels", codes: unavailable, at: isCreate, strike: func(b *blow) (*http.Response, error) {
			b.wire.carryOut(b.request)
			b.replace(nil)
			return nil, reset()
		}},
		{name: "lost, then gone", codes: unavailable, at: isCreate, strike: func(b *blow) (*http.Response, error) {
			b.wire.carryOut(b.request)
			b.wire.world.remove(context.Background(), b.about)
			return nil, reset()
		}},
		{name: "refused, then taken", codes: unavailable, at: isCreate, strike: func(b *blow) (*http.Response, error) {
			b.take(b.wire.otherInvocation())
			return nil, refused()
		}},
		{name: "cleaned up meanwhile", wide: true, codes: gone, at: isNoDelete, strike: func(b *blow) (*http.Response, error) {
			b.wire.cleanup()
			return b.wire.forward(b.request)
		}},
		{name: "server killed", wide: true, codes: unavailable, kills: true, at: isWorthARestart, strike: func(b *blow) (*http.Response, error) {
			b.wire.carryOut(b.request)
			b.wire.restart()
			return nil, reset()
		}},
	}
}

// isWorthARestart: a restart takes seconds, so it happens in the plainest
// scenario, and at what is stored or waited for.
func isWorthARestart(s scenario, r request) bool {
	return s.name == ownIdentity && !r.reviews()
}

func isNoDelete(_ scenario, r request) bool { return r.verb != "delete" }

func isCreate(_ scenario, r request) bool { return r.creates() }

// canStandInTheWay: at what the run creates, and at the name of the staging
// ConfigMap when the gate looks at it.
func canStandInTheWay(s scenario, r request) bool {
	return r.creates() || r.verb == "create" && r.resource == "namespaces" || gateLooks(s, r) && !s.absent
}

// canBeReplaced: what is about one object of a kind that a run creates.
func canBeReplaced(s scenario, r request) bool {
	_, ok := kinds()[r.resource]
	return ok && r.name != "" && (!gateLooks(s, r) || !s.absent)
}

func gateLooks(s scenario, r request) bool {
	return !s.keeps && r.verb == "get" && r.resource == "configmaps" && r.nth == 1
}

// take puts a foreign object at a name that is free.
func (b *blow) take(with map[string]string) {
	w := b.wire.world
	w.place(b.about, with)
	if b.about.resource == "jobs" && !w.stands(w.staging()) {
		w.place(w.staging(), nil) // what that Job's agent, an older one, has written
	}
}

// replace puts a foreign object in the place of what stands there.
func (b *blow) replace(with map[string]string) {
	b.wire.world.remove(context.Background(), b.about)
	b.take(with)
}

// exactLabels are those that the Deployer puts on its objects.
func (x *wire) exactLabels() map[string]string {
	invocation := x.record().invocation
	if invocation == "" {
		return nil // nothing was created yet
	}
	return labels.ForRun(x.world.runID, invocation)
}

// otherInvocation are the labels of a second Deployer with the same run ID.
func (x *wire) otherInvocation() map[string]string {
	return labels.ForRun(x.world.runID, "another-invocation")
}

// interrupted ends the caller's context. A request that does not end with it
// goes its way; of one that does, aborted says what becomes on the way.
func (b *blow) interrupted(cause error, aborted func(*http.Request)) (*http.Response, error) {
	b.wire.interrupt(cause)
	select {
	case <-b.request.Context().Done():
		aborted(b.request)
		return nil, b.request.Context().Err()
	case <-time.After(aMoment):
		return b.wire.forward(b.request)
	}
}

// aMoment is what the end of a context takes to reach the contexts made from it.
const aMoment = 100 * time.Millisecond

// leave makes the server unreachable until heal.
func (x *wire) leave() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.away = true
}

func refused() error { return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED} }

func reset() error { return &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET} }

// answer gives an error's status, either in place of the server or after it
// has acted. 503 and 429 ask for another try, which client-go makes.
func (b *blow) answer(code int, done bool) (*http.Response, error) {
	if done {
		b.wire.carryOut(b.request)
	}
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Message: fmt.Sprintf("fault %d", code),
		Reason: map[int]metav1.StatusReason{
			http.StatusInternalServerError: metav1.StatusReasonInternalError,
			http.StatusServiceUnavailable:  metav1.StatusReasonServiceUnavailable,
			http.StatusTooManyRequests:     metav1.StatusReasonTooManyRequests,
			http.StatusGatewayTimeout:      metav1.StatusReasonTimeout,
		}[code],
	})
	if err != nil {
		return nil, err
	}
	header := http.Header{"Content-Type": {"application/json"}}
	if code == http.StatusServiceUnavailable || code == http.StatusTooManyRequests {
		header.Set("Retry-After", "1")
	}
	return &http.Response{
		StatusCode: code, Status: fmt.Sprintf("%d %s", code, http.StatusText(code)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: b.request,
	}, nil
}
