package configcheck

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

func TestField_F11_ConfigurationWithoutEffectIsSaidToHaveNone(t *testing.T) {
	t.Parallel()
	for _, m := range []proto.Message{
		&configv1.Policy{}, &configv1.Budget{}, &configv1.JWTIssuer{},
		&configv1.Upstream{Regions: []string{"eu"}},
		&configv1.Route{PolicyId: "pol_1"},
		&configv1.UpstreamCredential{Kind: configv1.CredentialKind_CREDENTIAL_KIND_AWS_SIGV4},
	} {
		if Unenforced(m) == "" {
			t.Errorf("nothing is said about %T %v", m, m)
		}
	}
	for _, m := range []proto.Message{
		&configv1.Tenant{Suspended: true}, &configv1.Upstream{Weight: 3, MaxConcurrency: proto.Int32(4), Limits: &configv1.Limits{Rpm: proto.Int64(1)}},
		&configv1.Route{ConsumerApiKeys: true}, &configv1.UpstreamCredential{}, &configv1.UpstreamModel{}, &configv1.LogicalRoute{},
	} {
		if why := Unenforced(m); why != "" {
			t.Errorf("%T is acted on, but: %s", m, why)
		}
	}
	if why := Unenforced(&configv1.Tenant{PolicyId: "p", InboundRateLimitQps: proto.Int64(1)}); !strings.Contains(why, "policy_id, inbound_rate_limit_qps") {
		t.Errorf("%q does not name the fields", why)
	}
}
