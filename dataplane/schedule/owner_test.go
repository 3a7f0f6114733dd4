package schedule

import (
	"strings"
	"testing"
	"time"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/stateid"
	"github.com/aidy-gateway/aidy-gateway/dataplane/snapshot"
)

// owned are four accounts: a and b of one provider share a scope, c of another
// provider has a scope of the same name, d has one of its own.
func owned(t testing.TB) (*Query, []plan.Candidate) {
	t.Helper()
	cs := candidates(account{id: "a"}, account{id: "b"}, account{id: "c"}, account{id: "d"})
	for i := range cs[:3] {
		cs[i].StateScope = "org"
	}
	cs[3].StateScope = "own"
	cs[2].Upstream.ProviderId = "prv_2"
	ten := &syncv1.TenantShard{Tenant: &configv1.Tenant{Id: "ten_1"}}
	for _, c := range cs {
		ten.Upstreams = append(ten.Upstreams, c.Upstream)
	}
	v, err := snapshot.Static(nil, nil, ten)
	if err != nil {
		t.Fatal(err)
	}
	q := queryFor(t)
	q.View = v
	return q, cs
}

func TestOnlyTheOwnerOfStateGetsTheRequest(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		owner stateid.Owner
		want  string // ids of the candidates that may serve
	}{
		{"nothing named", stateid.Owner{}, "a b c d"},
		{"a scope that two accounts of a provider share", stateid.Owner{Scope: "org", Upstream: "upr_a"}, "a b"},
		{"the same name at another provider", stateid.Owner{Scope: "org", Upstream: "upr_c"}, "c"},
		{"a scope of one account", stateid.Owner{Scope: "own", Upstream: "upr_d"}, "d"},
		{"a scope whose upstream is no more", stateid.Owner{Scope: "own", Upstream: "upr_x"}, "d"},
		{"an account that is no more", stateid.Owner{Scope: "gone", Upstream: "upr_d"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			q, cs := owned(t)
			q.Owner = tc.owner
			sel := New(Config{}).Select(q, cs, time.Now())
			var usable []string
			for i := range sel.Rows {
				r := sel.Rows[i].Reason
				switch r {
				case "":
					usable = append(usable, cs[i].ID)
				case StateOwnerMismatch:
				default:
					t.Errorf("%s is out for %s", cs[i].ID, r)
				}
			}
			if got := strings.Join(usable, " "); got != tc.want {
				t.Errorf("%q may serve, want %q", got, tc.want)
			}
		})
	}
}

// An id outlives a change of the scope's name where the credential is the same.
func TestScopeOfTheCredentialStaysGood(t *testing.T) {
	t.Parallel()
	q, cs := owned(t)
	cs[0].Credential = &configv1.UpstreamCredential{Id: "crd_1"}
	q.Owner = stateid.Owner{Scope: "crd_1", Upstream: "upr_a"}
	if ownedElsewhere(q, &cs[0]) {
		t.Error("the credential lost what it made before its scope got a name")
	}
	if !ownedElsewhere(q, &cs[1]) {
		t.Error("another account of the new scope is taken for the credential")
	}
}

// If the owner cannot serve, the caller hears why it cannot, not why others do not.
func TestRefusalOfAPinnedRequestIsItsOwners(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, tc := range []struct {
		name  string
		spoil func(q *Query, cs []plan.Candidate) map[string]Reason
		class fault.Class
		text  string
	}{
		{"the owner rests", func(*Query, []plan.Candidate) map[string]Reason {
			return map[string]Reason{"d": "cooldown_rate_limit"}
		}, fault.CapacityExhausted, "holds what the request refers to is at its limit"},
		{"the owner failed and others do not speak the protocol", func(_ *Query, cs []plan.Candidate) map[string]Reason {
			cs[0].Capability, cs[1].Capability = nil, nil
			return map[string]Reason{"d": AlreadyFailed}
		}, fault.NoCandidate, "holds what the request refers to is resting"},
		{"others have no secret and the owner may not be used", func(_ *Query, cs []plan.Candidate) map[string]Reason {
			cs[3].Upstream.GroupId = "grp_other"
			cs[0].Credential = &configv1.UpstreamCredential{Id: "crd_1"}
			return nil
		}, fault.NotPermitted, "no upstream that this API key may use"},
		{"there is no owner", func(q *Query, _ []plan.Candidate) map[string]Reason {
			q.Owner.Scope = "gone"
			return nil
		}, fault.NotPermitted, "or is no more"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			q, cs := owned(t)
			q.Owner = stateid.Owner{Scope: "own", Upstream: "upr_d"}
			q.Skip = tc.spoil(q, cs)
			sel := New(Config{}).Select(q, cs, now)
			if len(sel.Order) != 0 {
				t.Fatalf("%d candidates may serve", len(sel.Order))
			}
			f := sel.Refusal(now)
			if f.Class != tc.class || !strings.Contains(f.Text(), tc.text) {
				t.Errorf("refused as %v: %s, want %v: %s", f.Class, f.Text(), tc.class, tc.text)
			}
		})
	}
}
