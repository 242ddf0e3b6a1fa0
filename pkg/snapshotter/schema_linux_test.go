package snapshotter

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/NVIDIA/aicr/pkg/collector"
	"github.com/NVIDIA/aicr/pkg/collector/host"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

const schemaFile = "../../docs/schema/snapshot.json"

func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(t *testing.T, s *jsonschema.Schema, document any) error {
	t.Helper()
	text, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(v)
}

func TestRealSnapshotsFollowTheSchema(t *testing.T) {
	s := schema(t)
	for name, view := range map[string]host.View{"local": HostLocal(), "privileged pod": HostForPod(true), "restricted pod": HostForPod(false)} {
		snapshot, err := Capture(t.Context(), CaptureOptions{Host: view, Version: "v1"})
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(t, s, snapshot); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	snapshot, err := Capture(t.Context(), captureOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate(t, s, snapshot); err != nil {
		t.Error(err)
	}
}

// The collectors' golden files hold what no machine here has.
func TestGoldenFilesFollowTheSchema(t *testing.T) {
	s := schema(t)
	found := 0
	err := filepath.WalkDir("../collector", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".golden.yaml") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var r collector.Result
		if err := yaml.UnmarshalStrict(text, &r); err != nil || r.Status.State == "" {
			return err // a golden file of something else
		}
		found++
		r.Status.Name = "x"
		document := measurement.Snapshot{
			APIVersion: measurement.APIVersion, Kind: measurement.Kind, Measurements: r.Measurements, Collectors: []measurement.CollectorStatus{r.Status},
		}
		document.Normalize()
		if err := validate(t, s, document); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		return nil
	})
	if err != nil || found < 20 {
		t.Error(found, err)
	}
}

func TestSchemaRefusesWhatItDoesNotTell(t *testing.T) {
	s := schema(t)
	for name, change := range map[string]struct{ from, to string }{
		"another version":         {`"apiVersion":"aicr.run/v1"`, `"apiVersion":"aicr.run/v2"`},
		"an unknown field":        {`"kind":"Snapshot"`, `"kind":"Snapshot","more":1`},
		"an unknown type":         {`"type":"OS"`, `"type":"BIOS"`},
		"an unknown subtype":      {`"subtype":"kernel"`, `"subtype":"kernels"`},
		"an unknown key":          {`"arch":"x86_64"`, `"arch":"x86_64","arc":"x"`},
		"a number as text":        {`"count":1`, `"count":"1"`},
		"a negative count":        {`"count":1`, `"count":-1`},
		"an unknown GPU state":    {`"state":"driver not bound"`, `"state":"not bound"`},
		"no value":                {`"arch":"x86_64"`, `"arch":null`},
		"a state without reason":  {`"state":"ok"`, `"state":"failed"`},
		"an ok with a reason":     {`"state":"ok"`, `"state":"ok","reason":"none"`},
		"a state by another name": {`"state":"ok"`, `"state":"fine"`},
		"a time with a zone":      {`05Z"`, `05+01:00"`},
		"no status":               {`"collectors":`, `"Collectors":`},
	} {
		snapshot, err := Capture(t.Context(), captureOptions(t))
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(snapshot)
		if err != nil {
			t.Fatal(err)
		}
		changed := strings.Replace(string(text), change.from, change.to, 1)
		if changed == string(text) {
			t.Errorf("%s: %s is not in %s", name, change.from, text)
		}
		if err := validate(t, s, json.RawMessage(changed)); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func TestSchemaAndItsTextTellTheSameKeys(t *testing.T) {
	text, err := os.ReadFile("../../docs/schema.md")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	type object struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	type subtype struct {
		Properties struct {
			Data  object `json:"data"`
			Items struct {
				Items struct {
					Properties struct {
						Data object `json:"data"`
					} `json:"properties"`
				} `json:"items"`
			} `json:"items"`
		} `json:"properties"`
	}
	var file struct {
		Defs map[string]json.RawMessage `json:"$defs"`
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	told := 0
	for name, def := range file.Defs {
		if !strings.HasPrefix(name, "gpu-") && !strings.HasPrefix(name, "os-") {
			continue
		}
		var s subtype
		if err := json.Unmarshal(def, &s); err != nil {
			t.Fatal(name, err)
		}
		for _, keys := range []object{s.Properties.Data, s.Properties.Items.Items.Properties.Data} {
			for key := range keys.Properties {
				if told++; !strings.Contains(string(text), "`"+key+"`") {
					t.Errorf("docs/schema.md does not tell of %s in %s", key, name)
				}
			}
		}
	}
	if told < 100 {
		t.Errorf("%d keys", told)
	}
}
