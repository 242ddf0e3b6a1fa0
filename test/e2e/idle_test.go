package e2e

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/NVIDIA/aicr/pkg/measurement"
	"github.com/NVIDIA/aicr/pkg/runid"
	"github.com/NVIDIA/aicr/pkg/serializer"
	"github.com/NVIDIA/aicr/pkg/snapshotter"
)

// TestTwoSnapshotsOfAnIdleNodeAreEqualButForTheirTimes has the node for
// itself: it is not parallel, so that the others wait.
func TestTwoSnapshotsOfAnIdleNodeAreEqualButForTheirTimes(t *testing.T) {
	o := options(t, true)
	var docs [2]string
	for i := range docs {
		o.Agent.RunID = runid.Generate()
		res, err := snapshotter.Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		s := decode(t, res.Data)
		for _, c := range s.Collectors {
			if c.State == measurement.StateFailed || (c.Name == "k8s" || c.Name == "topology") && c.State != measurement.StateOK {
				t.Errorf("%+v", c)
			}
		}
		s.Metadata.Timestamp = time.Time{}
		for j := range s.Collectors {
			s.Collectors[j].DurationMS = 0
		}
		doc, err := serializer.Encode(serializer.YAML, s)
		if err != nil {
			t.Fatal(err)
		}
		docs[i] = string(doc)
	}
	if diff := cmp.Diff(docs[0], docs[1]); diff != "" {
		t.Error(diff)
	}
}
