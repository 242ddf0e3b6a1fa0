package devcluster_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/NVIDIA/aicr/internal/devcluster"
	"github.com/NVIDIA/aicr/internal/devcluster/devtest"
)

// One test goes through a node's life, for its parts build on each other.
func TestNodeRunsPodsAndLeavesNothing(t *testing.T) {
	requireNode(t)
	cluster := start(t, devcluster.Options{})
	before := machineState(t)
	node := startNode(t, cluster)
	dir := filepath.Dir(cluster.Kubeconfig())

	if err := node.LoadImage(t.Context(), packInPod(t)); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*corev1.PodSpec){
		"plain":   func(*corev1.PodSpec) {},
		"network": func(s *corev1.PodSpec) { s.HostNetwork = true },
		"privileged": func(s *corev1.PodSpec) {
			s.HostNetwork, s.HostPID = true, true
			s.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true), RunAsUser: new(int64(0))}
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := "system:serviceaccount:default:default\n"
			if got := runJob(t, cluster, name, change); got != want {
				t.Errorf("the API server takes the pod for %q, want %q", got, want)
			}
		})
	}

	t.Run("labels", func(t *testing.T) {
		got, err := clientFor(t, cluster).CoreV1().Nodes().Get(t.Context(), node.Name(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got.Labels["example.com/rack"] != "7" {
			t.Errorf("labels %v", got.Labels)
		}
		if kernel := strings.TrimSpace(command(t, "uname", "-r")); got.Status.NodeInfo.KernelVersion != kernel {
			t.Errorf("kernel %q, want %q", got.Status.NodeInfo.KernelVersion, kernel)
		}
	})

	if err := node.Stop(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, machineState(t)); diff != "" {
		t.Errorf("the machine is not as it was (-before +after):\n%s", diff)
	}
	if left := processesIn(t, filepath.Join(dir, "node")); len(left) > 0 {
		t.Errorf("processes left: %q", left)
	}
	checkNumberGone(t, node.IP())
}

// A node whose owner is killed cannot clean up, and yet takes no process,
// mount or device past its death.
func TestNodeDiesWithItsOwner(t *testing.T) {
	if dir := os.Getenv("DEVCLUSTER_TEST_OWNER_DIR"); dir != "" {
		ownNode(t, dir)
		return
	}
	requireNode(t)
	dir := filepath.Join(t.TempDir(), "c")
	owner := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNodeDiesWithItsOwner$")
	owner.Env = append(os.Environ(), "DEVCLUSTER_TEST_OWNER_DIR="+dir)
	out, err := owner.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the owner was not killed: %v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(dir), "address"))
	if err != nil {
		t.Fatal(err)
	}
	devtest.Eventually(t, "all that the owner had started to end", waitLimit, func(context.Context) error {
		if left := processesIn(t, dir); len(left) > 0 {
			return fmt.Errorf("processes left: %q", left)
		}
		return nil
	})
	number, release := holdNumber(t, string(text))
	if release == nil {
		return // another node has the number already, and with it the device's name
	}
	devtest.Eventually(t, "the node's device to go", waitLimit, func(context.Context) error {
		if _, err := os.Lstat(fmt.Sprintf("/sys/class/net/aicr%d", number)); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(errors.New("it is there"), err)
		}
		return nil
	})
	if err := release(); err != nil {
		t.Error(err)
	}
	if err := devcluster.SweepNodes(t.Context()); err != nil {
		t.Error(err)
	}
	checkNumberGone(t, string(text))
}

// ownNode is the owner's part: it has a node, and no time to stop it.
func ownNode(t *testing.T, dir string) {
	cluster, err := devcluster.Start(t.Context(), devcluster.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	node, err := cluster.StartNode(t.Context(), devcluster.NodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(dir), "address"), []byte(node.IP()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// runJob runs a Job to its completion and gives its pod's log.
func runJob(t *testing.T, cluster *devcluster.Cluster, name string, change func(*corev1.PodSpec)) string {
	t.Helper()
	spec := corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Containers:    []corev1.Container{{Name: "inpod", Image: "aicr.local/inpod:1", Command: []string{"inpod"}}},
	}
	change(&spec)
	client := clientFor(t, cluster)
	_, err := client.BatchV1().Jobs("default").Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: batchv1.JobSpec{
			BackoffLimit: new(int32(0)),
			Template:     corev1.PodTemplateSpec{Spec: spec},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	devtest.Eventually(t, "the Job to end", waitLimit, func(ctx context.Context) error {
		job, err := client.BatchV1().Jobs("default").Get(ctx, name, metav1.GetOptions{})
		if err == nil && job.Status.Succeeded+job.Status.Failed == 0 {
			err = errors.New("it runs")
		}
		return err
	})
	out, err := cluster.Kubectl(t.Context(), "logs", "job/"+name).CombinedOutput()
	if err != nil {
		t.Fatalf("read the Job's log: %v\n%s", err, out)
	}
	return string(out)
}

// packInPod builds testdata/inpod and packs it, and gives the archive's path.
func packInPod(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "inpod"), "./testdata/inpod")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the pod's program: %v\n%s", err, out)
	}
	packer, _ := requireAssets(t).Packer()
	platform := runtime.GOOS + "/" + runtime.GOARCH
	archive := filepath.Join(dir, "inpod.tar")
	command(t, packer, "-name=inpod", "-binary="+platform+"="+filepath.Join(dir, "inpod"),
		"-ref=aicr.local/inpod:1", "-archive="+archive, "-platform="+platform)
	return archive
}

// holdNumber takes the number of the node that had the address. release is nil
// where another node has taken it by now.
func holdNumber(t *testing.T, address string) (number int, release func() error) {
	t.Helper()
	number, err := strconv.Atoi(strings.Split(address, ".")[2])
	if err != nil {
		t.Fatal(err)
	}
	release, err = devcluster.HoldSlot(t.Context(), number)
	if err != nil {
		t.Fatal(err)
	}
	return number, release
}

// checkNumberGone looks for what carries the number of the node that had the
// address. Where another node has taken the number by now, nothing can be said.
func checkNumberGone(t *testing.T, address string) {
	t.Helper()
	number, release := holdNumber(t, address)
	if release == nil {
		t.Logf("number %d is taken again already", number)
		return
	}
	if _, err := os.Lstat(fmt.Sprintf("/sys/class/net/aicr%d", number)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the network device is still there: %v", err)
	}
	groups, err := filepath.Glob(fmt.Sprintf("/sys/fs/cgroup/*/aicr-node-%d", number))
	if err != nil || len(groups) > 0 {
		t.Errorf("cgroups left: %q, %v", groups, err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
}

// machineState gives what a kubelet and its companions are known to change on
// a machine. Nodes of other tests that come and go meanwhile do not show.
func machineState(t *testing.T) map[string]string {
	t.Helper()
	state := map[string]string{
		"iptables": command(t, "iptables-save"),
	}
	for _, name := range []string{
		"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys",
		"kernel/keys/root_maxbytes", "kernel/hostname", "net/ipv4/ip_forward", "net/ipv4/conf/all/route_localnet",
	} {
		text, err := os.ReadFile("/proc/sys/" + name)
		state[name] = fmt.Sprint(string(text), err)
	}
	for _, path := range []string{
		"/run/netns", "/run/containerd", "/run/xtables.lock", "/var/lib/cni", "/var/lib/kubelet", "/var/lib/containerd",
		"/var/log/pods", "/var/log/containers", "/opt/containerd", "/etc/cni", "/usr/libexec/kubernetes", "/var/run/kubernetes",
	} {
		_, err := os.Lstat(path)
		state[path] = fmt.Sprint(err)
	}
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	state["mounts"] = string(text)
	return state
}
