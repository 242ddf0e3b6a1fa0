package k8s

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/NVIDIA/aicr/pkg/collector"
	"github.com/NVIDIA/aicr/pkg/collector/apiserver"
	"github.com/NVIDIA/aicr/pkg/collector/redact"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

// policyKind is a custom resource that configures an operator.
type policyKind struct{ kind, group, version, resource string }

// policyKinds are those of the GPU operator,
// https://github.com/NVIDIA/gpu-operator/tree/main/api/nvidia, and of the
// network operator, https://github.com/Mellanox/network-operator/tree/master/api.
var policyKinds = [...]policyKind{
	{"ClusterPolicy", "nvidia.com", "v1", "clusterpolicies"},
	{"NVIDIADriver", "nvidia.com", "v1alpha1", "nvidiadrivers"},
	{"NicClusterPolicy", "mellanox.com", "v1alpha1", "nicclusterpolicies"},
}

// policyList is a page of such resources.
type policyList struct {
	metav1.ListMeta `json:"metadata"`
	Items           []struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Spec   any `json:"spec"`
		Status struct {
			State string `json:"state"`
		} `json:"status"`
	} `json:"items"`
}

// policies reads the operators' configuration. In the data is how many there
// are of a kind; a kind that the cluster does not have is named in the context
// and has no count.
//
// The requests are made by hand: a client for custom resources would weigh
// more than all of this package.
func (c Collector) policies(ctx context.Context) func(*collector.Findings) {
	// A fake has none.
	api := c.client.Discovery().RESTClient()
	if api == nil {
		return unread(subtypePolicy, "this client cannot read custom resources")
	}
	s := measurement.Subtype{Name: subtypePolicy, Data: readings{}, Context: map[string]string{}}
	failed := map[string]string{}
	for _, k := range policyKinds {
		var items []measurement.Item
		consistent, err := apiserver.Pages(ctx, c.pageSize, k.lister(api), func(page *policyList) {
			for _, p := range page.Items {
				r := readings{}
				r.text("status.state", p.Status.State)
				r.flatten("", "", p.Spec)
				items = append(items, measurement.Item{Name: k.kind + "/" + p.Metadata.Name, Data: r})
			}
		})
		switch {
		case apierrors.IsNotFound(err):
			s.Context[k.kind] = "the cluster does not know this kind"
		case err != nil:
			failed[subtypePolicy+"/"+k.kind] = apiserver.Reason(err, fmt.Sprintf("list %s.%s", k.resource, k.group), k.resource)
		default:
			s.Data[k.kind] = measurement.Int(len(items))
			s.Items = append(s.Items, items...)
		}
		if !consistent {
			apiserver.NoteInconsistent(&s)
		}
	}
	return func(f *collector.Findings) {
		if len(failed) < len(policyKinds) {
			f.Add(s)
		}
		for key, reason := range failed {
			f.Unread(key, reason)
		}
	}
}

// lister returns the request for a page.
func (k policyKind) lister(api rest.Interface) func(context.Context, metav1.ListOptions) (*policyList, error) {
	return func(ctx context.Context, o metav1.ListOptions) (*policyList, error) {
		body, err := api.Get().AbsPath("/apis", k.group, k.version, k.resource).
			Param("limit", strconv.FormatInt(o.Limit, 10)).Param("continue", o.Continue).
			SetHeader("Accept", "application/json").Do(ctx).Raw()
		if err != nil {
			return nil, err
		}
		return parsePolicies(body)
	}
}

func parsePolicies(body []byte) (*policyList, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var l policyList
	if err := d.Decode(&l); err != nil {
		return nil, errors.New("the answer is no list of objects: " + err.Error())
	}
	return &l, nil
}

// flatten adds a value of JSON under its path: a.b for a member, a.0 for an
// element. name is what the value is called, by which secrets are known. An
// empty object or list is told as such, null is absent.
func (r readings) flatten(path, name string, v any) {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 && path != "" {
			r[measurement.Key(path)] = measurement.Str("{}")
		}
		for k, member := range v {
			called := k
			// An environment variable's name stands beside its value.
			if n, ok := v["name"].(string); ok && k == "value" {
				called = n
			}
			r.flatten(strings.TrimPrefix(path+"."+k, "."), called, member)
		}
	case []any:
		if len(v) == 0 {
			r[measurement.Key(path)] = measurement.Str("[]")
		}
		for i, element := range redactArgs(v) {
			r.flatten(path+"."+strconv.Itoa(i), name, element)
		}
	case string:
		r[measurement.Key(path)] = setting(name, v)
	case bool:
		r[measurement.Key(path)] = measurement.Bool(v)
	case json.Number:
		r[measurement.Key(path)] = number(v)
	}
}

// redactArgs redacts a list of texts as a command line, in which a flag's
// value may be the next element.
func redactArgs(list []any) []any {
	args := make([]string, len(list))
	for i := range list {
		s, ok := list[i].(string)
		if !ok {
			return list
		}
		args[i] = s
	}
	out := make([]any, len(list))
	for i, s := range redact.Args(args) {
		out[i] = s
	}
	return out
}

func number(n json.Number) measurement.Reading {
	if i, err := n.Int64(); err == nil {
		return measurement.Int(i)
	}
	if f, err := n.Float64(); err == nil {
		return measurement.Float(f)
	}
	return measurement.Str(n.String())
}

// setting is a value without what looks like a secret. Settings that name a
// Secret, an object of Kubernetes, hold none.
func setting(name, value string) measurement.Reading {
	plain := strings.ToLower(strings.NewReplacer("-", "", "_", "", ".", "").Replace(name))
	for _, reference := range []string{"secretname", "secretnamespace", "pullsecrets"} {
		if strings.HasSuffix(plain, reference) {
			return measurement.Str(value)
		}
	}
	return measurement.Str(redact.Value(name, value))
}
