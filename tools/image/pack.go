package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	// binDir is on the image's PATH, for a pod's command is a bare name.
	binDir  = "usr/local/bin"
	pathEnv = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	// caFile is where Go programs look first on Linux.
	caFile = "etc/ssl/certs/ca-certificates.crt"
	// user is nobody: the image does not run as root unless a pod says so.
	user = "65534:65534"
)

// packed is the image for one platform.
type packed struct {
	binary
	image v1.Image
}

func packAll(o options) ([]packed, error) {
	var ca []byte
	if o.ca != "" {
		var err error
		if ca, err = os.ReadFile(o.ca); err != nil {
			return nil, fmt.Errorf("read CA certificates: %w", err)
		}
	}
	var all []packed
	for _, b := range o.binaries {
		image, err := pack(o, b, ca)
		if err != nil {
			return nil, fmt.Errorf("pack %s for %s/%s: %w", o.name, b.os, b.arch, err)
		}
		all = append(all, packed{binary: b, image: image})
	}
	return all, nil
}

// pack makes a single-layer image.
func pack(o options, b binary, ca []byte) (v1.Image, error) {
	content, err := os.ReadFile(b.path)
	if err != nil {
		return nil, err
	}
	layerTar, err := layerFiles(o.name, content, ca)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(layerTar)), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.AppendLayers(base, layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = b.os, b.arch
	config.Config = v1.Config{
		Env:  []string{pathEnv},
		Cmd:  []string{o.name},
		User: user,
	}
	if o.version != "" {
		config.Config.Labels = map[string]string{"org.opencontainers.image.version": o.version}
	}
	return mutate.ConfigFile(image, config)
}

// layerFiles gives the tar stream with all of the image's files. Every time
// in it is zero, so that the same files give the same image.
func layerFiles(name string, program, ca []byte) ([]byte, error) {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	entries := []struct {
		name string
		mode int64
		data []byte // nil: a folder
	}{
		{"tmp/", 0o1777, nil},
		{"usr/", 0o755, nil},
		{"usr/local/", 0o755, nil},
		{binDir + "/", 0o755, nil},
		{path.Join(binDir, name), 0o755, program},
		{"etc/", 0o755, nil},
		{"etc/ssl/", 0o755, nil},
		{"etc/ssl/certs/", 0o755, nil},
		{caFile, 0o644, ca},
	}
	for _, e := range entries {
		header := &tar.Header{Name: e.name, Mode: e.mode, Format: tar.FormatPAX, Typeflag: tar.TypeDir}
		if e.data != nil {
			header.Typeflag, header.Size = tar.TypeReg, int64(len(e.data))
		} else if e.name == caFile {
			continue // no certificates were asked for
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}
