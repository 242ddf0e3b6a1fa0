package assets_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/NVIDIA/aicr/internal/devcluster/assets"
)

// tree makes a repository with a module tools and gives its root.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	all := map[string]string{
		"go.mod":             "module github.com/NVIDIA/aicr\n",
		"tools/go.mod":       "module tools\n\nrequire (\n\tk8s.io/kubernetes v1.2.3\n)\n",
		"tools/kube/main.go": "package main\n",
	}
	for name, text := range files {
		all[name] = text
	}
	for name, text := range all {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestDirFollowsWhatDecidesTheBuild(t *testing.T) {
	base, err := assets.Dir(tree(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		files map[string]string
		same  bool
	}{
		"another clone":      {nil, true},
		"a test":             {map[string]string{"tools/kube/main_test.go": "package main\n"}, true},
		"a text":             {map[string]string{"tools/README.md": "text"}, true},
		"another module":     {map[string]string{"tools/lint/go.mod": "module lint\n", "tools/lint/a.go": "package lint\n"}, true},
		"the product":        {map[string]string{"cmd/aicr/main.go": "package main\n"}, true},
		"a changed source":   {map[string]string{"tools/kube/main.go": "package main // changed\n"}, false},
		"a new source":       {map[string]string{"tools/kube/more.go": "package main\n"}, false},
		"a changed checksum": {map[string]string{"tools/go.sum": "changed"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := assets.Dir(tree(t, test.files))
			if err != nil {
				t.Fatal(err)
			}
			if (dir == base) != test.same {
				t.Errorf("folder %s, and before %s", dir, base)
			}
		})
	}
}

func TestVersionIsWhatToolsRequire(t *testing.T) {
	version, err := assets.Version(tree(t, nil))
	if err != nil || version != "v1.2.3" {
		t.Errorf("got %q, %v", version, err)
	}
	_, err = assets.Version(tree(t, map[string]string{"tools/go.mod": "module tools\n"}))
	if err == nil {
		t.Error("a go.mod without Kubernetes was accepted")
	}
}

func TestFindTellsHowToGetWhatIsMissing(t *testing.T) {
	t.Setenv(assets.EnvDir, "")
	t.Chdir(filepath.Join(tree(t, nil), "tools", "kube"))
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	if _, err := assets.Find(); !errors.Is(err, assets.ErrMissing) {
		t.Errorf("got %v, want ErrMissing", err)
	}
}

func TestFindPrefersTheFolderNamed(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(assets.EnvDir, dir)
	if _, err := assets.Find(); err == nil {
		t.Error("an empty folder was accepted")
	}
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set, err := assets.Find()
	if err != nil || set.Dir != dir {
		t.Errorf("got %+v, %v", set, err)
	}
	if _, ok := set.Program("kubelet"); ok {
		t.Error("it claims to have a kubelet")
	}
}
