package cli

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/NVIDIA/aicr/pkg/errors"
)

// envAnnotation marks a flag that a variable can set; its value is the
// variable's name.
const envAnnotation = "aicr_env"

// takeFromEnv lets every flag of the set be set by a variable too: AICR_ and
// the flag's name in upper case, with underscores, if the flag has no
// annotation that names another. Help shows the name.
func takeFromEnv(flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		name := "AICR_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if own := f.Annotations[envAnnotation]; len(own) > 0 {
			name = own[0]
		}
		f.Usage += " [$" + name + "]"
		// The flag exists, so that this cannot fail.
		_ = flags.SetAnnotation(f.Name, envAnnotation, []string{name})
	})
}

// bindEnv sets the flags that were not given from their variables. An explicit
// flag wins; an empty variable is as none. Changed goes on to tell whether a
// flag was given on the command line.
func bindEnv(flags *pflag.FlagSet, env LookupEnv) error {
	var first error
	flags.VisitAll(func(f *pflag.Flag) {
		names := f.Annotations[envAnnotation]
		if first != nil || f.Changed || len(names) == 0 {
			return
		}
		value, _ := env(names[0])
		if value == "" {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			first = errors.New(errors.InvalidRequest, "variable %s: %v", names[0], err).
				WithAdvice("correct or unset %s", names[0])
		}
		f.Changed = false
	})
	return first
}

// envBool tells whether a variable is set to what strconv.ParseBool takes for
// true.
func envBool(env LookupEnv, name string) bool {
	switch v, _ := env(name); strings.ToLower(v) {
	case "1", "t", "true":
		return true
	}
	return false
}
