package configcheck

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

func (c *Checker) checkCredentials(l *list, v Lookup, tenantID string, cr *syncv1.CredentialShard) {
	if !features(l, cr, cr.GetRequiredFeatures()) {
		return
	}
	if cr.GetTenantId() != tenantID {
		l.add(subject{kind: Kind(cr), name: tenantID}, "tenant_id", "shard.tenant", "the shard of tenant %s holds secrets of %s; compile it again", quote(tenantID), quote(cr.GetTenantId()))
	}
	var known map[string]*configv1.UpstreamCredential
	var upstreams map[string]*configv1.Upstream
	if t := v.Tenant(tenantID); c.cfg.CrossDomain && t != nil {
		known, upstreams = byID(t.GetCredentials()), byID(t.GetUpstreams())
	}
	seen := map[[2]string]bool{}
	for i, s := range cr.GetSecrets() {
		at := fmt.Sprintf("secrets[%d]", i)
		who := subject{kind: "UpstreamCredential", name: s.GetCredentialId()}
		if s.GetUpstreamId() != "" {
			who = subject{kind: "Upstream", name: s.GetUpstreamId()}
		}
		key := [2]string{s.GetCredentialId(), s.GetUpstreamId()}
		switch {
		case (s.GetCredentialId() == "") == (s.GetUpstreamId() == ""):
			l.add(who, at, "secret.owner", "a secret belongs to one credential or to one upstream's proxy")
		case seen[key]:
			l.add(who, at, "unique", "the secret occurs twice in the shard")
		case s.GetUpstreamId() != "":
			if len(s.GetSealedProxy()) == 0 || len(s.GetSealed()) > 0 || s.GetSecretRef() != "" {
				l.add(who, at, "secret.value", "an upstream has a proxy password and nothing else")
			}
		case (len(s.GetSealed()) > 0) == (s.GetSecretRef() != ""):
			l.add(who, at, "credential.secret", "give the secret by value or by reference: one of the two")
		case s.GetSecretRef() != "":
			secretRef(l, who, at+".secret_ref", s.GetSecretRef())
		}
		seen[key] = true
		if s.GetExpireTime() != nil && !s.GetExpireTime().IsValid() {
			l.add(who, at+".expire_time", "time.range", "give a time between the years 1 and 9999")
		}
		if known != nil && s.GetCredentialId() != "" && known[s.GetCredentialId()] == nil {
			l.add(who, at+".credential_id", "ref.missing", "there is no credential %s in this tenant", quote(s.GetCredentialId()))
		}
		if upstreams != nil && s.GetUpstreamId() != "" && upstreams[s.GetUpstreamId()] == nil {
			l.add(who, at+".upstream_id", "ref.missing", "there is no upstream %s in this tenant", quote(s.GetUpstreamId()))
		}
	}
}

// subjectResource names a subject record as its author knows it.
func subjectResource(kind syncv1.SubjectKind, rec *syncv1.SubjectRecord) subject {
	who := subject{name: rec.GetName()}
	if who.name == "" {
		who.name = rec.GetId()
	}
	switch kind {
	case syncv1.SubjectKind_SUBJECT_KIND_TENANT:
		who.kind = "Tenant"
	case syncv1.SubjectKind_SUBJECT_KIND_PROJECT:
		who.kind = "Project"
	case syncv1.SubjectKind_SUBJECT_KIND_CONSUMER:
		who.kind = "Consumer"
	default:
		who.kind = Kind(rec)
	}
	return who
}

func (c *Checker) checkSubject(l *list, v Lookup, kind syncv1.SubjectKind, id string, rec *syncv1.SubjectRecord) {
	if !features(l, rec, rec.GetRequiredFeatures()) {
		return
	}
	who := subjectResource(kind, rec)
	if kind == syncv1.SubjectKind_SUBJECT_KIND_UNSPECIFIED || rec.GetKind() != kind || rec.GetId() != id {
		l.add(who, "id", "shard.subject", "the record does not belong under this key; compile it again")
		return
	}
	c.contract(l, rec)
	if n := rec.GetMaxAuthStalenessS(); n != 0 && (n < 30 || n > 30*24*3600) {
		l.add(who, "max_auth_staleness_s", "tenant.staleness", "max_auth_staleness_s must be 0 or between 30 and 2592000")
	}
	if rec.GetPurgeTime() != nil && !rec.GetPurgeTime().IsValid() {
		l.add(who, "purge_time", "time.range", "give a time between the years 1 and 9999")
	}
	patterns(l, who, "allowed_models", rec.GetAllowedModels())
	if kind == syncv1.SubjectKind_SUBJECT_KIND_TENANT {
		if rec.GetTenantId() != id {
			l.add(who, "tenant_id", "ref.tenant", "a tenant's record belongs to that tenant; compile it again")
		}
	} else if v.Subject(syncv1.SubjectKind_SUBJECT_KIND_TENANT, rec.GetTenantId()) == nil {
		l.add(who, "tenant_id", "ref.missing", "there is no tenant %s", quote(rec.GetTenantId()))
	}
	if p := rec.GetProjectId(); p != "" {
		if owner := v.Subject(syncv1.SubjectKind_SUBJECT_KIND_PROJECT, p); owner == nil || owner.GetTenantId() != rec.GetTenantId() {
			l.add(who, "project_id", "ref.missing", "there is no project %s in this tenant; create it or name another", quote(p))
		}
	}
	for i, cl := range rec.GetClaims() {
		at := fmt.Sprintf("claims[%d]", i)
		claimAlone(l, who, at, cl)
		if is := v.Issuer(cl.GetIssuerId()); cl.GetIssuerId() != "" && (is == nil || is.GetIssuer().GetTenantId() != rec.GetTenantId()) {
			l.add(who, at+".issuer_id", "ref.missing", "there is no JWT issuer %s in this tenant; create it or name another", quote(cl.GetIssuerId()))
		}
	}
	if !c.cfg.CrossDomain {
		return
	}
	t := v.Tenant(rec.GetTenantId())
	groupRefs(l, who, "group_ids", rec.GetGroupIds(), t)
	policyExists(l, who, "policy_id", rec.GetPolicyId(), t)
}

func groupRefs(l *list, who subject, path string, ids []string, t *syncv1.TenantShard) {
	if len(ids) == 0 {
		return
	}
	groups := byID(t.GetGroups())
	for i, id := range ids {
		if groups[id] == nil {
			l.add(who, fmt.Sprintf("%s[%d]", path, i), "ref.missing", "there is no group %s in this tenant; create it or name another", quote(id))
		}
	}
}

func policyExists(l *list, who subject, path, id string, t *syncv1.TenantShard) {
	if id != "" && !slices.ContainsFunc(t.GetPolicies(), func(p *configv1.Policy) bool { return p.GetId() == id }) {
		l.add(who, path, "ref.missing", "there is no policy %s in this tenant; create it or name another", quote(id))
	}
}

func (c *Checker) checkKey(l *list, v Lookup, sum string, rec *syncv1.KeyRecord) {
	if !features(l, rec, rec.GetRequiredFeatures()) {
		return
	}
	who := subject{kind: Kind(rec), name: sum}
	if k := rec.GetConsumerKey(); k != nil {
		who = subjectOf(k)
	}
	if rec.GetSha256() != sum {
		l.add(who, "sha256", "shard.key", "the record does not belong under this key; compile it again")
	}
	if rec.GetTenantId() == "" || v.Subject(syncv1.SubjectKind_SUBJECT_KIND_TENANT, rec.GetTenantId()) == nil {
		l.add(who, "tenant_id", "ref.missing", "there is no tenant %s", quote(rec.GetTenantId()))
	}
	switch h := rec.GetHolder().(type) {
	case *syncv1.KeyRecord_ConsumerKey:
		c.consumerKey(l, v, who, rec, h.ConsumerKey)
	case *syncv1.KeyRecord_RouteToken:
		who = subject{kind: "Route", name: h.RouteToken.GetRouteId()}
		if h.RouteToken.GetRouteId() == "" {
			l.add(who, "route_token.route_id", "required", "a token belongs to a route")
		} else if t := v.Tenant(rec.GetTenantId()); c.cfg.CrossDomain && (t == nil || byID(t.GetRoutes())[h.RouteToken.GetRouteId()] == nil) {
			l.add(who, "route_token.route_id", "ref.missing", "there is no route %s in this tenant", quote(h.RouteToken.GetRouteId()))
		}
	default:
		l.add(who, "holder", "required", "the record names neither a consumer's key nor a route's token")
	}
}

func (c *Checker) consumerKey(l *list, v Lookup, who subject, rec *syncv1.KeyRecord, k *configv1.ConsumerAPIKey) {
	if k == nil {
		l.add(who, "consumer_key", "required", "the record is empty; compile it again")
		return
	}
	c.alone(l, k)
	if k.GetId() == "" {
		l.add(who, "id", "required", "the key has no id; the control plane gives it one")
	}
	if k.GetTenantId() != rec.GetTenantId() {
		l.add(who, "tenant_id", "ref.tenant", "key and record name different tenants; compile it again")
	}
	if len(k.GetScopes()) == 0 {
		l.add(who, "scopes", "key.scopes", "say what the key may do; INFERENCE and MODELS is usual")
	}
	if k.GetExpireTime() != nil && !k.GetExpireTime().IsValid() {
		l.add(who, "expire_time", "time.range", "give a time between the years 1 and 9999")
	}
	owner := v.Subject(syncv1.SubjectKind_SUBJECT_KIND_CONSUMER, k.GetConsumerId())
	if owner == nil || owner.GetTenantId() != rec.GetTenantId() {
		l.add(who, "consumer_id", "ref.missing", "there is no consumer %s in this tenant; create it or name another", quote(k.GetConsumerId()))
	} else {
		checkKeyGroups(l, rec, owner)
	}
	if p := k.GetProjectId(); p != "" {
		if of := v.Subject(syncv1.SubjectKind_SUBJECT_KIND_PROJECT, p); of == nil || of.GetTenantId() != rec.GetTenantId() {
			l.add(who, "project_id", "ref.missing", "there is no project %s in this tenant; create it or name another", quote(p))
		}
	}
	if !c.cfg.CrossDomain {
		return
	}
	t := v.Tenant(rec.GetTenantId())
	groupRefs(l, who, "group_ids", k.GetGroupIds(), t)
	policyExists(l, who, "policy_id", k.GetPolicyId(), t)
	if id := k.GetIssuerRouteId(); id != "" && byID(t.GetRoutes())[id] == nil && byID(v.Global().GetSharedRoutes())[id] == nil {
		l.add(who, "issuer_route_id", "ref.missing", "there is no route %s for this tenant; create it or name another", quote(id))
	}
}

// checkKeyGroups checks that a key's groups are among its consumer's. A consumer
// without groups is not narrowed, so its keys may name any.
func checkKeyGroups(l *list, rec *syncv1.KeyRecord, owner *syncv1.SubjectRecord) {
	if len(owner.GetGroupIds()) == 0 {
		return
	}
	for i, g := range rec.GetConsumerKey().GetGroupIds() {
		if !slices.Contains(owner.GetGroupIds(), g) {
			l.add(subjectOf(rec.GetConsumerKey()), fmt.Sprintf("group_ids[%d]", i), "key.groups", "consumer %s may not use group %s; give it the group or take it from the key", quote(owner.GetName()), quote(g))
		}
	}
}

func (c *Checker) checkIssuer(l *list, v Lookup, id string, rec *syncv1.IssuerRecord) {
	if !features(l, rec, rec.GetRequiredFeatures()) {
		return
	}
	is := rec.GetIssuer()
	if is == nil || is.GetId() != id {
		l.add(subject{kind: Kind((*configv1.JWTIssuer)(nil)), name: id}, "id", "shard.issuer", "the record does not belong under this key; compile it again")
		return
	}
	who := subjectOf(is)
	c.alone(l, proto.Message(is))
	if len(is.GetScopes()) == 0 {
		l.add(who, "scopes", "issuer.scopes", "say what tokens of the issuer may do; INFERENCE and MODELS is usual")
	}
	if v.Subject(syncv1.SubjectKind_SUBJECT_KIND_TENANT, is.GetTenantId()) == nil {
		l.add(who, "tenant_id", "ref.missing", "there is no tenant %s", quote(is.GetTenantId()))
	}
	for _, other := range v.IssuersAt(is.GetTenantId(), is.GetIssuer()) {
		if other != id {
			l.add(who, "issuer", "unique", "another issuer of the tenant has this iss claim; keep one")
			break
		}
	}
	if c.cfg.CrossDomain {
		groupRefs(l, who, "group_ids", is.GetGroupIds(), v.Tenant(is.GetTenantId()))
	}
}
