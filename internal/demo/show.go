package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/NVIDIA/aicr/pkg/measurement"
	"github.com/NVIDIA/aicr/pkg/serializer"
)

// show prints a short view of a snapshot: its size, some readings and how each
// collector fared.
func show(out io.Writer, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	s, err := serializer.Decode(data)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\nsnapshot of node %s, %d bytes, by aicr %s\n", s.Metadata.SourceNode, len(data), s.Metadata.Version)
	for _, m := range s.Measurements {
		for _, sub := range m.Subtypes {
			fmt.Fprintf(out, "  %-4s %-10s %4d readings, %d items%s\n", m.Type, sub.Name, len(sub.Data), len(sub.Items), examples(sub))
		}
	}
	for _, c := range s.Collectors {
		fmt.Fprintf(out, "  collector %-4s %-8s %4d ms  %s\n", c.Name, c.State, c.DurationMS, c.Reason)
	}
	return nil
}

// examples shows the readings that say most about a node.
func examples(sub measurement.Subtype) string {
	var text strings.Builder
	for _, key := range []string{"PRETTY_NAME", "release", "version", "kubelet-version", "container-runtime", "count", "gpu-count", "driver-version"} {
		if r, ok := sub.Data[key]; ok {
			fmt.Fprintf(&text, "  %s=%s", key, r)
		}
	}
	return text.String()
}
