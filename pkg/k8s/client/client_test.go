package client

import (
	stderrors "errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/NVIDIA/aicr/pkg/errors"
)

// kubeconfig writes a file with one context, cluster and user of that name.
func kubeconfig(t *testing.T, name, server, namespace string, current bool) string {
	t.Helper()
	c := api.NewConfig()
	c.Clusters[name] = &api.Cluster{Server: server}
	c.AuthInfos[name] = &api.AuthInfo{Token: "token-of-" + name}
	c.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name, Namespace: namespace}
	if current {
		c.CurrentContext = name
	}
	path := filepath.Join(t.TempDir(), name+".yaml")
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// clearEnv leaves no cluster to be found in the environment.
func clearEnv(t *testing.T) {
	t.Helper()
	t.Setenv("KUBECONFIG", "")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	// The path of ~/.kube/config is fixed when the process starts.
	if _, err := os.Stat(clientcmd.RecommendedHomeFile); err == nil {
		t.Skipf("%s exists", clientcmd.RecommendedHomeFile)
	}
}

func TestC2_ExplicitPathWinsOverKUBECONFIG(t *testing.T) {
	t.Setenv("KUBECONFIG", kubeconfig(t, "env", "https://env.invalid", "", true))
	_, cfg, err := BuildKubeClient(kubeconfig(t, "explicit", "https://explicit.invalid", "", true))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Host != "https://explicit.invalid" {
		t.Errorf("host %q", cfg.Host)
	}
}

func TestC2_FilesInKUBECONFIGAreMerged(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	first := kubeconfig(t, "first", "https://first.invalid", "one", false)
	second := kubeconfig(t, "second", "https://second.invalid", "two", true)
	t.Setenv("KUBECONFIG", strings.Join([]string{missing, first, second}, string(os.PathListSeparator)))

	_, cfg, err := GetKubeClient()
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Host != "https://second.invalid" {
		t.Errorf("current context: host %q", cfg.Host)
	}
	cfg, ns, err := Load("", &clientcmd.ConfigOverrides{CurrentContext: "first"})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Host != "https://first.invalid" || cfg.BearerToken != "token-of-first" || ns != "one" {
		t.Errorf("context first: host %q, token %q, namespace %q", cfg.Host, cfg.BearerToken, ns)
	}
}

func TestC2_RequestsNameAICRAndAskForProtobufWithoutARateLimit(t *testing.T) {
	var got http.Header
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Clone()
		w.WriteHeader(http.StatusNotFound)
	}))
	defer srv.Close()

	in := &rest.Config{Host: srv.URL}
	cs, cfg, err := New(in, "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = cs.CoreV1().Nodes().Get(t.Context(), "node", metav1.GetOptions{})

	want := fmt.Sprintf("aicr/v1.2.3 (%s/%s)", runtime.GOOS, runtime.GOARCH)
	if g := got.Get("User-Agent"); g != want {
		t.Errorf("user agent %q, want %q", g, want)
	}
	if g := got.Get("Accept"); g != "application/vnd.kubernetes.protobuf,application/json" {
		t.Errorf("accept %q", g)
	}
	if cs.CoreV1().RESTClient().GetRateLimiter() != nil {
		t.Error("the client limits its own rate")
	}
	if cfg.UserAgent != want || cfg.QPS != -1 || cfg.ContentType != "" {
		t.Errorf("returned configuration: user agent %q, QPS %v, content type %q", cfg.UserAgent, cfg.QPS, cfg.ContentType)
	}
	if in.UserAgent != "" || in.QPS != 0 {
		t.Error("the caller's configuration was changed")
	}
}

func TestC2_BadConfigurationIsInvalidRequestAndNamesTheFile(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	if err := os.WriteFile(bad, []byte("apiVersion: [v1"), 0o600); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "missing.yaml")
	noCurrent := kubeconfig(t, "here", "https://here.invalid", "", false)
	noCert := kubeconfig(t, "cert", "https://cert.invalid", "", true)
	empty := filepath.Join(dir, "empty.yaml")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		path, env string
		overrides *clientcmd.ConfigOverrides
		want      []string
		advice    string
	}{
		"explicit file missing":     {path: missing, want: []string{missing}},
		"explicit file malformed":   {path: bad, want: []string{bad}},
		"explicit path is a folder": {path: dir, want: []string{dir}},
		"explicit file empty":       {path: empty, want: []string{empty, "names no cluster"}},
		"KUBECONFIG malformed":      {env: bad, want: []string{bad}},
		"KUBECONFIG all missing":    {env: missing, want: []string{"KUBECONFIG", missing}, advice: "unset"},
		"no current context":        {path: noCurrent, want: []string{noCurrent, "no context is current"}, advice: "here"},
		"context does not exist": {path: noCurrent, overrides: &clientcmd.ConfigOverrides{CurrentContext: "gone"},
			want: []string{noCurrent, `"gone" does not exist`}, advice: "here"},
		"certificate missing": {path: noCert, want: []string{noCert, missing},
			overrides: &clientcmd.ConfigOverrides{ClusterInfo: api.Cluster{CertificateAuthority: missing}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			clearEnv(t)
			t.Setenv("KUBECONFIG", tt.env)
			_, _, err := Load(tt.path, tt.overrides)
			if !stderrors.Is(err, errors.InvalidRequest) {
				t.Fatalf("error %v, code %q", err, errors.CodeOf(err))
			}
			for _, w := range tt.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q does not name %q", err, w)
				}
			}
			if a := errors.AdviceOf(err); a == "" || !strings.Contains(a, tt.advice) {
				t.Errorf("advice %q, want something with %q", a, tt.advice)
			}
		})
	}
}

func TestC2_NothingConfiguredIsToldInsteadOfGuessingLocalhost(t *testing.T) {
	clearEnv(t)
	_, _, err := GetKubeClient()
	if !stderrors.Is(err, errors.InvalidRequest) || !stderrors.Is(err, ErrNoCluster) {
		t.Fatalf("error %v", err)
	}
	if a := errors.AdviceOf(err); !strings.Contains(a, "KUBECONFIG") || !strings.Contains(a, "pod") {
		t.Errorf("advice %q does not say both ways", a)
	}
}

func TestInClusterOutsideAPodIsInvalidRequest(t *testing.T) {
	clearEnv(t)
	if _, _, err := InCluster(""); !stderrors.Is(err, errors.InvalidRequest) {
		t.Errorf("error %v", err)
	}
}

func TestServerOverrideNeedsNoKubeconfig(t *testing.T) {
	clearEnv(t)
	cfg, ns, err := Load("", &clientcmd.ConfigOverrides{ClusterInfo: api.Cluster{Server: "http://localhost:8080"}})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Host != "http://localhost:8080" || ns != "default" {
		t.Errorf("host %q, namespace %q", cfg.Host, ns)
	}
}

func TestVersionComesFromTheBuild(t *testing.T) {
	mod := func(path, version string) *debug.Module { return &debug.Module{Path: path, Version: version} }
	tests := map[string]struct {
		info *debug.BuildInfo
		ok   bool
		want string
	}{
		"no build info":   {nil, false, "devel"},
		"main module":     {&debug.BuildInfo{Main: *mod(module, "v1.0.0")}, true, "v1.0.0"},
		"not stamped":     {&debug.BuildInfo{Main: *mod(module, "(devel)")}, true, "devel"},
		"as a dependency": {&debug.BuildInfo{Main: *mod("example.com/x", "v9"), Deps: []*debug.Module{mod(module, "v1.1.0")}}, true, "v1.1.0"},
		"elsewhere":       {&debug.BuildInfo{Main: *mod("example.com/x", "v9")}, true, "devel"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, buildVersion(tt.info, tt.ok)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
