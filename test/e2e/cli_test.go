package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/NVIDIA/aicr/internal/devcluster/devtest"
	"github.com/NVIDIA/aicr/pkg/runid"
)

// process is the program that a user runs, against the package's cluster.
func process(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	devtest.Node(t)
	ctx, cancel := context.WithTimeout(context.Background(), runLimit)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, devtest.Binary(t), args...)
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "KUBECONFIG=" + devtest.Cluster(t).Kubeconfig()}
	return cmd
}

// outcome is how a process ended.
type outcome struct {
	stdout, stderr string
	code           int
}

func finish(t *testing.T, cmd *exec.Cmd) outcome {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return outcome{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

func TestC5_TheProgramDeliversToStandardOutputAndToAFile(t *testing.T) {
	t.Parallel()
	ns := devtest.Namespace(t)
	got := finish(t, process(t, "snapshot", "-n", ns))
	if got.code != 0 {
		t.Fatalf("exit code %d: %s", got.code, got.stderr)
	}
	if s := decode(t, []byte(got.stdout)); s.Metadata.SourceNode != node(t).Name {
		t.Errorf("source node %q", s.Metadata.SourceNode)
	}
	file := filepath.Join(t.TempDir(), "snapshot.json")
	got = finish(t, process(t, "snapshot", "-n", ns, "-o", file, "-t", "json", "--node", node(t).Name))
	if got.code != 0 || got.stdout != "" {
		t.Fatalf("exit code %d, standard output %q: %s", got.code, got.stdout, got.stderr)
	}
	data, err := os.ReadFile(file)
	if err != nil || !bytes.HasPrefix(data, []byte("{")) {
		t.Errorf("%v: %.80s", err, data)
	}
	leftOf(t, ns)
}

func TestC32_AnImageThatIsNotThereIsNamedWhenTimeIsOver(t *testing.T) {
	t.Parallel()
	ns := devtest.Namespace(t)
	got := finish(t, process(t, "snapshot", "-n", ns, "--image", "127.0.0.1:9/no-such:v1", "--timeout", "8s"))
	if got.code != 5 || !strings.Contains(got.stderr, "127.0.0.1:9/no-such:v1") || !strings.Contains(got.stderr, "Pull") || got.stdout != "" {
		t.Errorf("exit code %d:\n%s", got.code, got.stderr)
	}
	leftOf(t, ns)
}

func TestC8_ARunIDUsedBeforeIsAConflict(t *testing.T) {
	t.Parallel()
	ns, id := devtest.Namespace(t), runid.Generate()
	first := finish(t, process(t, "snapshot", "-n", ns, "--run-id", id, "--no-cleanup"))
	if first.code != 0 || !strings.Contains(first.stderr, "aicr.run/run-id="+id) {
		t.Fatalf("exit code %d: %s", first.code, first.stderr)
	}
	second := finish(t, process(t, "snapshot", "-n", ns, "--run-id", id))
	if second.code != 2 || !strings.Contains(second.stderr, id) {
		t.Errorf("exit code %d: %s", second.code, second.stderr)
	}
	// What the first run left is as it was, and the documented selector finds it.
	selector := "app.kubernetes.io/managed-by=aicr,app.kubernetes.io/component=snapshot-agent,aicr.run/run-id=" + id
	kinds := "job,pod,serviceaccount,role,rolebinding,clusterrole,clusterrolebinding"
	out, err := devtest.Cluster(t).Kubectl(t.Context(), "get", kinds, "-A", "-l", selector, "-o", "name").CombinedOutput()
	if lines := strings.Fields(string(out)); err != nil || len(lines) != 7 {
		t.Errorf("%v: %s", err, out)
	}
	out, err = devtest.Cluster(t).Kubectl(t.Context(), "delete", "job,clusterrole,clusterrolebinding", "-A", "-l", selector).CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	leftOf(t, ns)
}

func TestC22_AnInterruptedProgramLeavesNothingAndExits130(t *testing.T) {
	t.Parallel()
	for _, sig := range []struct {
		signal syscall.Signal
		code   int
	}{{syscall.SIGINT, 130}, {syscall.SIGTERM, 143}} {
		t.Run(sig.signal.String(), func(t *testing.T) {
			t.Parallel()
			ns := devtest.Namespace(t)
			// The image cannot be pulled, so that the run is waiting.
			cmd := process(t, "snapshot", "-n", ns, "--image", "127.0.0.1:9/no-such:v1")
			stderr, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			sent := false
			for lines := bufio.NewReader(stderr); ; {
				line, err := lines.ReadString('\n')
				text.WriteString(line)
				if strings.Contains(line, "RoleBinding") && !sent {
					sent = true
					if err := cmd.Process.Signal(sig.signal); err != nil {
						t.Fatal(err)
					}
				}
				if errors.Is(err, io.EOF) {
					break
				}
			}
			_ = cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != sig.code || !sent {
				t.Errorf("exit code %d, want %d:\n%s", got, sig.code, text.String())
			}
			leftOf(t, ns)
		})
	}
}

// leftOf fails unless nothing of a run is left in a namespace or of its
// cluster-scoped objects.
func leftOf(t *testing.T, ns string) {
	t.Helper()
	client := devtest.Client(t)
	devtest.Eventually(t, "nothing is left in "+ns, 20*time.Second, func(ctx context.Context) error {
		o := metav1.ListOptions{}
		pods, err := client.CoreV1().Pods(ns).List(ctx, o)
		if err != nil {
			return err
		}
		jobs, err := client.BatchV1().Jobs(ns).List(ctx, o)
		if err != nil {
			return err
		}
		maps, err := client.CoreV1().ConfigMaps(ns).List(ctx, o)
		if err != nil {
			return err
		}
		roles, err := client.RbacV1().Roles(ns).List(ctx, o)
		if err != nil {
			return err
		}
		bindings, err := client.RbacV1().ClusterRoleBindings().List(ctx, o)
		if err != nil {
			return err
		}
		// Kubernetes itself puts one ConfigMap into a namespace.
		left := len(pods.Items) + len(jobs.Items) + len(maps.Items) - 1 + len(roles.Items)
		for _, b := range bindings.Items {
			if len(b.Subjects) > 0 && b.Subjects[0].Namespace == ns {
				left++
			}
		}
		if left > 0 {
			return fmt.Errorf("%d pods, %d jobs, %d ConfigMaps, %d roles", len(pods.Items), len(jobs.Items), len(maps.Items), len(roles.Items))
		}
		return nil
	})
}
