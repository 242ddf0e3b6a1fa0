// Package scale takes snapshots of clusters with many nodes and pods, with the
// agent as a process of its own: its memory, its requests and its document
// stay small, and nothing is lost. The small cluster of go test becomes a large
// one by AICR_TEST_SCALE=1, as make scale does.
package scale

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/NVIDIA/aicr/internal/devcluster/devtest"
	"github.com/NVIDIA/aicr/pkg/collector/topology/topologytest"
	"github.com/NVIDIA/aicr/pkg/k8s/agent"
	"github.com/NVIDIA/aicr/pkg/k8s/client"
	"github.com/NVIDIA/aicr/pkg/measurement"
	"github.com/NVIDIA/aicr/pkg/serializer"
)

const (
	envScale = "AICR_TEST_SCALE"
	// envMeasure makes this program run its arguments and tell their memory.
	envMeasure = "AICR_TEST_MEASURE"

	agentUser = "scale-agent"
	maxMemory = 100_000_000
	maxBytes  = 900_000
	images    = 40
)

func TestMain(m *testing.M) {
	if os.Getenv(envMeasure) != "" {
		os.Exit(measure(os.Args[1:]))
	}
	// Nobody acts on the nodes and pods: they are there to be read.
	os.Exit(devtest.Main(m, devtest.Options{NoControllers: true, Audit: true}))
}

// measure runs a command and prints its peak memory in KiB. It is a process
// of its own because the kernel counts what the caller of exec had in memory
// as that of the program that it becomes, and a test has much.
func measure(args []string) int {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	usage, _ := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	_, _ = os.Stdout.WriteString(strconv.FormatInt(usage.Maxrss, 10))
	return 0
}

// cluster fills a real API server.
type cluster struct {
	t          *testing.T
	client     kubernetes.Interface
	namespace  string
	kubeconfig string
	pods       int
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	own := devtest.OwnCluster(t)
	kube, _, err := client.New(own.Config(), "")
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, client: kube, namespace: devtest.Namespace(t), kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	if err := own.UserKubeconfig(c.kubeconfig, agentUser); err != nil {
		t.Fatal(err)
	}
	c.grant()
	return c
}

// grant gives the user the rights of an agent, as they are rendered.
func (c *cluster) grant() {
	c.t.Helper()
	manifests, err := agent.BuildServiceAccountRoleManifests(agent.ManifestOptions{Namespace: c.namespace, ServiceAccountName: "x"})
	if err != nil {
		c.t.Fatal(err)
	}
	var role rbacv1.ClusterRole
	if err := yaml.Unmarshal(manifests[2].Content, &role); err != nil || len(role.Rules) == 0 {
		c.t.Fatal(err, role)
	}
	ctx := c.t.Context()
	if _, err := c.client.RbacV1().ClusterRoles().Create(ctx, &role, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: agentUser}},
	}, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// parallel calls create for each number in [from, to), many at once.
func (c *cluster) parallel(from, to int, create func(context.Context, int) error) {
	c.t.Helper()
	g, ctx := errgroup.WithContext(c.t.Context())
	g.SetLimit(32)
	for i := from; i < to; i++ {
		g.Go(func() error { return create(ctx, i) })
	}
	if err := g.Wait(); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) makeNodes(n int) []*corev1.Node {
	c.t.Helper()
	nodes := make([]*corev1.Node, n)
	c.parallel(0, n, func(ctx context.Context, i int) error {
		nodes[i] = topologytest.GPUNode(i)
		_, err := c.client.CoreV1().Nodes().Create(ctx, nodes[i], metav1.CreateOptions{})
		return err
	})
	return nodes
}

// makePods brings the pods up to n. One in a hundred names its image with a
// password.
func (c *cluster) makePods(n int) {
	c.t.Helper()
	env := []corev1.EnvVar{}
	for i := range 30 {
		env = append(env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", i), Value: strings.Repeat("x", 60)})
	}
	c.parallel(c.pods, n, func(ctx context.Context, i int) error {
		image := fmt.Sprintf("registry.example.com/team/image-%d:v1", i%images)
		if i%100 == 0 {
			image = "robot:hunter2@" + image
		}
		_, err := c.client.CoreV1().Pods(c.namespace).Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%06d", i), Labels: map[string]string{"app": "x", "pod-template-hash": "abc"}},
			Spec: corev1.PodSpec{
				NodeName:   topologytest.GPUNode(i % 18).Name,
				Containers: []corev1.Container{{Name: "main", Image: image, Env: env}, {Name: "side", Image: "registry.example.com/side:v2", Env: env}},
			},
		}, metav1.CreateOptions{})
		return err
	})
	c.pods = n
}

// taken is a snapshot, and what it cost.
type taken struct {
	snapshot *measurement.Snapshot
	bytes    int
	memory   int64
	log      string
}

// take runs the agent's program as one that may do what an agent may.
func (c *cluster) take() taken {
	c.t.Helper()
	out := filepath.Join(c.t.TempDir(), "snapshot.yaml")
	cmd := exec.Command(os.Args[0], devtest.Binary(c.t), "--debug", "snapshot", "--local", "--kubeconfig", c.kubeconfig,
		"--node", topologytest.GPUNode(0).Name, "-o", out)
	var log bytes.Buffer
	cmd.Env, cmd.Stderr = append(os.Environ(), envMeasure+"=1"), &log
	peak, err := cmd.Output()
	if err != nil {
		c.t.Fatalf("%v\n%s", err, log.String())
	}
	kib, err := strconv.ParseInt(string(peak), 10, 64)
	if err != nil {
		c.t.Fatal(err)
	}
	doc, err := os.ReadFile(out)
	if err != nil {
		c.t.Fatal(err)
	}
	s, err := serializer.Decode(doc)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, status := range s.Collectors {
		if (status.Name == "k8s" || status.Name == "topology") && status.State != measurement.StateOK {
			c.t.Fatalf("%+v", status)
		}
		c.t.Logf("%s: %s in %d ms", status.Name, status.State, status.DurationMS)
	}
	if strings.Contains(string(doc)+log.String(), "hunter2") {
		c.t.Error("a secret is shown")
	}
	c.t.Logf("%d pods: %d MiB at most, %d bytes", c.pods, kib>>10, len(doc))
	return taken{s, len(doc), kib << 10, log.String()}
}

// requests returns how many requests of the agent's the server has answered, by
// verb and resource, once that are as many as wanted.
func (c *cluster) requests(want map[string]int) {
	c.t.Helper()
	devtest.Eventually(c.t, "the audit log tells of the agent's requests", 10*time.Second, func(context.Context) error {
		events, err := devtest.Cluster(c.t).AuditEvents()
		if err != nil {
			return err
		}
		got := map[string]int{}
		for _, e := range events {
			if e.User != agentUser {
				continue
			}
			got[strings.TrimSpace(e.Verb+" "+e.Resource)]++
			if e.Verb == "list" && !strings.Contains(e.URI, "limit=") {
				return errors.New("a whole list: " + e.URI)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

func TestALargeClusterCostsLittleAndLosesNothing(t *testing.T) {
	nodeCount, few, many := 300, 1_000, 2_000
	if os.Getenv(envScale) == "1" {
		nodeCount, few, many = 5_000, 5_000, 50_000
	}
	c := newCluster(t)
	nodes := c.makeNodes(nodeCount)
	c.makePods(few)
	before := c.take()
	c.makePods(many)
	after := c.take()

	if after.memory > maxMemory {
		t.Errorf("the agent took %d MiB, at most %d are allowed", after.memory>>20, maxMemory>>20)
	}
	// A full page of pods takes some memory; how many pages there are does not.
	if after.memory > before.memory+before.memory/4 {
		t.Errorf("%d MiB at %d pods, %d MiB at %d", before.memory>>20, few, after.memory>>20, many)
	}
	if after.bytes > maxBytes {
		t.Errorf("the document has %d bytes, at most %d are allowed", after.bytes, maxBytes)
	}
	pages := func(n, size int) int { return (n + size - 1) / size }
	c.requests(map[string]int{
		"get": 2, "get nodes": 2, "list nodes": 2 * pages(nodeCount, 250), "list pods": pages(few, 500) + pages(many, 500),
		"list daemonsets": 2, "list storageclasses": 2, "list clusterpolicies": 2, "list nvidiadrivers": 2, "list nicclusterpolicies": 2,
	})

	got, err := topologytest.Read(after.snapshot)
	if err != nil {
		t.Fatal(err)
	}
	want := topologytest.Expect(nodes, "kubernetes.io/hostname", "example.com/instance-id", "nvidia.com/gfd.timestamp")
	// What the server adds to a node that nobody has looked at.
	for _, n := range want.Nodes {
		n.Taints["node.kubernetes.io/not-ready=:NoSchedule"] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	counted := int64(0)
	image, _ := after.snapshot.Subtype(measurement.TypeK8s, "image")
	for _, item := range image.Items {
		if n, ok := item.Data["pods"].Any().(int64); ok && strings.Contains(item.Name, "/team/") {
			counted += n
		}
	}
	if counted != int64(many) {
		t.Errorf("%d pods are counted, there are %d", counted, many)
	}
}
