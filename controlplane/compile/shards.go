package compile

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

// GlobalRows are the rows that no tenant owns.
type GlobalRows struct {
	Providers       []*configv1.Provider
	Routes          []*configv1.Route
	RoutePlugins    []*configv1.RoutePluginConfig
	ProviderPlugins []*configv1.ProviderPluginConfig
	Pricing         []*configv1.ProviderPricing
	PriceBook       []*configv1.PriceBookEntry
	Scheduling      *configv1.SchedulingPolicy
}

// TenantRows are the rows of one tenant that nodes need for routing.
type TenantRows struct {
	Tenant          *configv1.Tenant
	Providers       []*configv1.Provider
	Groups          []*configv1.Group
	Upstreams       []*configv1.Upstream
	Credentials     []*configv1.UpstreamCredential
	Models          []*configv1.UpstreamModel
	Routes          []*configv1.Route
	RoutePlugins    []*configv1.RoutePluginConfig
	ProviderPlugins []*configv1.ProviderPluginConfig
	LogicalRoutes   []*configv1.LogicalRoute
	Policies        []*configv1.Policy
	Budgets         []*configv1.Budget
	CreditAccounts  []*configv1.CreditAccount
	Pricing         []*configv1.ProviderPricing
	PriceBook       []*configv1.PriceBookEntry
}

// Secret is a secret sealed for delivery. Its bytes are reused from where they
// are stored: sealing anew would look like a change.
type Secret struct {
	// OwnerID is a credential, with Proxy a credential or an upstream, with State
	// the tenant.
	OwnerID string
	// Proxy says that it is the password of the owner's egress proxy.
	Proxy bool
	// State says that it is the tenant's state key.
	State   bool
	Version int64
	Sealed  []byte
}

// Global returns the shard of what no tenant owns. Draft prices are left out:
// nodes use published ones alone.
func Global(r GlobalRows) *syncv1.GlobalShard {
	return &syncv1.GlobalShard{
		Providers:       cleaned(r.Providers),
		SharedRoutes:    cleaned(r.Routes),
		RoutePlugins:    cleaned(r.RoutePlugins),
		ProviderPlugins: cleaned(r.ProviderPlugins),
		Pricing:         cleaned(published(r.Pricing)),
		PriceBook:       cleaned(published(r.PriceBook)),
		Scheduling:      proto.CloneOf(r.Scheduling),
	}
}

// Tenant returns the policy shard of a tenant, nil if there is no tenant. What is
// of the identity domain is cleared from it: secrets, and of credentials whether
// they are switched off and when they expire, which stands with the secret.
func Tenant(r TenantRows) *syncv1.TenantShard {
	if r.Tenant == nil {
		return nil
	}
	s := &syncv1.TenantShard{
		Tenant:          clean(r.Tenant),
		Providers:       cleaned(r.Providers),
		Groups:          cleaned(r.Groups),
		Upstreams:       cleaned(r.Upstreams),
		Credentials:     cleaned(r.Credentials),
		Models:          cleaned(r.Models),
		Routes:          cleaned(r.Routes),
		RoutePlugins:    cleaned(r.RoutePlugins),
		ProviderPlugins: cleaned(r.ProviderPlugins),
		LogicalRoutes:   cleaned(r.LogicalRoutes),
		Policies:        cleaned(r.Policies),
		Budgets:         cleaned(r.Budgets),
		CreditAccounts:  cleaned(r.CreditAccounts),
		Pricing:         cleaned(published(r.Pricing)),
		PriceBook:       cleaned(published(r.PriceBook)),
	}
	s.Tenant.Suspended = false // stands in the tenant's record
	for _, c := range s.GetCredentials() {
		c.Disabled, c.ExpireTime = false, nil
		c.SecretRef, c.SecretVersion = "", 0
	}
	return s
}

// Credentials returns the shard of a tenant's secrets, nil if it has none. A credential whose secret is neither stored nor a reference is left out:
// nodes treat it as one whose secret they do not have.
func Credentials(tenantID string, credentials []*configv1.UpstreamCredential, upstreams []*configv1.Upstream, secrets []Secret) (*syncv1.CredentialShard, error) {
	type slot struct {
		owner string
		proxy bool
	}
	stored := make(map[slot]Secret, len(secrets))
	out := &syncv1.CredentialShard{TenantId: tenantID}
	for _, s := range secrets {
		if s.State {
			if s.OwnerID == tenantID {
				out.SealedStateKey = s.Sealed
			}
			continue
		}
		stored[slot{s.OwnerID, s.Proxy}] = s
	}
	for _, c := range credentials {
		value, proxy := stored[slot{c.GetId(), false}], stored[slot{c.GetId(), true}]
		if c.GetSecretRef() != "" && len(value.Sealed) > 0 {
			return nil, fmt.Errorf("credential %s: its secret is stored and referred to; clear secret_ref or remove the stored secret", c.GetId())
		}
		if c.GetSecretRef() == "" && len(value.Sealed) == 0 {
			continue
		}
		s := &syncv1.SealedSecret{
			CredentialId: c.GetId(), Sealed: value.Sealed, SecretRef: c.GetSecretRef(),
			Disabled: c.GetDisabled(), ExpireTime: c.GetExpireTime(), Version: cmp.Or(value.Version, c.GetSecretVersion()),
		}
		if c.GetProxy() != nil {
			s.SealedProxy = proxy.Sealed
		}
		out.Secrets = append(out.Secrets, s)
	}
	for _, u := range upstreams {
		if p := stored[slot{u.GetId(), true}]; u.GetProxy() != nil && len(p.Sealed) > 0 {
			out.Secrets = append(out.Secrets, &syncv1.SealedSecret{UpstreamId: u.GetId(), SealedProxy: p.Sealed, Version: p.Version})
		}
	}
	if len(out.GetSecrets()) == 0 && len(out.GetSealedStateKey()) == 0 {
		return nil, nil
	}
	slices.SortFunc(out.GetSecrets(), func(a, b *syncv1.SealedSecret) int {
		return cmp.Or(cmp.Compare(a.GetCredentialId(), b.GetCredentialId()), cmp.Compare(a.GetUpstreamId(), b.GetUpstreamId()))
	})
	return out, nil
}

// TenantSubject returns the record of a tenant; purged is since when its keys are
// valid, zero if all are.
func TenantSubject(t *configv1.Tenant, purged time.Time) *syncv1.SubjectRecord {
	return &syncv1.SubjectRecord{
		Kind: syncv1.SubjectKind_SUBJECT_KIND_TENANT, Id: t.GetId(), TenantId: t.GetId(), Name: t.GetName(),
		Suspended: t.GetSuspended() || t.GetDisabled(), PolicyId: t.GetPolicyId(), PurgeTime: stamp(purged),
		MaxAuthStalenessS: t.GetMaxAuthStalenessS(), OnStale: t.GetOnStale(), Labels: t.GetLabels(),
	}
}

// ProjectSubject returns the record of a project.
func ProjectSubject(p *configv1.Project, purged time.Time) *syncv1.SubjectRecord {
	return &syncv1.SubjectRecord{
		Kind: syncv1.SubjectKind_SUBJECT_KIND_PROJECT, Id: p.GetId(), TenantId: p.GetTenantId(), Name: p.GetName(),
		Suspended: p.GetSuspended() || p.GetDisabled(), PolicyId: p.GetPolicyId(), PurgeTime: stamp(purged), Labels: p.GetLabels(),
	}
}

// ConsumerSubject returns the record of a consumer.
func ConsumerSubject(c *configv1.Consumer, purged time.Time) *syncv1.SubjectRecord {
	return &syncv1.SubjectRecord{
		Kind: syncv1.SubjectKind_SUBJECT_KIND_CONSUMER, Id: c.GetId(), TenantId: c.GetTenantId(), ProjectId: c.GetProjectId(), Name: c.GetName(),
		Suspended: c.GetSuspended() || c.GetDisabled(), PolicyId: c.GetPolicyId(), PurgeTime: stamp(purged), Labels: c.GetLabels(),
		GroupIds: c.GetGroupIds(), AllowedModels: c.GetAllowedModels(), Claims: c.GetClaims(), PriceBook: c.GetPriceBook(),
	}
}

// ConsumerKey returns the record of a key, nil if it is revoked or disabled: then
// no node knows it. A key that expires keeps its record, since every node sees
// to the time itself and does so without the control plane.
func ConsumerKey(k *configv1.ConsumerAPIKey) *syncv1.KeyRecord {
	if k == nil || k.GetDisabled() || k.GetRevokeTime() != nil {
		return nil
	}
	c := clean(k)
	c.Sha256, c.Hint = "", ""
	return &syncv1.KeyRecord{Sha256: k.GetSha256(), TenantId: k.GetTenantId(), Holder: &syncv1.KeyRecord_ConsumerKey{ConsumerKey: c}}
}

// RouteToken returns the record of a route's legacy token by its hash, nil if the
// route is disabled or has no such token.
func RouteToken(r *configv1.Route, sha256 string) *syncv1.KeyRecord {
	if r == nil || r.GetDisabled() {
		return nil
	}
	for _, t := range r.GetLegacyBearerAuthTokens() {
		if sha256 != "" && t.GetSha256() == sha256 {
			return &syncv1.KeyRecord{Sha256: sha256, TenantId: r.GetTenantId(), Holder: &syncv1.KeyRecord_RouteToken{
				RouteToken: &syncv1.RouteToken{RouteId: r.GetId(), Label: t.GetLabel()},
			}}
		}
	}
	return nil
}

// Issuer returns the record of a JWT issuer, nil if it is disabled.
func Issuer(i *configv1.JWTIssuer) *syncv1.IssuerRecord {
	if i == nil || i.GetDisabled() {
		return nil
	}
	return &syncv1.IssuerRecord{Issuer: clean(i)}
}

// Bytes returns the bytes of a shard as they are stored, hashed and sent: the
// deterministic form, made once. Releases may order differently, so nobody makes
// them again to compare.
func Bytes(m proto.Message) ([]byte, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode shard: %w", err)
	}
	if b == nil {
		b = []byte{}
	}
	return b, nil
}

func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func published[M interface{ GetPublished() bool }](ms []M) []M {
	var out []M
	for _, m := range ms {
		if m.GetPublished() {
			out = append(out, m)
		}
	}
	return out
}

type resource interface {
	proto.Message
	GetId() string
}

// cleaned returns clean copies in the order of ids.
func cleaned[M resource](ms []M) []M {
	out := make([]M, 0, len(ms))
	for _, m := range ms {
		out = append(out, clean(m))
	}
	slices.SortFunc(out, func(a, b M) int { return cmp.Compare(a.GetId(), b.GetId()) })
	return out
}

// clean returns a copy without what nodes do not need and what would make equal
// content differ: etag, times of writing, secrets and their fingerprints.
func clean[M proto.Message](m M) M {
	c := proto.CloneOf(m)
	scrub(c.ProtoReflect(), 0)
	return c
}

// maxDepth bounds recursion into messages; contracts nest less.
const maxDepth = 64

func scrub(m protoreflect.Message, depth int) {
	if depth > maxDepth {
		return
	}
	top := depth == 0
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch name := fd.Name(); {
		case top && bookkeeping(name), secretField(fd), name == "secret_fingerprint":
			m.Clear(fd)
		case fd.IsMap():
		case fd.IsList() && fd.Message() != nil:
			for i := range v.List().Len() {
				scrub(v.List().Get(i).Message(), depth+1)
			}
		case fd.Message() != nil:
			scrub(v.Message(), depth+1)
		}
		return true
	})
}

// bookkeeping reports whether a field tells of the row and not of the resource.
func bookkeeping(name protoreflect.Name) bool {
	return name == "etag" || name == "create_time" || name == "update_time"
}

// secretField reports whether a field holds a secret by value.
func secretField(fd protoreflect.FieldDescriptor) bool {
	switch fd.FullName() {
	case "aidy.config.v1.UpstreamCredential.secret", "aidy.config.v1.EgressProxy.secret", "aidy.config.v1.LegacyToken.token":
		return true
	}
	return false
}
