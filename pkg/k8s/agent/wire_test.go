package agent_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/NVIDIA/aicr/internal/devcluster/devtest"
)

// tripper stands between a client and the server.
type tripper func(next http.RoundTripper, r *http.Request) (*http.Response, error)

// roundTripper is a function as an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// through returns an administrator's client whose requests pass through f.
func through(t testing.TB, f tripper) kubernetes.Interface {
	t.Helper()
	return clientOf(t, devtest.Cluster(t).Config(), f)
}

// clientOf returns a client whose requests pass through f where that is set.
func clientOf(t testing.TB, config *rest.Config, f tripper) kubernetes.Interface {
	t.Helper()
	if f != nil {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) { return f(next, r) })
		})
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// tap sees every request of a client, and may be told meanwhile to answer
// them. Without a tripper they go to the server.
type tap struct {
	mu   sync.Mutex
	f    tripper
	seen []string // method and path
}

func (x *tap) set(f tripper) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.f, x.seen = f, nil
}

// requests returns those of a method since the last set, or all of them.
func (x *tap) requests(method string) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(x.seen), func(s string) bool { return !strings.HasPrefix(s, method) })
}

func (x *tap) trip(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	x.mu.Lock()
	x.seen = append(x.seen, r.Method+" "+r.URL.Path)
	f := x.f
	x.mu.Unlock()
	if f == nil {
		return next.RoundTrip(r)
	}
	return f(next, r)
}

// about reports whether a request is of that method and about that resource,
// such as "roles".
func about(r *http.Request, method, resource string) bool {
	return r.Method == method && strings.Contains(r.URL.Path+"/", "/"+resource+"/")
}

// status answers a request in place of the server.
func status(r *http.Request, code int, reason metav1.StatusReason) (*http.Response, error) {
	return answer(r, code, metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: "answered by the test",
	})
}

func answer(r *http.Request, code int, body any) (*http.Response, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(text)), Request: r,
	}, nil
}
