package devcluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/NVIDIA/aicr/internal/devcluster/assets"
)

// cniBinDir is where Debian installs the network plugins.
const cniBinDir = "/usr/lib/cni"

// CheckNode tells whether this machine can run a node: nil, or an error that
// wraps ErrUnsupported and says what is missing.
func CheckNode() error {
	programs, err := assets.Find()
	if err != nil {
		return fmt.Errorf("run a node: %w", err)
	}
	var missing []string
	if os.Geteuid() != 0 {
		missing = append(missing, "root")
	}
	for _, name := range []string{"containerd", "ctr", "runc", "iptables", "ip", "nsenter", "mount"} {
		if _, err := exec.LookPath(name); err != nil {
			missing = append(missing, name)
		}
	}
	if _, err := os.Stat(filepath.Join(cniBinDir, "bridge")); err != nil {
		missing = append(missing, "the network plugins in "+cniBinDir)
	}
	for _, name := range []string{"kubelet", "kube-proxy"} {
		if _, ok := programs.Program(name); !ok {
			missing = append(missing, name)
		}
	}
	if _, ok := programs.PauseImage(); !ok {
		missing = append(missing, "the pause image (make kube)")
	}
	if len(missing) > 0 {
		return fmt.Errorf("run a node: %w: missing %s; make deps installs Debian's packages as root",
			ErrUnsupported, strings.Join(missing, ", "))
	}
	return nil
}

// checkNode tells whether this cluster can have a node on this machine.
func (c *Cluster) checkNode() error {
	if c.attached {
		return fmt.Errorf("run a node: %w: the cluster is not ours", ErrUnsupported)
	}
	if why := c.controllersMissing(); why != "" {
		return fmt.Errorf("run a node: %w: %s", ErrUnsupported, why)
	}
	return CheckNode()
}

// StartNode adds a node with a real kubelet and returns once it is Ready and
// its pods can reach the API server. It belongs to the cluster, whose Stop
// stops it; ctx bounds the start only. A node that could not be started is
// taken away again. Several nodes, of one cluster or of several, can run at
// once; their pods do not reach each other's.
func (c *Cluster) StartNode(ctx context.Context, o NodeOptions) (*Node, error) {
	if err := c.checkNode(); err != nil {
		return nil, err
	}
	begin := time.Now()
	n := &Node{cluster: c}
	if err := n.start(ctx, o); err != nil {
		return nil, errors.Join(fmt.Errorf("start node %s: %w", n.name, err), n.undo.run())
	}
	c.mu.Lock()
	c.nodes = append(c.nodes, n)
	c.mu.Unlock()
	c.logf("node %s ready after %s", n.name, time.Since(begin).Round(10*time.Millisecond))
	return n, nil
}

func (n *Node) start(ctx context.Context, o NodeOptions) error {
	taken, err := takeSlot(ctx)
	if err != nil {
		return err
	}
	n.undo.add(taken.release)
	n.name, n.ip = o.Name, taken.nodeIP()
	if n.name == "" {
		n.name = fmt.Sprintf("node-%d", taken.number)
	}
	if err := n.makeFiles(taken); err != nil {
		return err
	}
	if err := n.makeSandbox(ctx, taken); err != nil {
		return err
	}
	runtime, err := n.startRuntime(ctx)
	if err != nil {
		return err
	}
	pause, _ := n.cluster.programs.PauseImage()
	if err := n.LoadImage(ctx, pause); err != nil {
		return errors.Join(err, runtime.ended())
	}
	return n.startKubelet(ctx, o)
}

// makeFiles writes the node's settings and credentials into its folder.
func (n *Node) makeFiles(s *slot) error {
	c := n.cluster
	n.dir = c.path(fmt.Sprintf("node%d", s.number))
	for _, hidden := range []string{"/run/", "/var/lib/", "/var/log/", "/proc/", "/sys/"} {
		if strings.HasPrefix(n.dir, hidden) {
			return fmt.Errorf("the data folder %s lies in %s, which a node covers", c.dir, hidden)
		}
	}
	if err := os.Mkdir(n.dir, 0o755); err != nil {
		return fmt.Errorf("make the node's folder: %w", err)
	}
	n.undo.add(func() error { return os.RemoveAll(n.dir) })
	err := writeNodeFiles(nodeValues{
		Name: n.name, ClusterDir: c.dir, Dir: n.dir, NodeIP: n.ip, PodRange: s.podRange(),
		CgroupRoot: "/" + s.cgroup(), CNIBinDir: cniBinDir, PauseImage: assets.PauseRef,
	})
	if err != nil {
		return err
	}
	serving, err := c.ca.server("system:node:"+n.name, n.name, n.ip)
	if err != nil {
		return err
	}
	kubelet, err := c.ca.client("system:node:"+n.name, "system:nodes")
	if err != nil {
		return err
	}
	proxy, err := c.ca.client("system:kube-proxy")
	if err != nil {
		return err
	}
	server := "https://" + n.apiAddress()
	return errors.Join(
		serving.write(n.dir, "kubelet"),
		writeKubeconfig(filepath.Join(n.dir, "kubelet.kubeconfig"), server, c.ca.cert, "kubelet", kubelet),
		writeKubeconfig(filepath.Join(n.dir, "kube-proxy.kubeconfig"), server, c.ca.cert, "kube-proxy", proxy),
	)
}

// apiAddress is where the API server is reached inside a node.
func (n *Node) apiAddress() string {
	return fmt.Sprintf("%s:%d", advertised, n.cluster.port.number)
}

func (n *Node) startRuntime(ctx context.Context) (*process, error) {
	runtime, err := n.startProgram(ctx, "containerd", "containerd", "--config="+filepath.Join(n.dir, "containerd.toml"))
	if err != nil {
		return nil, err
	}
	return runtime, waitFor(ctx, "the container runtime", runtime, func(ctx context.Context) error {
		return n.ctr(ctx, "version")
	})
}

// startKubelet starts the kubelet and kube-proxy and waits for their work.
func (n *Node) startKubelet(ctx context.Context, o NodeOptions) error {
	var labels []string
	for key, value := range o.Labels {
		labels = append(labels, key+"="+value)
	}
	program, _ := n.cluster.programs.Program("kubelet")
	kubelet, err := n.startProgram(ctx, "kubelet", program,
		"--config="+filepath.Join(n.dir, "kubelet.yaml"),
		"--kubeconfig="+filepath.Join(n.dir, "kubelet.kubeconfig"),
		"--root-dir="+filepath.Join(n.dir, "kubelet"),
		"--cert-dir="+n.dir,
		"--hostname-override="+n.name,
		"--node-ip="+n.ip,
		"--node-labels="+strings.Join(labels, ","))
	if err != nil {
		return err
	}
	program, _ = n.cluster.programs.Program("kube-proxy")
	proxy, err := n.startProgram(ctx, "kube-proxy", program, "--config="+filepath.Join(n.dir, "kube-proxy.yaml"))
	if err != nil {
		return err
	}
	if err := n.waitReady(ctx, kubelet); err != nil {
		return err
	}
	return waitFor(ctx, "the API server's in-cluster address", proxy, func(ctx context.Context) error {
		conn, err := inNetwork(n.init.cmd.Process.Pid, func() (net.Conn, error) {
			return (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", serviceAddress+":443")
		})
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

func (n *Node) waitReady(ctx context.Context, kubelet *process) error {
	client, err := n.cluster.client()
	if err != nil {
		return err
	}
	return waitFor(ctx, "the node to be Ready", kubelet, func(ctx context.Context) error {
		node, err := client.CoreV1().Nodes().Get(ctx, n.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type != corev1.NodeReady {
				continue
			}
			if condition.Status == corev1.ConditionTrue {
				return nil
			}
			return fmt.Errorf("%s: %s", condition.Reason, condition.Message)
		}
		return errors.New("it has not reported yet")
	})
}
