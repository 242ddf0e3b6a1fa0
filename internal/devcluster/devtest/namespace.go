package devtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// waitLimit bounds the waits for what takes a second on a quiet machine.
const waitLimit = time.Minute

// Client gives an administrator's client of the package's cluster.
func Client(t testing.TB) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(Cluster(t).Config())
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	return client
}

// Namespace makes a namespace for one test, with its default ServiceAccount,
// and gives its name. It is deleted when the test ends; its objects may take
// a moment longer to go.
func Namespace(t testing.TB) string {
	t.Helper()
	cluster, client := Cluster(t), Client(t)
	name := uniqueName(t)
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("make a namespace: %v", err)
	}
	t.Cleanup(func() {
		err := client.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("delete namespace %s: %v", name, err)
		}
	})
	accounts := client.CoreV1().ServiceAccounts(name)
	Eventually(t, "the default ServiceAccount of "+name, waitLimit, func(ctx context.Context) error {
		_, err := accounts.Get(ctx, "default", metav1.GetOptions{})
		if cluster.HasControllers() || !apierrors.IsNotFound(err) {
			return err
		}
		_, err = accounts.Create(ctx, &corev1.ServiceAccount{
			ObjectMeta: metav1.ObjectMeta{Name: "default"},
		}, metav1.CreateOptions{})
		return err
	})
	return name
}

// Eventually calls check until it gives nil, and fails the test with what it
// said last when that takes longer than limit.
func Eventually(t testing.TB, what string, limit time.Duration, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within %s: %v", what, limit, err)
		case <-tick.C:
		}
	}
}

// uniqueName makes a namespace's name that tells which test it is for.
func uniqueName(t testing.TB) string {
	t.Helper()
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(t.Name()))
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails: the runtime ends the program instead
	return "t-" + strings.Trim(clean[:min(len(clean), 40)], "-") + "-" + hex.EncodeToString(random[:])
}
