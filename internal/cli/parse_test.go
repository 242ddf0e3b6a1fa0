package cli

import (
	stderrors "errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/NVIDIA/aicr/pkg/errors"
)

func TestTolerationIsReadOrRefusedWithItsReason(t *testing.T) {
	const long = "a.very.long.domain.example.com/key"
	tests := map[string]struct {
		in   []string
		want []corev1.Toleration
		why  string
	}{
		"none given":          {nil, nil, ""},
		"empty text":          {[]string{""}, nil, ""},
		"key, value, effect":  {[]string{"k=v:NoSchedule"}, []corev1.Toleration{{Key: "k", Operator: "Equal", Value: "v", Effect: "NoSchedule"}}, ""},
		"key and effect":      {[]string{"k:NoExecute"}, []corev1.Toleration{{Key: "k", Operator: "Exists", Effect: "NoExecute"}}, ""},
		"an empty value":      {[]string{"k=:NoExecute"}, []corev1.Toleration{{Key: "k", Operator: "Equal", Effect: "NoExecute"}}, ""},
		"a key with a domain": {[]string{long + ":PreferNoSchedule"}, []corev1.Toleration{{Key: long, Operator: "Exists", Effect: "PreferNoSchedule"}}, ""},
		"any key":             {[]string{"*:NoSchedule"}, []corev1.Toleration{{Operator: "Exists", Effect: "NoSchedule"}}, ""},
		"every taint":         {[]string{"*"}, []corev1.Toleration{{Operator: "Exists"}}, ""},
		"none":                {[]string{"none"}, []corev1.Toleration{}, ""},
		"with a comma":        {[]string{"a:NoSchedule, b:NoExecute"}, []corev1.Toleration{{Key: "a", Operator: "Exists", Effect: "NoSchedule"}, {Key: "b", Operator: "Exists", Effect: "NoExecute"}}, ""},
		"no effect":           {[]string{"k=v"}, nil, "there is no effect"},
		"empty effect":        {[]string{"k:"}, nil, "there is no effect"},
		"unknown effect":      {[]string{"k:noschedule"}, nil, "there is no effect noschedule"},
		"no key":              {[]string{"=v:NoSchedule"}, nil, "key name part must be non-empty"},
		"a bad key":           {[]string{"a b:NoSchedule"}, nil, "key name part must consist"},
		"a bad value":         {[]string{"k=a b:NoSchedule"}, nil, "value a valid label must"},
		"a second colon":      {[]string{"k=v:NoSchedule:x"}, nil, "there is no effect NoSchedule:x"},
		"none and another":    {[]string{"none", "k:NoSchedule"}, nil, "stands beside others"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseTolerations("--toleration", tt.in)
			checkRefusal(t, err, tt.why)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSelectorIsReadOrRefusedWithItsReason(t *testing.T) {
	tests := map[string]struct {
		in   []string
		want map[string]string
		why  string
	}{
		"none given":       {nil, nil, ""},
		"pairs":            {[]string{"a=1,b.example.com/c=x", "d="}, map[string]string{"a": "1", "b.example.com/c": "x", "d": ""}, ""},
		"the same twice":   {[]string{"a=1", "a=1"}, map[string]string{"a": "1"}, ""},
		"spaces and ends":  {[]string{" a=1 ,, "}, map[string]string{"a": "1"}, ""},
		"no equals sign":   {[]string{"a"}, nil, `there is no "="`},
		"no key":           {[]string{"=1"}, nil, "key name part must be non-empty"},
		"two values":       {[]string{"a=1", "a=2"}, nil, `a is both "1" and "2"`},
		"a bad value":      {[]string{"a=b=c"}, nil, "value a valid label must"},
		"another operator": {[]string{"a!=b"}, nil, "key name part must consist"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseSelector("--node-selector", tt.in)
			checkRefusal(t, err, tt.why)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestResourcesAreReadOrRefusedWithTheirReason(t *testing.T) {
	tests := map[string]struct {
		in   []string
		want corev1.ResourceList
		why  string
	}{
		"none given": {nil, nil, ""},
		"several": {[]string{"cpu=500m,memory=1Gi", "nvidia.com/gpu=2"}, corev1.ResourceList{
			"cpu": resource.MustParse("500m"), "memory": resource.MustParse("1Gi"), "nvidia.com/gpu": resource.MustParse("2"),
		}, ""},
		"no quantity": {[]string{"cpu="}, nil, "quantities must match"},
		"a bad unit":  {[]string{"memory=1GB"}, nil, "quantities must match"},
		"negative":    {[]string{"cpu=-1"}, nil, "it is negative"},
		"no equals":   {[]string{"cpu"}, nil, `there is no "="`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseResources("--requests", tt.in)
			checkRefusal(t, err, tt.why)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// checkRefusal checks that an input was refused for that reason, with advice,
// or that it was not where the reason is empty.
func checkRefusal(t *testing.T, err error, why string) {
	t.Helper()
	if why == "" {
		if err != nil {
			t.Errorf("error %v", err)
		}
		return
	}
	if !stderrors.Is(err, errors.InvalidRequest) || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), "--") {
		t.Errorf("error %v, want one that names its flag and %q", err, why)
	}
	if errors.AdviceOf(err) == "" {
		t.Errorf("no advice with %v", err)
	}
}

// What is accepted is valid to the API server and means what was written.
func FuzzTolerations(f *testing.F) {
	for _, s := range []string{"k=v:NoSchedule", "k:NoExecute", "*", "*:PreferNoSchedule", "none", "a:NoSchedule,b=:NoExecute", "=:", ":", "k=v:NoSchedule:x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parseTolerations("--toleration", []string{s})
		if err != nil {
			if !stderrors.Is(err, errors.InvalidRequest) {
				t.Errorf("code %q", errors.CodeOf(err))
			}
			return
		}
		var back []string
		for _, l := range got {
			if l.Key != "" && len(validation.IsQualifiedName(l.Key)) > 0 || len(validation.IsValidLabelValue(l.Value)) > 0 {
				t.Errorf("%q became %+v", s, l)
			}
			text := l.Key
			if l.Key == "" {
				text = "*"
			}
			if l.Operator == corev1.TolerationOpEqual {
				text += "=" + l.Value
			}
			if l.Effect != "" {
				text += ":" + string(l.Effect)
			}
			back = append(back, text)
		}
		if want := splitComma([]string{s}); len(got) > 0 && cmp.Diff(want, back) != "" {
			t.Errorf("%q reads as %q", want, back)
		}
	})
}

// What is accepted keeps every pair, and names no key twice.
func FuzzSelector(f *testing.F) {
	for _, s := range []string{"a=1", "a=1,b=2", "a=1,a=2", "=", "a", ",", "a=b=c", "x.y/z="} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parseSelector("--node-selector", []string{s})
		if err != nil {
			if !stderrors.Is(err, errors.InvalidRequest) {
				t.Errorf("code %q", errors.CodeOf(err))
			}
			return
		}
		for _, pair := range splitComma([]string{s}) {
			k, v, _ := strings.Cut(pair, "=")
			if got[k] != v || len(validation.IsQualifiedName(k)) > 0 || len(validation.IsValidLabelValue(v)) > 0 {
				t.Errorf("%q of %q became %q", pair, s, got)
			}
		}
	})
}

func FuzzResources(f *testing.F) {
	for _, s := range []string{"cpu=1", "cpu=500m,memory=1Gi", "cpu=-1", "memory=1e3", "a=", "a=9999999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parseResources("--requests", []string{s})
		if err != nil && !stderrors.Is(err, errors.InvalidRequest) {
			t.Errorf("code %q", errors.CodeOf(err))
		}
		for name, q := range got {
			if q.Sign() < 0 {
				t.Errorf("%s is %s", name, q.String())
			}
		}
	})
}
