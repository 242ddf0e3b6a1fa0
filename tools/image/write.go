package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// refAnnotation is how tools that copy a layout know the image's name.
const refAnnotation = "org.opencontainers.image.ref.name"

// writeLayout writes an OCI layout whose one entry is an index with an image
// for each platform. A layout that is there already is replaced.
func writeLayout(o options, images []packed) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range images {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: p.image,
			Descriptor: v1.Descriptor{
				MediaType: types.OCIManifestSchema1,
				Platform:  &v1.Platform{OS: p.os, Architecture: p.arch},
			},
		})
	}
	work, err := os.MkdirTemp(filepath.Dir(o.layout), ".layout-")
	if err != nil {
		return fmt.Errorf("write the OCI layout: %w", err)
	}
	defer os.RemoveAll(work)
	path, err := layout.Write(work, empty.Index)
	if err != nil {
		return fmt.Errorf("write the OCI layout: %w", err)
	}
	err = path.AppendIndex(index, layout.WithAnnotations(map[string]string{refAnnotation: o.ref}))
	if err != nil {
		return fmt.Errorf("write the OCI layout: %w", err)
	}
	if err := os.Chmod(work, 0o755); err != nil {
		return fmt.Errorf("write the OCI layout: %w", err)
	}
	if err := os.RemoveAll(o.layout); err != nil {
		return fmt.Errorf("replace the OCI layout: %w", err)
	}
	if err := os.Rename(work, o.layout); err != nil {
		return fmt.Errorf("write the OCI layout: %w", err)
	}
	return nil
}

// writeArchive writes the image of one platform as a docker archive, which
// container runtimes import as it is.
func writeArchive(o options, images []packed) error {
	ref, err := name.NewTag(o.ref)
	if err != nil {
		return fmt.Errorf("read the image's name: %w", err)
	}
	for _, p := range images {
		if p.os+"/"+p.arch != o.platform {
			continue
		}
		temporary := o.archive + ".tmp"
		if err := tarball.WriteToFile(temporary, ref, p.image); err != nil {
			return fmt.Errorf("write the archive: %w", err)
		}
		if err := os.Rename(temporary, o.archive); err != nil {
			return fmt.Errorf("write the archive: %w", err)
		}
		return nil
	}
	return fmt.Errorf("write the archive: there is no program for %s", o.platform)
}
