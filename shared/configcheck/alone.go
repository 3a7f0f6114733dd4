package configcheck

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

// alone checks what a resource says about itself. skip names fields at the top
// of m whose contract rules do not apply where m stands.
func (c *Checker) alone(l *list, m proto.Message, skip ...string) {
	c.contract(l, m, skip...)
	who := subjectOf(m)
	switch m := m.(type) {
	case *configv1.Tenant:
		finite(l, who, "scheduling", m.GetScheduling())
	case *configv1.Provider:
		c.providerAlone(l, m)
	case *configv1.ProviderPricing:
		pricingAlone(l, versionOfProvider(m))
	case *configv1.PriceBookEntry:
		pricingAlone(l, versionOfBook(m))
	case *configv1.Upstream:
		upstreamAlone(l, m)
	case *configv1.UpstreamCredential:
		credentialAlone(l, m)
	case *configv1.UpstreamModel:
		modelAlone(l, m)
	case *configv1.Route:
		routeAlone(l, m)
	case *configv1.RoutePluginConfig:
		pluginAlone(l, who, m.GetPluginKey(), m.GetPayload())
	case *configv1.ProviderPluginConfig:
		pluginAlone(l, who, m.GetPluginKey(), m.GetPayload())
	case *configv1.LogicalRoute:
		logicalAlone(l, m)
	case *configv1.Policy:
		c.policyAlone(l, m)
	case *configv1.JWTIssuer:
		issuerAlone(l, m)
	case *configv1.Budget:
		c.zone(l, who, "time_zone", m.GetTimeZone())
		if m.GetCurrency() == "" {
			l.add(who, "currency", "budget.currency", "name the currency of the amount, as three letters of ISO 4217 such as USD")
		}
	case *configv1.CreditAccount:
		if m.GetOwnBalance() && m.GetApiKeyId() == "" {
			l.add(who, "own_balance", "credit.own_balance", "name the key in api_key_id, or clear own_balance: only a key has a balance beside its consumer's")
		}
	case *configv1.Consumer:
		for i, cl := range m.GetClaims() {
			claimAlone(l, who, fmt.Sprintf("claims[%d]", i), cl)
		}
		patterns(l, who, "allowed_models", m.GetAllowedModels())
	case *configv1.ConsumerAPIKey:
		patterns(l, who, "allowed_models", m.GetAllowedModels())
	}
}

// finite refuses infinities and NaN in a scheduling policy: they would make
// scores that cannot be ordered.
func finite(l *list, who subject, path string, p *configv1.SchedulingPolicy) {
	if p == nil {
		return
	}
	p.ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if fd.Kind() == protoreflect.DoubleKind && !fd.IsList() && (math.IsInf(v.Float(), 0) || math.IsNaN(v.Float())) {
			l.add(who, path+"."+string(fd.Name()), "number.finite", "give a finite number")
		}
		return true
	})
}

// patterns checks names that may end in a star.
func patterns(l *list, who subject, path string, names *configv1.NameList) {
	for i, n := range names.GetNames() {
		if star := indexStar(n); star >= 0 && star != len(n)-1 {
			l.add(who, fmt.Sprintf("%s.names[%d]", path, i), "pattern.star",
				"%s: a star may only stand at the end", quote(n))
		}
	}
}

func indexStar(s string) int {
	for i := range len(s) {
		if s[i] == '*' {
			return i
		}
	}
	return -1
}

func claimAlone(l *list, who subject, path string, cl *configv1.ClaimMapping) {
	if cl.GetClaim() == "" || cl.GetValue() == "" {
		l.add(who, path, "claim.empty", "give claim, value and issuer_id: an empty one would match tokens it was not meant for")
	}
	if cl.GetIssuerId() == "" {
		l.add(who, path+".issuer_id", "claim.issuer", "name the issuer whose tokens carry the claim")
	}
}
