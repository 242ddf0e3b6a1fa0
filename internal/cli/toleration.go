package cli

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/NVIDIA/aicr/pkg/errors"
)

// Words in place of a toleration.
const (
	tolerateAll  = "*"
	tolerateNone = "none"
)

// parseTolerations reads tolerations: key=value:effect, key:effect for any
// value, "*:effect" for any key, "*" for every taint. "none" alone is an empty
// list, no text at all is nil.
func parseTolerations(flag string, texts []string) ([]corev1.Toleration, error) {
	parts := splitComma(texts)
	if slices.Contains(parts, tolerateNone) {
		if len(parts) > 1 {
			return nil, errors.New(errors.InvalidRequest, "%s: %q stands beside others", flag, tolerateNone).
				WithAdvice("give %s none alone, to tolerate no taint", flag)
		}
		return []corev1.Toleration{}, nil
	}
	var out []corev1.Toleration
	for _, part := range parts {
		t, why := parseToleration(part)
		if why != "" {
			return nil, errors.New(errors.InvalidRequest, "%s %q: %s", flag, part, why).
				WithAdvice("write %s key[=value]:effect, with effect NoSchedule, PreferNoSchedule or NoExecute", flag)
		}
		out = append(out, t)
	}
	return out, nil
}

// parseToleration reads one toleration, or tells why it is none.
func parseToleration(s string) (_ corev1.Toleration, why string) {
	if s == tolerateAll {
		return corev1.Toleration{Operator: corev1.TolerationOpExists}, ""
	}
	// A key may not contain a colon, nor may a value.
	taint, effect, ok := strings.Cut(s, ":")
	if !ok {
		return corev1.Toleration{}, "there is no effect"
	}
	t := corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffect(effect)}
	switch t.Effect {
	case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
	default:
		return corev1.Toleration{}, "there is no effect " + effect
	}
	if taint == tolerateAll {
		return t, ""
	}
	key, value, equal := strings.Cut(taint, "=")
	if msgs := validation.IsQualifiedName(key); len(msgs) > 0 {
		return corev1.Toleration{}, "key " + strings.Join(msgs, "; ")
	}
	if msgs := validation.IsValidLabelValue(value); len(msgs) > 0 {
		return corev1.Toleration{}, "value " + strings.Join(msgs, "; ")
	}
	t.Key = key
	if equal {
		t.Operator, t.Value = corev1.TolerationOpEqual, value
	}
	return t, ""
}
