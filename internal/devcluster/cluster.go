package devcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/NVIDIA/aicr/internal/devcluster/assets"
)

// maxDir bounds the folder's path: socket paths have at most 107 bytes, and
// ours add up to 40.
const maxDir = 67

// Cluster is a running control plane, with the nodes that were added to it.
// Its methods are safe for concurrent use.
type Cluster struct {
	options    Options
	programs   assets.Set
	dir        string
	attached   bool // somebody else's cluster: we only talk to it
	ca         *authority
	port       *port
	config     *rest.Config
	kubeconfig string
	undo       undo

	mu    sync.Mutex // guards what follows
	api   *process   // nil while killed
	nodes []*Node
}

// Start brings a control plane up and returns once it serves and the default
// ServiceAccount of the namespace default is there. A cluster that could not
// be started is taken away again. The caller calls Stop; ctx bounds the start
// only.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	programs, err := assets.Find()
	if err != nil {
		return nil, fmt.Errorf("start a cluster: %w", err)
	}
	c := &Cluster{options: o, programs: programs}
	begin := time.Now()
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start a cluster: %w", err), c.undo.run())
	}
	c.logf("control plane ready after %s", time.Since(begin).Round(10*time.Millisecond))
	return c, nil
}

// Attach gives a Cluster for the current context of a kubeconfig. Nothing is
// started, and Stop ends nothing; what needs processes of our own, such as
// killing the API server, reports ErrUnsupported.
func Attach(kubeconfig string) (*Cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("attach to a cluster: %w", err)
	}
	config.QPS = -1
	programs, err := assets.Find()
	if err != nil {
		programs = assets.Set{} // only kubectl is missing then
	}
	return &Cluster{attached: true, config: config, kubeconfig: kubeconfig, programs: programs}, nil
}

func (c *Cluster) start(ctx context.Context) error {
	steps := []func(context.Context) error{
		c.makeDir, c.makeCredentials, c.startEtcd, c.StartAPIServer, c.startControllers, c.waitServiceAccount,
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) makeDir(context.Context) error {
	c.dir = c.options.Dir
	if c.dir == "" {
		dir, err := os.MkdirTemp("", "aicr-dev-")
		if err != nil {
			return fmt.Errorf("make the data folder: %w", err)
		}
		c.dir = dir
	}
	dir, err := filepath.Abs(c.dir)
	if err != nil {
		return fmt.Errorf("make the data folder: %w", err)
	}
	if len(dir) > maxDir {
		return fmt.Errorf("the data folder's path is too long for the sockets in it (%d bytes, at most %d): %s", len(dir), maxDir, dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the data folder: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look into the data folder: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("the data folder %s is not empty", dir)
	}
	c.dir = dir
	c.undo.add(func() error { return os.RemoveAll(dir) })
	return nil
}

// Stop ends every process and takes away everything that the cluster and its
// nodes made. It is safe to call again: what failed before is not retried.
func (c *Cluster) Stop() error {
	begin := time.Now()
	c.mu.Lock()
	nodes := c.nodes
	c.nodes = nil
	c.mu.Unlock()
	var errs []error
	for _, node := range nodes {
		errs = append(errs, node.Stop())
	}
	errs = append(errs, c.undo.run())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stop the cluster: %w", err)
	}
	c.logf("stopped in %s", time.Since(begin).Round(10*time.Millisecond))
	return nil
}

// Kubeconfig gives the path of the administrator's kubeconfig. The file is
// the cluster's and goes with it.
func (c *Cluster) Kubeconfig() string { return c.kubeconfig }

// Config gives a client configuration of the administrator (group
// system:masters), without a rate limit. The caller owns it.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// UserConfig gives a client configuration of any user in any groups, without
// a rate limit: by a client certificate of the cluster's authority, or, on an
// attached cluster, by impersonation. The caller owns it.
func (c *Cluster) UserConfig(user string, groups ...string) (*rest.Config, error) {
	if c.attached {
		config := c.Config()
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
		return config, nil
	}
	credential, err := c.ca.client(user, groups...)
	if err != nil {
		return nil, err
	}
	return restConfig(c.server(), c.ca.cert, credential), nil
}

// UserKubeconfig writes a kubeconfig with a client certificate for that user
// in those groups. The caller owns the file.
func (c *Cluster) UserKubeconfig(path, user string, groups ...string) error {
	if c.attached {
		return fmt.Errorf("issue a certificate for %s: %w: the cluster is not ours", user, ErrUnsupported)
	}
	credential, err := c.ca.client(user, groups...)
	if err != nil {
		return err
	}
	return writeKubeconfig(path, c.server(), c.ca.cert, user, credential)
}

// Kubectl gives a command that runs kubectl as the administrator. Where there
// is no kubectl the command's own error says so.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) *exec.Cmd {
	path, ok := c.programs.Program("kubectl")
	if !ok {
		path = "kubectl"
	}
	return exec.CommandContext(ctx, path, append([]string{"--kubeconfig=" + c.kubeconfig}, args...)...)
}

// Attached tells whether the cluster was there before us; see Attach.
func (c *Cluster) Attached() bool { return c.attached }

// HasControllers tells whether somebody acts on objects: Jobs get pods, pods
// get nodes, deleted owners' dependents go. A foreign cluster is taken to.
func (c *Cluster) HasControllers() bool {
	return c.attached || c.controllersMissing() == ""
}

// server gives the API server's address as seen from this machine.
func (c *Cluster) server() string { return fmt.Sprintf("https://127.0.0.1:%d", c.port.number) }

func (c *Cluster) path(elem ...string) string {
	return filepath.Join(append([]string{c.dir}, elem...)...)
}

func (c *Cluster) client() (*kubernetes.Clientset, error) {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return client, nil
}

func (c *Cluster) logf(format string, args ...any) {
	if c.options.Log != nil {
		fmt.Fprintf(c.options.Log, "devcluster: "+format+"\n", args...)
	}
}
