package cli

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/NVIDIA/aicr/pkg/errors"
)

// parsePairs reads key=value[,key=value] from each text. A key given twice with
// two values is refused: one of them would be lost.
func parsePairs(flag string, texts []string) (map[string]string, error) {
	var out map[string]string
	for _, pair := range splitComma(texts) {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, errors.New(errors.InvalidRequest, "%s %q: there is no \"=\"", flag, pair).
				WithAdvice("write %s key=value[,key=value]", flag)
		}
		if old, twice := out[key]; twice && old != value {
			return nil, errors.New(errors.InvalidRequest, "%s: %s is both %q and %q", flag, key, old, value).
				WithAdvice("give one value a key")
		}
		if msgs := validation.IsQualifiedName(key); len(msgs) > 0 {
			return nil, errors.New(errors.InvalidRequest, "%s %q: key %s", flag, pair, strings.Join(msgs, "; ")).
				WithAdvice("write %s key=value[,key=value]", flag)
		}
		if out == nil {
			out = map[string]string{}
		}
		out[key] = value
	}
	return out, nil
}

// parseSelector reads labels that a node must carry.
func parseSelector(flag string, texts []string) (map[string]string, error) {
	pairs, err := parsePairs(flag, texts)
	if err != nil {
		return nil, err
	}
	for key, value := range pairs {
		if msgs := validation.IsValidLabelValue(value); len(msgs) > 0 {
			return nil, errors.New(errors.InvalidRequest, "%s %s=%s: value %s", flag, key, value, strings.Join(msgs, "; ")).
				WithAdvice("give the label's value as kubectl get nodes --show-labels shows it")
		}
	}
	return pairs, nil
}

// parseResources reads quantities by resource name, such as cpu=1,memory=1Gi.
func parseResources(flag string, texts []string) (corev1.ResourceList, error) {
	pairs, err := parsePairs(flag, texts)
	if err != nil || pairs == nil {
		return nil, err
	}
	out := corev1.ResourceList{}
	for name, text := range pairs {
		q, err := resource.ParseQuantity(text)
		if err == nil && q.Sign() < 0 {
			err = errors.New(errors.InvalidRequest, "it is negative")
		}
		if err != nil {
			return nil, errors.Wrap(errors.InvalidRequest, err, "%s %s=%s", flag, name, text).
				WithAdvice("write quantities as Kubernetes does, such as cpu=500m,memory=1Gi")
		}
		out[corev1.ResourceName(name)] = q
	}
	return out, nil
}

// splitComma returns the parts of each text, empty ones left out.
func splitComma(texts []string) []string {
	var out []string
	for _, text := range texts {
		for part := range strings.SplitSeq(text, ",") {
			if part = strings.TrimSpace(part); part != "" {
				out = append(out, part)
			}
		}
	}
	return out
}
