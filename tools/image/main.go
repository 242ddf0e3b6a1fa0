// Command image packs a static program into a container image without a
// registry, a daemon or a Dockerfile: the program on the PATH, CA
// certificates, a /tmp, and nothing else. The same input gives the same bytes.
//
//	image -name aicr -binary linux/amd64=FILE -binary linux/arm64=FILE \
//	      -ref REPOSITORY:TAG -layout DIR        # an OCI layout, all platforms
//	image ... -archive FILE -platform linux/amd64 # a docker archive of one
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
)

// options is what the command line asks for.
type options struct {
	name     string     // the program's name in the image
	binaries binaryList // one a platform
	ref      string     // repository and tag
	version  string     // for the image's label; may be empty
	ca       string     // file with CA certificates; empty: none
	layout   string     // folder to write an OCI layout to; empty: none
	archive  string     // file to write a docker archive to; empty: none
	platform string     // the one that the archive holds
}

// binary is a program for one platform.
type binary struct {
	os, arch string
	path     string
}

// binaryList collects repeated -binary flags.
type binaryList []binary

// String shows the list as its flags were written.
func (l *binaryList) String() string {
	var parts []string
	for _, b := range *l {
		parts = append(parts, b.os+"/"+b.arch+"="+b.path)
	}
	return strings.Join(parts, " ")
}

// Set adds one os/arch=path.
func (l *binaryList) Set(value string) error {
	platform, path, ok := strings.Cut(value, "=")
	goos, arch, ok2 := strings.Cut(platform, "/")
	if !ok || !ok2 || path == "" {
		return fmt.Errorf("%q is not os/arch=path", value)
	}
	*l = append(*l, binary{os: goos, arch: arch, path: path})
	return nil
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	images, err := packAll(o)
	if err != nil {
		return err
	}
	if o.layout != "" {
		if err := writeLayout(o, images); err != nil {
			return err
		}
	}
	if o.archive != "" {
		return writeArchive(o, images)
	}
	return nil
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.StringVar(&o.name, "name", "", "the program's `name` in the image")
	flags.Var(&o.binaries, "binary", "`os/arch=path` of a static program; repeat for more platforms")
	flags.StringVar(&o.ref, "ref", "", "the image's `repository:tag`")
	flags.StringVar(&o.version, "version", "", "version for the image's label")
	flags.StringVar(&o.ca, "ca", "", "`file` with CA certificates to put in")
	flags.StringVar(&o.layout, "layout", "", "write an OCI layout with all platforms to this `folder`")
	flags.StringVar(&o.archive, "archive", "", "write a docker archive to this `file`")
	flags.StringVar(&o.platform, "platform", "", "`os/arch` that the archive holds")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	switch {
	case o.name == "" || o.ref == "" || len(o.binaries) == 0:
		return options{}, errors.New("-name, -ref and -binary must be given")
	case o.layout == "" && o.archive == "":
		return options{}, errors.New("-layout or -archive must be given")
	case o.archive != "" && o.platform == "":
		return options{}, errors.New("-archive needs -platform")
	}
	return o, nil
}
