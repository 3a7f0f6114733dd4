// Package settings loads the settings of a program strictly: from a struct's
// defaults, a YAML file, the environment and flags, each overruling the one
// before. What is not known is an error, not a surprise, and all errors come at
// once.
//
// A settings struct describes itself by tags:
//
//	type Config struct {
//		InferenceAddr string        `key:"inference_addr" default:"127.0.0.1:8080" help:"Address of the public listener."`
//		Drain         time.Duration `key:"drain" default:"30s" help:"Time streams get to end."`
//		Database      struct {
//			URL secret.Text `key:"url" required:"true" help:"PostgreSQL connection string."`
//		} `key:"database"`
//	}
//
// The key of a field in the file is its path (database.url, written nested), in
// the environment the path in capitals behind the prefix (AIDY_DATABASE_URL).
//
//	key       name in the file; "-" leaves the field alone; a struct without a key belongs to its parent
//	default   text of the default; without it the field keeps the value it came with
//	help      one sentence for Docs
//	secret    "true": the value is never printed (secret.Text always is one)
//	required  "true": must not be empty in the end
//	enum      the values allowed, with commas
//	env       name of the variable where it is not the key's own
//
// A field is a string, bool, int, int64, time.Duration, Bytes, []string,
// map[string]string, or has an UnmarshalText method. Floating point is not
// offered: it is no way to write money.
//
// A struct at any level may have a method Validate() error, which is called
// once all values could be read.
package settings

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// DefaultEnvPrefix stands before the name of every variable.
const DefaultEnvPrefix = "AIDY_"

// Sources says where values come from. The zero value loads defaults alone.
type Sources struct {
	// File is the path of a YAML file of at most 1 MiB; "" means none. A file
	// that is named must be there.
	File string

	// Environ is the environment in the form of os.Environ. A variable with the
	// prefix that is neither a setting nor ignored is an error; one that is empty
	// counts as not set.
	Environ []string

	// EnvPrefix stands before every variable. Default "AIDY_".
	EnvPrefix string

	// Ignore lists variables with the prefix that belong to other programs in
	// the same environment. A name that ends in "*" stands for all that begin so.
	Ignore []string

	// Overrides are values by key, from flags. They win over everything.
	Overrides map[string]string
}

// Loaded is a struct that was filled, with the origin of every value.
type Loaded struct {
	leaves []*leaf
}

// Load fills the struct dst points to. The error holds everything that is wrong,
// one line each, with its place; then dst is in no defined state. Load reads the
// file and changes nothing but dst.
func Load(dst any, src Sources) (*Loaded, error) {
	s, err := schemaOf(dst, src.prefix())
	if err != nil {
		return nil, err
	}
	var problems problems
	for _, l := range s.leaves {
		if l.hasDefault {
			if err := l.set(l.def, "default"); err != nil {
				return nil, fmt.Errorf("settings: default of %s: %w", l.key, err)
			}
		}
	}
	if src.File != "" {
		s.loadFile(src.File, &problems)
	}
	s.loadEnv(src, &problems)
	s.loadOverrides(src.Overrides, &problems)
	if len(problems) == 0 {
		s.check(&problems)
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("settings: %w", errors.Join(problems...))
	}
	return &Loaded{s.leaves}, nil
}

func (src Sources) prefix() string {
	if src.EnvPrefix == "" {
		return DefaultEnvPrefix
	}
	return src.EnvPrefix
}

// problems collects errors so that all can be shown at once.
type problems []error

func (p *problems) add(format string, args ...any) {
	*p = append(*p, fmt.Errorf(format, args...))
}

func (s *schema) loadEnv(src Sources, problems *problems) {
	environ := slices.Clone(src.Environ)
	slices.Sort(environ)
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		l := s.byEnv[name]
		switch {
		case l == nil && strings.HasPrefix(name, src.prefix()) && !ignored(name, src.Ignore):
			problems.add("environment: %s is no setting of this program%s", name, suggest(name, s.envNames()))
		case l != nil && value != "":
			if err := l.set(value, "environment "+name); err != nil {
				problems.add("environment: %s: %w", name, err)
			}
		}
	}
}

func ignored(name string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		if start, ok := strings.CutSuffix(p, "*"); ok {
			return strings.HasPrefix(name, start)
		}
		return name == p
	})
}

func (s *schema) loadOverrides(overrides map[string]string, problems *problems) {
	for _, key := range sortedKeys(overrides) {
		l := s.byKey[key]
		if l == nil {
			problems.add("flag: %s is no setting of this program%s", key, suggest(key, s.keys()))
			continue
		}
		if err := l.set(overrides[key], "flag"); err != nil {
			problems.add("flag: %s: %w", key, err)
		}
	}
}

// validator is what a settings struct may have.
type validator interface{ Validate() error }

func (s *schema) check(problems *problems) {
	for _, l := range s.leaves {
		if l.required && l.empty() {
			problems.add("%s is required: set it in the file or in %s", l.key, l.env)
		}
	}
	for _, g := range s.groups {
		v, ok := g.value.Addr().Interface().(validator)
		if !ok {
			continue
		}
		if err := v.Validate(); err != nil {
			if g.key == "" {
				problems.add("%w", err)
			} else {
				problems.add("%s: %w", g.key, err)
			}
		}
	}
}

// empty reports whether the field holds nothing: its zero value, or a list or
// map without entries.
func (l *leaf) empty() bool {
	if z, ok := l.value.Interface().(interface{ IsZero() bool }); ok {
		return z.IsZero()
	}
	switch l.value.Kind() {
	case reflect.Slice, reflect.Map:
		return l.value.Len() == 0
	}
	return l.value.IsZero()
}
