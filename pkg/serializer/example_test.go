package serializer_test

import (
	"context"
	"fmt"
	"os"

	"github.com/NVIDIA/aicr/pkg/measurement"
	"github.com/NVIDIA/aicr/pkg/serializer"
)

func Example() {
	snapshot := &measurement.Snapshot{
		APIVersion:   measurement.APIVersion,
		Kind:         measurement.Kind,
		Metadata:     measurement.Metadata{Version: "v1.2.3", SourceNode: "node-1"},
		Measurements: []measurement.Measurement{},
		Collectors:   []measurement.CollectorStatus{},
	}
	data, err := serializer.Encode(serializer.YAML, snapshot)
	if err != nil {
		fmt.Println(err)
		return
	}
	// The same code writes a file or a ConfigMap: see NewFile and NewConfigMap.
	out := serializer.NewStdout(os.Stdout)
	err = out.Write(context.Background(), serializer.Document{
		Format: serializer.YAML, Data: data, Kind: snapshot.Kind, Version: snapshot.Metadata.Version,
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// apiVersion: aicr.run/v1
	// collectors: []
	// kind: Snapshot
	// measurements: []
	// metadata:
	//   source-node: node-1
	//   timestamp: "0001-01-01T00:00:00Z"
	//   version: v1.2.3
}
