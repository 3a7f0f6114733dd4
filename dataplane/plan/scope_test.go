package plan

import (
	"slices"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/dataplane/auth"
)

// Stored objects are a credential's own unless operators say who shares them, and an
// upstream's where there is no credential, or the caller's own key takes its place.
func TestStateScopeIsTheCredentialUnlessItIsNamed(t *testing.T) {
	t.Parallel()
	s := shard()
	s.Credentials[1].StateScope = "org"
	for method, want := range map[auth.Method][]string{
		auth.APIKey:      {"crd_1", "org", "upr_2"},
		auth.Passthrough: {"upr_1", "upr_2"},
	} {
		var got []string
		for _, c := range expand(t, s, "a", chat, method) {
			got = append(got, c.StateScope)
		}
		if !slices.Equal(got, want) {
			t.Errorf("method %v: scopes %v, want %v", method, got, want)
		}
	}
}
