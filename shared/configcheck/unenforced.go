package configcheck

import (
	"strings"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

// NotEnforced is the code of a warning about configuration that is kept and that no
// request is treated differently for.
const NotEnforced = "NOT_ENFORCED"

// Unenforced says what of a resource this version keeps and does not act on; empty if
// it acts on all of it. The list stands in docs/status.md too. Whoever sets such a
// field must learn it from the answer, and not from a bill.
func Unenforced(m proto.Message) string {
	var fields []string
	note := func(set bool, field string) {
		if set {
			fields = append(fields, field)
		}
	}
	switch r := m.(type) {
	case *configv1.Policy, *configv1.Budget, *configv1.CreditAccount, *configv1.JWTIssuer,
		*configv1.RoutePluginConfig, *configv1.ProviderPluginConfig:
		return "this version keeps the resource and does not act on it yet"
	case *configv1.Tenant:
		note(r.GetPolicyId() != "", "policy_id")
		note(r.InboundRateLimitQps != nil, "inbound_rate_limit_qps")
		note(r.DetectRateLimitCpm != nil, "detect_rate_limit_cpm")
		note(r.GetMetering() == configv1.Metering_METERING_BEST_EFFORT, "metering")
	case *configv1.Project:
		note(r.GetPolicyId() != "", "policy_id")
	case *configv1.Upstream:
		note(len(r.GetRegions()) > 0, "regions")
		note(r.GetMaxDataLabel() != "", "max_data_label")
	case *configv1.UpstreamCredential:
		if k := r.GetKind(); k > configv1.CredentialKind_CREDENTIAL_KIND_API_KEY {
			return "credentials of this kind are kept and never chosen: this version uses API keys alone"
		}
	case *configv1.Route:
		note(r.GetPolicyId() != "", "policy_id")
		note(len(r.GetJwtIssuers()) > 0, "jwt_issuers")
		note(r.GetDataLabel() != "", "data_label")
	case *configv1.Consumer:
		note(r.GetPolicyId() != "", "policy_id")
		note(len(r.GetClaims()) > 0, "claims")
	case *configv1.ConsumerAPIKey:
		note(r.GetPolicyId() != "", "policy_id")
	}
	if len(fields) == 0 {
		return ""
	}
	return "this version keeps these fields and does not act on them yet: " + strings.Join(fields, ", ")
}
