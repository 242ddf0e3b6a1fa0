package apierror

import (
	"context"
	stderrors "errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/NVIDIA/aicr/pkg/errors"
)

func TestC5_AnswersOfTheAPIServerHaveCodes(t *testing.T) {
	cm := schema.GroupResource{Resource: "configmaps"}
	get := func(c *rest.Config) error {
		cs, err := kubernetes.NewForConfig(c)
		if err != nil {
			t.Fatal(err)
		}
		_, err = cs.CoreV1().Nodes().Get(t.Context(), "node", metav1.GetOptions{})
		return err
	}
	answer := func(handler http.HandlerFunc) error {
		srv := httptest.NewServer(handler)
		defer srv.Close()
		return get(&rest.Config{Host: srv.URL})
	}
	status := func(code int) error {
		return answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
	}
	late := func() error {
		asked := make(chan struct{})
		srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-asked }))
		defer srv.Close()
		defer close(asked)
		return get(&rest.Config{Host: srv.URL, Timeout: 10 * time.Millisecond})
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	tests := map[string]struct {
		err    error
		want   errors.Code
		advice bool
	}{
		"nil":                   {nil, "", false},
		"not found":             {apierrors.NewNotFound(cm, "x"), errors.NotFound, false},
		"forbidden":             {apierrors.NewForbidden(cm, "x", nil), errors.Unauthorized, false},
		"not logged in":         {apierrors.NewUnauthorized("no"), errors.Unauthorized, true},
		"credential plugin":     {fmt.Errorf(`Get "https://x": getting credentials: exec: it is not here`), errors.Unauthorized, true},
		"exists":                {apierrors.NewAlreadyExists(cm, "x"), errors.Conflict, false},
		"conflict":              {apierrors.NewConflict(cm, "x", nil), errors.Conflict, false},
		"invalid":               {apierrors.NewInvalid(schema.GroupKind{}, "x", nil), errors.InvalidRequest, false},
		"too large":             {apierrors.NewRequestEntityTooLargeError("x"), errors.InvalidRequest, false},
		"too many requests":     {apierrors.NewTooManyRequests("x", 1), errors.Unavailable, true},
		"server busy":           {apierrors.NewServerTimeout(cm, "get", 1), errors.Unavailable, true},
		"server took too long":  {apierrors.NewTimeoutError("x", 1), errors.Unavailable, true},
		"bad gateway":           {status(http.StatusBadGateway), errors.Unavailable, true},
		"gateway timeout":       {status(http.StatusGatewayTimeout), errors.Unavailable, true},
		"refused connection":    {get(&rest.Config{Host: gone.URL}), errors.Unavailable, true},
		"no connection in time": {get(&rest.Config{Host: gone.URL, Dial: (&net.Dialer{Timeout: 1}).DialContext}), errors.Unavailable, true},
		"answer cut off": {answer(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("{"))
		}), errors.Unavailable, true},
		"deadline":                     {fmt.Errorf("get: %w", context.DeadlineExceeded), errors.Timeout, false},
		"a client's own limit":         {late(), errors.Timeout, false},
		"cancelled":                    {context.Canceled, errors.Internal, false},
		"server's own failure":         {status(http.StatusInternalServerError), errors.Internal, false},
		"coded already":                {fmt.Errorf("x: %w", errors.New(errors.Conflict, "y")), errors.Conflict, false},
		"something else":               {stderrors.New("x"), errors.Internal, false},
		"wrapped, still coded":         {fmt.Errorf("x: %w", apierrors.NewNotFound(cm, "x")), errors.NotFound, false},
		"advice is kept, not replaced": {errors.New(errors.Unavailable, "x").WithAdvice("mine"), errors.Unavailable, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Code(tt.err); got != tt.want {
				t.Errorf("code %q, want %q", got, tt.want)
			}
			if tt.err == nil {
				return
			}
			e := Wrap(tt.err, "read %s", "x")
			if !stderrors.Is(e, tt.want) || !stderrors.Is(e, tt.err) || !strings.HasPrefix(e.Error(), "read x: ") {
				t.Errorf("wrapped: %v", e)
			}
			if a := errors.AdviceOf(e); (a != "") != tt.advice {
				t.Errorf("advice %q", a)
			}
			if name == "advice is kept, not replaced" && errors.AdviceOf(e) != "mine" {
				t.Errorf("advice %q", errors.AdviceOf(e))
			}
		})
	}
}
