package cli

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/NVIDIA/aicr/pkg/errors"
)

// versionInfo is what aicr version -o json writes.
type versionInfo struct {
	Version      string `json:"version"`
	GoVersion    string `json:"goVersion"`
	Platform     string `json:"platform"`
	DefaultImage string `json:"defaultImage,omitempty"`
}

type versionOptions struct {
	output string
}

func (a *app) newVersion() *cobra.Command {
	var o versionOptions
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Tell the version of this program",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(a)
		},
	}
	cmd.Flags().StringVarP(&o.output, "output", "o", "", "json, or empty for text")
	return cmd
}

func (o *versionOptions) validate() error {
	if o.output != "" && o.output != "json" {
		return errors.New(errors.InvalidRequest, "unknown output %q", o.output).WithAdvice("choose json, or leave -o out")
	}
	return nil
}

func (o *versionOptions) run(a *app) error {
	v := versionInfo{
		Version:      thisVersion(),
		GoVersion:    runtime.Version(),
		Platform:     runtime.GOOS + "/" + runtime.GOARCH,
		DefaultImage: defaultImage,
	}
	if o.output == "json" {
		e := json.NewEncoder(a.streams.Out)
		e.SetIndent("", "  ")
		return e.Encode(v)
	}
	image := v.DefaultImage
	if image == "" {
		image = "none: give --image"
	}
	_, err := fmt.Fprintf(a.streams.Out, "aicr %s\n%s %s\ndefault image: %s\n", v.Version, v.GoVersion, v.Platform, image)
	return err
}
