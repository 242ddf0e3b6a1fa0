package devcluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// etcdPeerName is what the store's only member is called among its peers. It
// must look like an address and is never called.
const etcdPeerName = "http://127.0.0.1:2380"

// makeCredentials issues every certificate and kubeconfig that the control
// plane's parts need, and takes the port that these name.
func (c *Cluster) makeCredentials(context.Context) error {
	var err error
	if c.port, err = holdPort(); err != nil {
		return err
	}
	c.undo.add(c.port.release)
	if c.ca, err = newAuthority("aicr-devcluster"); err != nil {
		return err
	}
	serving, err := c.ca.server("kube-apiserver", "127.0.0.1", "localhost", serviceAddress, advertised,
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
	if err != nil {
		return err
	}
	toKubelet, err := c.ca.client("kube-apiserver", "system:masters")
	if err != nil {
		return err
	}
	if err := errors.Join(
		c.ca.write(c.dir, "ca"),
		serving.write(c.dir, "apiserver"),
		toKubelet.write(c.dir, "apiserver-kubelet"),
		writeSigningKey(c.path("tokens.key")),
		os.WriteFile(c.path("audit-policy.yaml"), []byte(auditPolicy), 0o644),
	); err != nil {
		return err
	}
	for _, name := range []string{"kube-controller-manager", "kube-scheduler"} {
		if err := c.UserKubeconfig(c.path(name+".kubeconfig"), "system:"+name); err != nil {
			return err
		}
	}
	admin, err := c.ca.client("admin", "system:masters")
	if err != nil {
		return err
	}
	c.config = restConfig(c.server(), c.ca.cert, admin)
	c.kubeconfig = c.path("admin.kubeconfig")
	return writeKubeconfig(c.kubeconfig, c.server(), c.ca.cert, "admin", admin)
}

// startPart starts a part of the control plane, to be ended by Stop; ctx is
// for starting it only.
func (c *Cluster) startPart(ctx context.Context, name string, args ...string) (*process, error) {
	path, ok := c.programs.Program(name)
	if !ok {
		return nil, fmt.Errorf("start %s: %w: %s has none", name, ErrUnsupported, c.programs.Dir)
	}
	p, err := startProcess(name, c.path(name+".log"), exec.CommandContext(context.WithoutCancel(ctx), path, args...))
	if err != nil {
		return nil, err
	}
	c.undo.add(p.stop)
	return p, nil
}

// startEtcd starts the store, on a socket in the cluster's folder: nothing
// else on the machine can reach it, and no port can be taken.
func (c *Cluster) startEtcd(ctx context.Context) error {
	socket := c.path("etcd.sock")
	p, err := c.startPart(ctx, "etcd",
		"--name=default",
		"--data-dir="+c.path("etcd"),
		"--listen-client-urls=unix://"+socket,
		"--advertise-client-urls=http://127.0.0.1:2379", // never called either
		"--listen-peer-urls=unix://"+c.path("peer.sock"),
		"--initial-advertise-peer-urls="+etcdPeerName,
		"--initial-cluster=default="+etcdPeerName,
		"--unsafe-no-fsync", // the data need not outlive the machine
		"--log-level=warn",
	)
	if err != nil {
		return err
	}
	return waitFor(ctx, "etcd's socket", p, func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

func (c *Cluster) apiServerArgs() []string {
	args := []string{
		"--etcd-servers=unix://" + c.path("etcd.sock"),
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", c.port.number),
		"--permit-port-sharing", // with our own reservation of the port
		"--advertise-address=" + advertised,
		"--cert-dir=" + c.dir,
		"--tls-cert-file=" + c.path("apiserver.crt"),
		"--tls-private-key-file=" + c.path("apiserver.key"),
		"--client-ca-file=" + c.path("ca.crt"),
		"--kubelet-client-certificate=" + c.path("apiserver-kubelet.crt"),
		"--kubelet-client-key=" + c.path("apiserver-kubelet.key"),
		"--kubelet-certificate-authority=" + c.path("ca.crt"),
		"--kubelet-preferred-address-types=InternalIP",
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=" + strings.Join(append([]string{"NodeRestriction"}, c.options.AdmissionPlugins...), ","),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.path("tokens.key"),
		"--service-account-signing-key-file=" + c.path("tokens.key"),
		"--service-cluster-ip-range=" + serviceRange,
		"--allow-privileged=true",
		"--profiling=false",
	}
	if c.options.Audit {
		args = append(args,
			"--audit-policy-file="+c.path("audit-policy.yaml"),
			"--audit-log-path="+c.path("audit.log"))
	}
	return append(args, c.options.APIServerArgs...)
}

// StartAPIServer starts the API server again after KillAPIServer, at the same
// address and with the same data, and returns once it is ready.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	if c.attached {
		return fmt.Errorf("start the API server: %w: the cluster is not ours", ErrUnsupported)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.api != nil {
		return errors.New("start the API server: it was started and not killed since")
	}
	begin := time.Now()
	p, err := c.startPart(ctx, "kube-apiserver", c.apiServerArgs()...)
	if err != nil {
		return err
	}
	c.api = p
	client, err := c.client()
	if err != nil {
		return err
	}
	err = waitFor(ctx, "the API server to be ready", p, func(ctx context.Context) error {
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
	if err != nil {
		return err
	}
	c.logf("API server ready after %s", time.Since(begin).Round(10*time.Millisecond))
	return nil
}

// KillAPIServer kills the API server without warning, as a crash would, and
// returns once it is gone. Clients find nobody listening until StartAPIServer.
func (c *Cluster) KillAPIServer() error {
	if c.attached {
		return fmt.Errorf("kill the API server: %w: the cluster is not ours", ErrUnsupported)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.api == nil {
		return errors.New("kill the API server: it was killed already")
	}
	err := c.api.stop()
	c.api = nil
	return err
}

// controllersMissing says why nobody acts on objects, or nothing.
func (c *Cluster) controllersMissing() string {
	if c.options.NoControllers {
		return "the cluster was started without controllers"
	}
	for _, name := range []string{"kube-controller-manager", "kube-scheduler"} {
		if _, ok := c.programs.Program(name); !ok {
			return fmt.Sprintf("there is no %s in %s", name, c.programs.Dir)
		}
	}
	return ""
}

// startControllers starts what acts on objects. It comes after the API server
// is ready: the controllers give up when their own roles are not there yet.
func (c *Cluster) startControllers(ctx context.Context) error {
	if why := c.controllersMissing(); why != "" {
		c.logf("no controllers: %s", why)
		return nil
	}
	common := []string{"--leader-elect=false", "--secure-port=0", "--kube-api-qps=500", "--kube-api-burst=500"}
	_, err := c.startPart(ctx, "kube-controller-manager", append(common,
		"--kubeconfig="+c.path("kube-controller-manager.kubeconfig"),
		"--use-service-account-credentials",
		"--service-account-private-key-file="+c.path("tokens.key"),
		"--root-ca-file="+c.path("ca.crt"),
		"--cluster-signing-cert-file="+c.path("ca.crt"),
		"--cluster-signing-key-file="+c.path("ca.key"),
	)...)
	if err != nil {
		return err
	}
	_, err = c.startPart(ctx, "kube-scheduler", append(common,
		"--kubeconfig="+c.path("kube-scheduler.kubeconfig"))...)
	return err
}

// waitServiceAccount waits for the ServiceAccount that pods of the namespace
// default run as. Without controllers it makes it, and its namespace.
func (c *Cluster) waitServiceAccount(ctx context.Context) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	accounts := client.CoreV1().ServiceAccounts("default")
	return waitFor(ctx, "the default ServiceAccount", nil, func(ctx context.Context) error {
		_, err := accounts.Get(ctx, "default", metav1.GetOptions{})
		if c.controllersMissing() == "" || !apierrors.IsNotFound(err) {
			return err
		}
		_, err = accounts.Create(ctx, &corev1.ServiceAccount{
			ObjectMeta: metav1.ObjectMeta{Name: "default"},
		}, metav1.CreateOptions{})
		return err
	})
}
