//go:build !unix

package serializer

import (
	"io/fs"
	"os"
)

// noModes tells that the platform has no permission bits to keep.
const noModes = true

func keepOwner(*os.File, fs.FileInfo) {}

func syncFolder(string) {}
