package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/NVIDIA/aicr/internal/devcluster/devtest"
	"github.com/NVIDIA/aicr/pkg/collector/apiserver"
)

// The server forgets what is more than a second or two old, as others do after
// five minutes.
func TestMain(m *testing.M) {
	os.Exit(devtest.Main(m, devtest.Options{NoControllers: true, APIServerArgs: []string{"--etcd-compaction-interval=1s"}}))
}

func TestAListWhoseStateTheServerForgetsGoesOnInALaterOne(t *testing.T) {
	devtest.OwnCluster(t)
	client, namespace := devtest.Client(t), devtest.Namespace(t)
	create := func(name string) {
		t.Helper()
		_, err := client.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	var want []string
	for i := range 9 {
		want = append(want, fmt.Sprintf("cm-%d", i))
		create(want[i])
	}
	var got []string
	requests, expired := 0, 0
	list := func(ctx context.Context, o metav1.ListOptions) (*corev1.ConfigMapList, error) {
		requests++
		page, err := client.CoreV1().ConfigMaps(namespace).List(ctx, o)
		if apierrors.IsResourceExpired(err) {
			expired++
		}
		return page, err
	}
	consistent, err := apiserver.Pages(t.Context(), 4, list, func(page *corev1.ConfigMapList) {
		for _, cm := range page.Items {
			got = append(got, cm.Name)
		}
		if len(got) != 4 {
			return
		}
		// Changes, until the state of the first page is gone.
		create("cm-9")
		want = append(want, "cm-9")
		n := 0
		devtest.Eventually(t, "the first state is forgotten", time.Minute, func(ctx context.Context) error {
			n++
			create(fmt.Sprintf("a-%d", n)) // before what is left to read
			_, err := client.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{Limit: 4, Continue: page.Continue})
			if !apierrors.IsResourceExpired(err) {
				return fmt.Errorf("not yet: %w", errors.Join(err, ctx.Err()))
			}
			return nil
		})
	})
	if err != nil || consistent || expired != 1 {
		t.Errorf("consistent %t, expired %d times, %v", consistent, expired, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if requests != 4 {
		t.Errorf("%d requests for three pages, one of them refused once", requests)
	}
}

func TestAListThatCannotGoOnEndsWithItsError(t *testing.T) {
	for name, status := range map[string]*apierrors.StatusError{
		"no token offered":       apierrors.NewResourceExpired("gone"),
		"the same token offered": withToken("next"),
		"another error":          apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no")),
	} {
		calls := 0
		_, err := apiserver.Pages(t.Context(), 1, func(_ context.Context, o metav1.ListOptions) (*corev1.PodList, error) {
			if calls++; calls > 3 {
				t.Fatal("it does not end")
			}
			if o.Continue != "" {
				return nil, status
			}
			return &corev1.PodList{ListMeta: metav1.ListMeta{Continue: "next"}}, nil
		}, func(*corev1.PodList) {})
		if !errors.Is(err, status) || calls != 2 {
			t.Errorf("%s: %v after %d requests", name, err, calls)
		}
	}
}

func withToken(token string) *apierrors.StatusError {
	e := apierrors.NewResourceExpired("gone")
	e.ErrStatus.Continue = token
	return e
}

func TestReasonsTellApartWhatToDo(t *testing.T) {
	_, lost := http.Get("http://127.0.0.1:1") //nolint:bodyclose // nobody answers
	for _, c := range []struct {
		err  error
		want string
	}{
		{apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no")), "forbidden: the agent may not list pods"},
		{apierrors.NewUnauthorized("no"), "unauthorized: the API server does not accept the agent's credentials"},
		{apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "x"), `not found: the cluster has no pod "x"`},
		{fmt.Errorf("wait: %w", context.DeadlineExceeded), "the API server gave no answer in time"},
		{apierrors.NewBadRequest("bad"), "the API server refused: bad"},
		{lost, "the API server cannot be reached: "},
		{io.ErrUnexpectedEOF, "the API server's answer cannot be read: unexpected EOF"},
	} {
		if got := apiserver.Reason(c.err, "list pods", `pod "x"`); !strings.HasPrefix(got, c.want) {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}
