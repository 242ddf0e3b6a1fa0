package main

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// pack packs two programs into dir and gives the command line's error.
func packInto(t *testing.T, dir string) {
	t.Helper()
	source := t.TempDir()
	err := run([]string{
		"-name=aicr", "-ref=example.com/aicr:1", "-version=1", "-ca=" + write(t, filepath.Join(source, "ca"), "certificates"),
		"-binary=linux/amd64=" + write(t, filepath.Join(source, "amd64"), "program for amd64"),
		"-binary=linux/arm64=" + write(t, filepath.Join(source, "arm64"), "program for arm64"),
		"-layout=" + filepath.Join(dir, "layout"),
		"-archive=" + filepath.Join(dir, "archive.tar"), "-platform=linux/arm64",
	})
	if err != nil {
		t.Fatal(err)
	}
}

// files gives the mode and content of all that an image holds, and fails on
// a time or an owner in it.
func files(t *testing.T, image v1.Image) map[string]string {
	t.Helper()
	stream := mutate.Extract(image)
	defer stream.Close()
	found := map[string]string{}
	reader := tar.NewReader(stream)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		if header.ModTime.Unix() != 0 || header.Uid != 0 || header.Gid != 0 {
			t.Errorf("%s has time %s and owner %d:%d", header.Name, header.ModTime, header.Uid, header.Gid)
		}
		found[header.Name] = header.FileInfo().Mode().String() + " " + string(text)
	}
}

func TestLayoutHoldsEachPlatformAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	packInto(t, dir)
	top, err := layout.ImageIndexFromPath(filepath.Join(dir, "layout"))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := top.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 || manifest.Manifests[0].Annotations[refAnnotation] != "example.com/aicr:1" {
		t.Fatalf("the layout's entries: %+v", manifest.Manifests)
	}
	index, err := top.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	platforms, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range platforms.Manifests {
		names = append(names, entry.Platform.String())
		image, err := index.Image(entry.Digest)
		if err != nil {
			t.Fatal(err)
		}
		checkImage(t, image, entry.Platform.Architecture)
	}
	if want := []string{"linux/amd64", "linux/arm64"}; !slices.Equal(names, want) {
		t.Errorf("platforms %v, want %v", names, want)
	}
}

func TestArchiveHoldsTheOnePlatform(t *testing.T) {
	dir := t.TempDir()
	packInto(t, dir)
	image, err := tarball.ImageFromPath(filepath.Join(dir, "archive.tar"), nil)
	if err != nil {
		t.Fatal(err)
	}
	checkImage(t, image, "arm64")
}

func checkImage(t *testing.T, image v1.Image, arch string) {
	t.Helper()
	want := map[string]string{
		"tmp":                               "dtrwxrwxrwx ",
		"usr":                               "drwxr-xr-x ",
		"usr/local":                         "drwxr-xr-x ",
		"usr/local/bin":                     "drwxr-xr-x ",
		"usr/local/bin/aicr":                "-rwxr-xr-x program for " + arch,
		"etc":                               "drwxr-xr-x ",
		"etc/ssl":                           "drwxr-xr-x ",
		"etc/ssl/certs":                     "drwxr-xr-x ",
		"etc/ssl/certs/ca-certificates.crt": "-rw-r--r-- certificates",
	}
	got := files(t, image)
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s: %s is %q, want %q", arch, name, got[name], text)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s: %s has no place in the image", arch, name)
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := config.Config
	if config.Architecture != arch || config.OS != "linux" {
		t.Errorf("the image is for %s/%s", config.OS, config.Architecture)
	}
	if c.User != "65534:65534" || !slices.Equal(c.Cmd, []string{"aicr"}) || len(c.Entrypoint) != 0 ||
		!slices.Contains(c.Env, pathEnv) || c.Labels["org.opencontainers.image.version"] != "1" {
		t.Errorf("the image's settings: %+v", c)
	}
}

func TestSameInputGivesTheSameImage(t *testing.T) {
	var texts []string
	for range 2 {
		dir := t.TempDir()
		packInto(t, dir)
		text, err := os.ReadFile(filepath.Join(dir, "layout", "index.json"))
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	if texts[0] != texts[1] {
		t.Errorf("two layouts differ:\n%s\n%s", texts[0], texts[1])
	}
}

func TestIncompleteCommandLineIsRefused(t *testing.T) {
	for _, args := range [][]string{
		{},
		{"-name=aicr", "-ref=a:1", "-binary=linux/amd64=x"},
		{"-name=aicr", "-ref=a:1", "-binary=linux=x", "-layout=y"},
		{"-name=aicr", "-ref=a:1", "-binary=linux/amd64=x", "-archive=y"},
	} {
		if err := run(args); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
}
