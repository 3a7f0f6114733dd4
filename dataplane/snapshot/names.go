package snapshot

import (
	"strings"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

// NameSet is a list of names and of patterns that end in *.
type NameSet struct {
	exact    map[string]struct{}
	prefixes []string
}

// NewNameSet indexes a list. An absent list is nil, which contains everything; a
// present and empty one contains nothing.
func NewNameSet(l *configv1.NameList) *NameSet {
	if l == nil {
		return nil
	}
	s := &NameSet{exact: make(map[string]struct{}, len(l.GetNames()))}
	for _, n := range l.GetNames() {
		if p, ok := strings.CutSuffix(n, "*"); ok {
			s.prefixes = append(s.prefixes, p)
		} else {
			s.exact[n] = struct{}{}
		}
	}
	return s
}

// Contains reports whether the name is in the set. A nil set contains every name.
func (s *NameSet) Contains(name string) bool {
	if s == nil {
		return true
	}
	if _, ok := s.exact[name]; ok {
		return true
	}
	for _, p := range s.prefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}
