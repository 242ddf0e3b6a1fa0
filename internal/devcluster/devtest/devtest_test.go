package devtest_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/NVIDIA/aicr/internal/devcluster/devtest"
)

func TestMain(m *testing.M) { os.Exit(devtest.Main(m, devtest.Options{})) }

func TestNamespacesAreDistinct(t *testing.T) {
	if a, b := devtest.Namespace(t), devtest.Namespace(t); a == b {
		t.Errorf("two namespaces of one test are both %s", a)
	}
}

func TestNodeHasTheAgentsImage(t *testing.T) {
	node, image := devtest.Node(t), devtest.Image(t)
	namespace, client := devtest.Namespace(t), devtest.Client(t)
	pods := client.CoreV1().Pods(namespace)
	_, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "agent"},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{
				Name: "aicr", Image: image, Command: []string{"aicr"}, Args: []string{"version"},
				SecurityContext: &corev1.SecurityContext{RunAsNonRoot: new(true), ReadOnlyRootFilesystem: new(true)},
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	devtest.Eventually(t, "the pod to end well", time.Minute, func(ctx context.Context) error {
		pod, err := pods.Get(ctx, "agent", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodSucceeded {
			return errors.New(pod.Status.String())
		}
		if pod.Spec.NodeName != node.Name() {
			t.Errorf("it ran on %q, want %q", pod.Spec.NodeName, node.Name())
		}
		return nil
	})
	log, err := pods.GetLogs("agent", &corev1.PodLogOptions{}).DoRaw(t.Context())
	if err != nil || !strings.Contains(string(log), "aicr") {
		t.Errorf("the pod's log: %q, %v", log, err)
	}
}
