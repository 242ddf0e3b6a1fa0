package serializer

import (
	"cmp"
	"context"
	stderrors "errors"
	"fmt"
	"net/http"
	"net/url"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

var refused = &url.Error{Op: "Patch", URL: "https://cluster.invalid", Err: syscall.ECONNREFUSED}

// status is what client-go makes of a gateway's answer that holds no Status.
func status(code int) error {
	return apierrors.NewGenericServerResponse(code, "PATCH", resource, "out", "", 0, true)
}

func TestFailuresOfAServerAreWaitedOutAndNoOtherAnswers(t *testing.T) {
	passing := map[string]error{
		"forbidden":         forbidden,
		"refused":           refused,
		"too many requests": apierrors.NewTooManyRequests("x", 0),
		"server timeout":    apierrors.NewServerTimeout(resource, "patch", 0),
		"timeout":           apierrors.NewTimeoutError("x", 0),
		"internal error":    apierrors.NewInternalError(stderrors.New("etcd is away")),
	}
	for _, code := range []int{429, 500, 501, 502, 503, 504, 507, 520} {
		passing[fmt.Sprint("status ", code)] = status(code)
	}
	lasting := map[string]error{
		"invalid":       invalid,
		"unauthorized":  apierrors.NewUnauthorized("x"),
		"too large":     apierrors.NewRequestEntityTooLargeError("x"),
		"status 405":    status(http.StatusMethodNotAllowed),
		"our deadline":  context.DeadlineExceeded,
		"anything else": stderrors.New("x"),
	}
	for _, answers := range []map[string]error{passing, lasting} {
		for name, answer := range answers {
			t.Run(name, func(t *testing.T) {
				_, passes := passing[name]
				synctest.Test(t, func(t *testing.T) {
					var calls int
					err := defaultPauses().retry(t.Context(), func() error {
						if calls++; calls < 4 {
							return answer
						}
						return nil
					})
					if passes && (err != nil || calls != 4) || !passes && (!stderrors.Is(err, answer) || calls != 1) {
						t.Errorf("%d calls, %v", calls, err)
					}
				})
			})
		}
	}
}

// phase is what a server answers until so long after the first request.
type phase struct {
	until  time.Duration
	answer error
}

func TestC25_EachKindOfAnswerHasItsOwnTime(t *testing.T) {
	const forever = time.Hour
	tests := map[string]struct {
		phases []phase
		limit  time.Duration // of the context; 0: none
		want   error
		// over is when the last request is sent, within the longest pause.
		over time.Duration
	}{
		"forbidden too long":                    {[]phase{{forever, forbidden}}, 0, forbidden, 20 * time.Second},
		"away too long":                         {[]phase{{forever, refused}}, 0, refused, time.Minute},
		"rights arrive late after a restart":    {[]phase{{30 * time.Second, refused}, {48 * time.Second, forbidden}}, 0, nil, 48 * time.Second},
		"and not at all":                        {[]phase{{30 * time.Second, refused}, {forever, forbidden}}, 0, forbidden, 50 * time.Second},
		"away again":                            {[]phase{{50 * time.Second, refused}, {60 * time.Second, forbidden}, {110 * time.Second, status(502)}}, 0, nil, 110 * time.Second},
		"failures of a server are all one kind": {[]phase{{30 * time.Second, refused}, {50 * time.Second, status(500)}, {forever, status(503)}}, 0, status(503), time.Minute},
		"the context ends it":                   {[]phase{{30 * time.Second, refused}, {forever, forbidden}}, 35 * time.Second, context.DeadlineExceeded, 35 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), cmp.Or(tt.limit, forever))
				defer cancel()
				start := time.Now()
				var last time.Duration
				p := defaultPauses()
				err := p.retry(ctx, func() error {
					last = time.Since(start)
					for _, ph := range tt.phases {
						if last < ph.until {
							return ph.answer
						}
					}
					return nil
				})
				if tt.want == nil && err != nil || tt.want != nil && !stderrors.Is(err, tt.want) && err.Error() != tt.want.Error() {
					t.Errorf("%v, want %v", err, tt.want)
				}
				if last < tt.over-p.longest || last > tt.over+p.longest {
					t.Errorf("the last request after %s, want %s", last, tt.over)
				}
			})
		})
	}
}
