package k8s

import (
	"encoding/json"
	"strings"
	"testing"
)

func FuzzPoliciesKeepNoSecretAndStayScalar(f *testing.F) {
	f.Add([]byte(`{"items":[{"metadata":{"name":"a"},"spec":{"a":[{"name":"TOKEN","value":"x"}],"b":{}}}]}`))
	f.Add([]byte(`{"items":[{"spec":[1,null,"--token","y"]}],"metadata":{"continue":"c"}}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		l, err := parsePolicies(body)
		if err != nil {
			return
		}
		for _, item := range l.Items {
			r := readings{}
			r.flatten("", "", item.Spec)
			if _, err := json.Marshal(r); err != nil {
				t.Errorf("%s: %v", body, err)
			}
			r.flatten("planted", "planted", map[string]any{"password": "hunter2", "env": []any{map[string]any{"name": "MY_TOKEN", "value": "hunter2"}}, "x": item.Spec})
			for k, v := range r {
				if strings.HasPrefix(k, "planted.") && !strings.HasPrefix(k, "planted.x") && strings.Contains(v.String(), "hunter2") {
					t.Errorf("%s: %s", k, v)
				}
			}
		}
	})
}

func FuzzReferencesLoseTheirUser(f *testing.F) {
	f.Add("example.com/app:1", "")
	f.Add("app", "docker-pullable://x@sha256:1")
	f.Fuzz(func(t *testing.T, ref, id string) {
		if strings.Contains(ref+id, "hunter2") {
			t.Skip()
		}
		i := newImage("me:hunter2@"+ref, id)
		name, tag := splitReference(i.ref)
		if strings.Contains(name+tag+i.name(), "hunter2") {
			t.Errorf("%q: %q %q %q", ref, name, tag, i.name())
		}
	})
}
