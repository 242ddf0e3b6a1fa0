package faults

import (
	"bytes"
	"context"
	stderrors "errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/NVIDIA/aicr/internal/devcluster"
	"github.com/NVIDIA/aicr/internal/devcluster/devtest"
	"github.com/NVIDIA/aicr/internal/inventory"
	"github.com/NVIDIA/aicr/pkg/k8s/labels"
)

// TestSignals runs the program behind a proxy, on a cluster with controllers,
// and sends it a signal at each of its requests. The test plays the node. It
// runs with -all only.
func TestSignals(t *testing.T) {
	t.Parallel()
	if !*all {
		t.Skip("runs with -all, which make faults gives")
	}
	cluster := withControllers(t)
	program := filepath.Join(t.TempDir(), "aicr")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../cmd/aicr")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v\n%s", err, out)
	}
	clean := newProcess(t, cluster.Config(), program)
	clean.run(nil)
	clean.checkClean(0)
	m := &signalCounts{requests: len(clean.record().requests)}
	t.Run("case", func(t *testing.T) {
		for _, r := range clean.record().requests {
			for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
				t.Run(strings.ReplaceAll(s.String()+" at "+r.String(), " ", "_"), func(t *testing.T) {
					t.Parallel()
					c := newProcess(t, cluster.Config(), program)
					defer m.add(t, c)
					c.signalAt(s, r)
				})
			}
		}
	})
	fmt.Fprintf(os.Stdout, "\nThe program: %d requests, 3 signals, %d cases, %d violations, %d with something left after SIGKILL, as C25 allows\n",
		m.requests, m.cases, m.violations, m.left)
}

// withControllers starts a cluster where deadlines, TTLs and owner references
// have their effect.
func withControllers(t *testing.T) *devcluster.Cluster {
	t.Helper()
	cluster, err := devcluster.Start(t.Context(), devcluster.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	if !cluster.HasControllers() {
		if os.Getenv(devtest.EnvRequireCluster) == "1" {
			t.Fatal("the cluster has no controllers")
		}
		t.Skip("the cluster has no controllers: run make kube")
	}
	return cluster
}

type signalCounts struct {
	requests int

	mu                      sync.Mutex
	cases, violations, left int
}

func (m *signalCounts) add(t *testing.T, c *process) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cases++
	if t.Failed() {
		m.violations++
	}
	if c.left > 0 {
		m.left++
	}
}

// process is one run of the program.
type process struct {
	*world
	*wire
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
	waits          chan struct{} // closed once the program watches its Job
	left           int           // what SIGKILL left, as C25 allows
}

// limit is what the controllers of a busy machine get to act.
const limit = time.Minute

func newProcess(t *testing.T, config *rest.Config, program string) *process {
	t.Helper()
	w := newWorld(t, config, false)
	w.settle()
	c := &process{world: w, wire: newWire(w), waits: make(chan struct{})}
	var once sync.Once
	c.before = func(r request) {
		if r.resource == "jobs" && (r.verb == "watch" || r.verb == "list") {
			once.Do(func() { close(c.waits) })
		}
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	w.must(clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"proxy": {Server: c.proxy()}},
		Contexts:       map[string]*clientcmdapi.Context{"proxy": {Cluster: "proxy"}},
		CurrentContext: "proxy",
	}, kubeconfig))
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	c.cmd = exec.CommandContext(ctx, program, "snapshot", "-n", w.namespace, "--run-id", w.runID, "--image", "example.com/aicr:test", "--kubeconfig", kubeconfig)
	c.cmd.Env = []string{"HOME=" + t.TempDir()}
	c.cmd.Stdout, c.cmd.Stderr = &c.stdout, &c.stderr
	return c
}

// settle waits for what controllers put into a new namespace, and for what
// they make of the bystanders, so that nobody but a run changes anything.
func (w *world) settle() {
	w.t.Helper()
	devtest.Eventually(w.t, "the namespace is settled", limit, func(ctx context.Context) error {
		for _, o := range []object{w.at("serviceaccounts", "default"), w.at("configmaps", "kube-root-ca.crt")} {
			if !w.stands(o) {
				return fmt.Errorf("no %v yet", o)
			}
		}
		job, err := w.admin.BatchV1().Jobs(w.namespace).Get(ctx, bystander+"-"+w.runID, metav1.GetOptions{})
		if err == nil && len(job.Status.Conditions) == 0 {
			err = stderrors.New("the suspended Job is not settled yet")
		}
		return err
	})
	w.foreign = w.inventory(context.Background())
}

// proxy starts the way to the server that the program takes, and gives its
// address.
func (c *process) proxy() string {
	c.t.Helper()
	target, err := url.Parse(c.config.Host)
	c.must(err)
	c.next, err = rest.TransportFor(c.config)
	c.must(err)
	reverse := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     c.wire,
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the program is gone
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		reverse.ServeHTTP(w, r)
	}))
	c.t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// run runs the program to its end, with the test as node: the agent writes
// its ConfigMap as soon as there is a Job, and ends once the program waits.
func (c *process) run(f *fault) {
	c.t.Helper()
	c.fault = f
	ctx, cancel := context.WithCancel(context.Background())
	var node sync.WaitGroup
	node.Go(func() { c.playNode(ctx) })
	err := c.cmd.Run()
	cancel()
	node.Wait()
	var exit *exec.ExitError
	if err != nil && !stderrors.As(err, &exit) {
		c.t.Fatal(err)
	}
}

// playNode ends when ctx does, or when the agent has.
func (c *process) playNode(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-c.waits:
	}
	jobs := c.admin.BatchV1().Jobs(c.namespace)
	job, err := jobs.Get(ctx, "aicr-"+c.runID, metav1.GetOptions{})
	if err == nil {
		err = writeStaging(ctx, c.admin, job)
	}
	for tick := time.NewTicker(50 * time.Millisecond); err == nil; {
		pods, lerr := c.admin.CoreV1().Pods(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.RunID + "=" + c.runID})
		if err = lerr; err == nil && len(pods.Items) > 0 {
			_, err = c.admin.CoreV1().Pods(c.namespace).Patch(ctx, pods.Items[0].Name, types.StrategicMergePatchType,
				[]byte(`{"status":{"phase":"`+string(corev1.PodSucceeded)+`"}}`), metav1.PatchOptions{}, "status")
			break
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
	if err != nil && ctx.Err() == nil {
		c.t.Logf("the node: %v", err) // the run may be over, and the Job gone
	}
}

// signalAt sends the signal when the request has come, lets the server act on
// it, and judges what follows.
func (c *process) signalAt(s syscall.Signal, r request) {
	c.t.Helper()
	c.target = r
	c.run(&fault{strike: func(b *blow) (*http.Response, error) {
		if err := c.cmd.Process.Signal(s); err != nil {
			c.t.Error(err)
		}
		if s == syscall.SIGKILL {
			c.carryOut(b.request)
			return nil, reset()
		}
		return c.forward(b.request)
	}})
	if c.record().struck == nil {
		c.t.Errorf("the request never came:\n%s", lines(c.record().requests))
	}
	if s == syscall.SIGKILL {
		c.checkKilled()
	} else {
		c.checkClean(128 + int(s))
	}
	if c.t.Failed() {
		c.t.Logf("standard error:\n%s\nrequests:\n%s", c.stderr.String(), lines(c.record().requests))
	}
}

// checkClean: the run ended with that status, or was done before the signal
// could matter, and left nothing.
func (c *process) checkClean(status int) {
	c.t.Helper()
	got, out := c.cmd.ProcessState.ExitCode(), c.stdout.String()
	if got != status && got != 0 || got == 0 && out != documentOf(c.runID) || out != "" && out != documentOf(c.runID) {
		c.t.Errorf("(c) exit status %d, standard output %q, want status %d", got, out, status)
	}
	devtest.Eventually(c.t, "(a), (b) all is as it was", limit, func(context.Context) error { return c.differs(nil) })
}

// checkKilled shortens the deadline and the TTL of the Job that a killed
// program left and waits until there is only what C25 allows: what is
// cluster-scoped, and what was created before the Job stood and not given to
// it. All of it is found by the documented labels.
func (c *process) checkKilled() {
	c.t.Helper()
	devtest.Eventually(c.t, "only what C25 allows is left", limit, func(context.Context) error {
		if err := c.shorten(context.Background()); err != nil {
			return err
		}
		return c.differs(c.mayBeLeft)
	})
	ctx := context.Background()
	selector := labels.ManagedBy + "=" + labels.AICR + "," + labels.Component + "=" + labels.SnapshotAgent + "," + labels.RunID + "=" + c.runID
	for resource, gvr := range kinds() {
		l, err := c.meta.Resource(gvr).Namespace(c.at(resource, "").namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		c.must(err)
		for _, o := range l.Items {
			if id := o.Labels[labels.InvocationID]; id != "" && id != bystander {
				c.left++
			}
		}
	}
	if all := len(c.inventory(ctx)) - len(c.foreign); all != c.left {
		c.t.Errorf("%d objects are left, and the labels find %d", all, c.left)
	}
}

// shorten makes the Job's deadline and TTL a second, once the Job stands.
func (c *process) shorten(ctx context.Context) error {
	patch := []byte(`{"spec":{"activeDeadlineSeconds":1,"ttlSecondsAfterFinished":1}}`)
	_, err := c.admin.BatchV1().Jobs(c.namespace).Patch(ctx, "aicr-"+c.runID, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// mayBeLeft tells what a kill may leave: a ServiceAccount only before Deploy
// has given it to the Job.
func (c *process) mayBeLeft(key inventory.Key, o metav1.PartialObjectMetadata) bool {
	deployed := slices.ContainsFunc(c.record().requests, func(r request) bool { return r.verb == "watch" })
	return clusterScoped(key.Resource) || key.Resource == "serviceaccounts" && len(o.OwnerReferences) == 0 && !deployed
}

// differs tells what is not as it was before the run, but for what may be left.
func (c *process) differs(mayBeLeft func(inventory.Key, metav1.PartialObjectMetadata) bool) error {
	all := c.list(context.Background())
	maps.DeleteFunc(all, func(key inventory.Key, o metav1.PartialObjectMetadata) bool {
		_, foreign := c.foreign[key]
		return !foreign && mayBeLeft != nil && mayBeLeft(key, o)
	})
	now := all.inventory()
	if diff := append(now.Diff(c.foreign), now.Changed(c.foreign)...); len(diff) > 0 {
		return fmt.Errorf("%v", diff)
	}
	return nil
}
