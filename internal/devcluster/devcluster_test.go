package devcluster_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/NVIDIA/aicr/internal/devcluster"
	"github.com/NVIDIA/aicr/internal/devcluster/devtest"
)

func TestStopLeavesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "c")
	cluster := start(t, devcluster.Options{Dir: dir})
	want := 2 // etcd and the API server
	if cluster.HasControllers() {
		want = 4
	}
	if found := processesIn(t, dir); len(found) != want {
		t.Errorf("want %d processes, found %q", want, found)
	}
	for range 2 { // the second time there is nothing to do
		if err := cluster.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	nothingLeft(t, dir)
}

func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	if left := processesIn(t, dir); len(left) > 0 {
		t.Errorf("processes left: %q", left)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the data folder is still there: %v", err)
	}
}

func TestFailedStartLeavesNothing(t *testing.T) {
	requireAssets(t)
	dir := filepath.Join(t.TempDir(), "c")
	_, err := devcluster.Start(t.Context(), devcluster.Options{Dir: dir, APIServerArgs: []string{"--no-such-flag"}})
	if err == nil || !strings.Contains(err.Error(), "unknown flag: --no-such-flag") {
		t.Errorf("want an error with the API server's own words, got: %v", err)
	}
	nothingLeft(t, dir)
}

func TestStartRefusesAFolderInUse(t *testing.T) {
	requireAssets(t)
	dir := t.TempDir()
	precious := filepath.Join(dir, "precious")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := devcluster.Start(t.Context(), devcluster.Options{Dir: dir}); err == nil {
		t.Error("a folder with files in it was accepted")
	}
	if _, err := os.Stat(precious); err != nil {
		t.Errorf("the file in it is gone: %v", err)
	}
}

func TestClustersRunSideBySide(t *testing.T) {
	clusters := make([]*devcluster.Cluster, 2)
	var wg sync.WaitGroup
	requireAssets(t)
	for i := range clusters {
		wg.Go(func() {
			var err error
			if clusters[i], err = devcluster.Start(t.Context(), devcluster.Options{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	t.Cleanup(func() {
		for _, cluster := range clusters {
			if cluster == nil {
				continue
			}
			if err := cluster.Stop(); err != nil {
				t.Error(err)
			}
		}
	})
	if t.Failed() {
		return
	}
	var uids []string
	for _, cluster := range clusters {
		namespace, err := clientFor(t, cluster).CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		uids = append(uids, string(namespace.UID))
	}
	if uids[0] == uids[1] {
		t.Error("both are the same cluster")
	}
}

func TestUserConfigIsThatUser(t *testing.T) {
	cluster := start(t, devcluster.Options{NoControllers: true})
	config, err := cluster.UserConfig("ann", "readers", "writers")
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(),
		&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	info := review.Status.UserInfo
	if info.Username != "ann" || !slices.Contains(info.Groups, "readers") || !slices.Contains(info.Groups, "writers") {
		t.Errorf("the server sees %+v", info)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := cluster.UserKubeconfig(path, "bob"); err != nil {
		t.Fatal(err)
	}
	out := command(t, requireAssets(t).Dir+"/kubectl", "--kubeconfig="+path, "auth", "whoami")
	if !strings.Contains(out, "bob") {
		t.Errorf("kubectl with bob's kubeconfig says:\n%s", out)
	}
}

func TestKilledAPIServerComesBackWithItsData(t *testing.T) {
	cluster := start(t, devcluster.Options{Audit: true, NoControllers: true})
	maps := clientFor(t, cluster).CoreV1().ConfigMaps("default")
	made, err := maps.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "kept"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.KillAPIServer(); err != nil {
		t.Fatal(err)
	}
	if _, err := maps.Get(t.Context(), "kept", metav1.GetOptions{}); err == nil {
		t.Error("a killed API server answered")
	}
	if err := cluster.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := maps.Get(t.Context(), "kept", metav1.GetOptions{})
	if err != nil || got.UID != made.UID {
		t.Errorf("after the restart: %v, UID %q, want %q", err, got.UID, made.UID)
	}
	devtest.Eventually(t, "both requests in the audit log", waitLimit, func(context.Context) error {
		events, err := cluster.AuditEvents()
		if err != nil {
			return err
		}
		for _, verb := range []string{"create", "get"} {
			if !slices.ContainsFunc(events, func(e devcluster.AuditEvent) bool {
				return e.Verb == verb && e.Resource == "configmaps" && e.Name == "kept" && e.Code < 300 && e.User == "admin"
			}) {
				return fmt.Errorf("no %s among %d events", verb, len(events))
			}
		}
		return nil
	})
}
