package compile

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/configcheck"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

// Dangers that an author confirms by name.
const (
	ConfirmDisableAuth = "DISABLE_AUTH"
	ConfirmLargeChange = "LARGE_CHANGE"
	ConfirmMassDelete  = "MASS_DELETE"
)

// Sizes of shards in bytes.
const (
	// WarnShardBytes is the size from which a shard is worth a warning.
	WarnShardBytes = 1 << 20
	// MaxShardBytes is the size of the largest shard that is stored.
	MaxShardBytes = configcheck.MaxShardBytes
	// GrowthFloorBytes is the size below which growth is never large.
	GrowthFloorBytes = 64 << 10
)

// Thresholds of the gates. A share alone would stop every change of a small
// installation, so each has a number that must be passed as well.
const (
	gatePercent   = 20
	minTenants    = 10 // tenants touched
	minDeleted    = 10 // resources of one tenant that go
	growthPercent = 200
)

// Size is a shard before and after a change, in bytes; 0 where it is absent.
type Size struct {
	Key      string
	Old, New int64
}

// LimitError says that a change is too large to store.
type LimitError struct {
	Limit string // "shard_bytes"
	Key   string
	Value int64
	Max   int64
}

// Error names the shard and what to do.
func (e *LimitError) Error() string {
	return fmt.Sprintf("shard %s would have %d bytes, %d is the most: remove resources, or split the tenant", e.Key, e.Value, e.Max)
}

// CheckSizes returns *LimitError for the first shard that is too large, and
// warnings for those that are on the way there.
func CheckSizes(sizes []Size) ([]*adminv1.Warning, error) {
	var warnings []*adminv1.Warning
	for _, s := range sizes {
		if s.New > MaxShardBytes {
			return warnings, &LimitError{"shard_bytes", s.Key, s.New, MaxShardBytes}
		}
		if s.New > WarnShardBytes {
			warnings = append(warnings, &adminv1.Warning{
				Code: "LARGE_SHARD", Kind: "Shard", Id: s.Key,
				Message: fmt.Sprintf("the shard has %d bytes of at most %d; nodes receive it whole whenever something in it changes", s.New, MaxShardBytes),
			})
		}
	}
	return warnings, nil
}

// Pair is a resource before and after a change; nil where it is absent.
type Pair struct{ Old, New proto.Message }

// Extent is how far a change goes.
type Extent struct {
	// Sizes of every shard that changes.
	Sizes []Size
	// Resources that change.
	Resources []Pair
	// Tenants there are before the change.
	Tenants int
	// Held is how many resources each tenant has before the change, by tenant
	// id; the empty id stands for what no tenant owns. Only tenants that lose
	// something need to be in it.
	Held map[string]int
}

// Need is a danger to confirm, and why.
type Need struct {
	Confirm string
	Reason  string
}

// Gate returns the dangers of a change, each at most once, in a fixed order.
//
//   - DISABLE_AUTH: a route begins to serve without authentication.
//   - LARGE_CHANGE: a shard that exists more than doubles and ends above 64 KiB,
//     or more than 20 % of the tenants, and more than 10, are touched.
//   - MASS_DELETE: more than 20 % of the resources of a tenant, and more than 10,
//     go.
func Gate(x Extent) []Need {
	var needs []Need
	if r := opened(x.Resources); r != nil {
		needs = append(needs, Need{ConfirmDisableAuth, fmt.Sprintf("route %q begins to serve anyone who can reach it", r.GetName())})
	}
	if reason := large(x); reason != "" {
		needs = append(needs, Need{ConfirmLargeChange, reason})
	}
	if reason := massDelete(x); reason != "" {
		needs = append(needs, Need{ConfirmMassDelete, reason})
	}
	return needs
}

// Missing returns the needs that an author has not confirmed.
func Missing(needs []Need, confirmed []string) []Need {
	return slices.DeleteFunc(slices.Clone(needs), func(n Need) bool { return slices.Contains(confirmed, n.Confirm) })
}

// opened returns a route that serves without authentication and did not before.
func opened(pairs []Pair) *configv1.Route {
	open := func(r *configv1.Route) bool { return r.GetDisableAuth() && !r.GetDisabled() }
	for _, p := range pairs {
		before, _ := p.Old.(*configv1.Route)
		after, _ := p.New.(*configv1.Route)
		if open(after) && !open(before) {
			return after
		}
	}
	return nil
}

func large(x Extent) string {
	tenants := map[string]bool{}
	for _, s := range x.Sizes {
		if s.Old > 0 && s.New > GrowthFloorBytes && s.New*100 > s.Old*growthPercent {
			return fmt.Sprintf("shard %s grows from %d to %d bytes", s.Key, s.Old, s.New)
		}
		if n, err := shard.Parse(s.Key); err == nil && (n.Kind == shard.KindTenant || n.Kind == shard.KindCredentials ||
			n.Kind == shard.KindSubject && n.Subject == shard.SubjectTenant) {
			tenants[n.ID] = true
		}
	}
	if touched := len(tenants); touched > minTenants && touched*100 > x.Tenants*gatePercent {
		return fmt.Sprintf("%d of %d tenants are touched", touched, x.Tenants)
	}
	return ""
}

func massDelete(x Extent) string {
	gone := map[string]int{}
	for _, p := range x.Resources {
		if present(p.Old) && !present(p.New) {
			tenant := textOf(p.Old, "tenant_id")
			if t, ok := p.Old.(*configv1.Tenant); ok {
				tenant = t.GetId()
			}
			gone[tenant]++
		}
	}
	var tenants []string
	for id, n := range gone {
		if n > minDeleted && n*100 > x.Held[id]*gatePercent {
			tenants = append(tenants, id)
		}
	}
	if len(tenants) == 0 {
		return ""
	}
	slices.Sort(tenants)
	id := tenants[0]
	if id == "" {
		return fmt.Sprintf("%d of %d resources that no tenant owns are deleted", gone[id], x.Held[id])
	}
	return fmt.Sprintf("%d of %d resources of tenant %s are deleted", gone[id], x.Held[id], id)
}
