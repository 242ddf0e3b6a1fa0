package apierror

import (
	"context"
	stderrors "errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/NVIDIA/aicr/pkg/errors"
)

func TestC5_AnswersOfTheAPIServerHaveCodes(t *testing.T) {
	cm := schema.GroupResource{Resource: "configmaps"}
	refused := func() error {
		srv := httptest.NewServer(http.NotFoundHandler())
		srv.Close()
		cs, err := kubernetes.NewForConfig(&rest.Config{Host: srv.URL})
		if err != nil {
			t.Fatal(err)
		}
		_, err = cs.CoreV1().Nodes().Get(t.Context(), "node", metav1.GetOptions{})
		return err
	}()
	tests := map[string]struct {
		err    error
		want   errors.Code
		advice bool
	}{
		"nil":                          {nil, "", false},
		"not found":                    {apierrors.NewNotFound(cm, "x"), errors.NotFound, false},
		"forbidden":                    {apierrors.NewForbidden(cm, "x", nil), errors.Unauthorized, false},
		"not logged in":                {apierrors.NewUnauthorized("no"), errors.Unauthorized, true},
		"credential plugin":            {fmt.Errorf(`Get "https://x": getting credentials: exec: it is not here`), errors.Unauthorized, true},
		"exists":                       {apierrors.NewAlreadyExists(cm, "x"), errors.Conflict, false},
		"conflict":                     {apierrors.NewConflict(cm, "x", nil), errors.Conflict, false},
		"invalid":                      {apierrors.NewInvalid(schema.GroupKind{}, "x", nil), errors.InvalidRequest, false},
		"too large":                    {apierrors.NewRequestEntityTooLargeError("x"), errors.InvalidRequest, false},
		"too many requests":            {apierrors.NewTooManyRequests("x", 1), errors.Unavailable, true},
		"server busy":                  {apierrors.NewServerTimeout(cm, "get", 1), errors.Unavailable, true},
		"gateway timeout":              {apierrors.NewTimeoutError("x", 1), errors.Timeout, false},
		"refused connection":           {refused, errors.Unavailable, true},
		"deadline":                     {fmt.Errorf("get: %w", context.DeadlineExceeded), errors.Timeout, false},
		"cancelled":                    {context.Canceled, errors.Internal, false},
		"server's own failure":         {apierrors.NewInternalError(stderrors.New("x")), errors.Internal, false},
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
