package cli

import (
	"strings"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/resource"
	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
)

func TestLogsAreFoundByNamesAndById(t *testing.T) {
	t.Parallel()
	f := seeded()
	id := func(kind string) string { return resource.ID(f.rows[kind][0]) }
	f.add(&configv1.UpstreamCredential{Name: "key-1", TenantId: id("Tenant"), UpstreamId: id("Upstream")})
	gone := ident.New(ident.UpstreamCredential)
	f.logs = []*adminv1.RequestLog{{RequestId: "req_a", CredentialId: id("UpstreamCredential")}, {RequestId: "req_b", CredentialId: gone}}
	asked := func() *adminv1.ListRequestLogsRequest {
		return f.requests[len(f.requests)-3].(*adminv1.ListRequestLogsRequest) // two lookups of names follow it
	}

	f.aidy(t, "", "logs", "list", "-t", "dev", "-c", "team", "--key", "laptop", "--route", "main", "--credential", "key-1").
		want(t, ExitOK, []string{"key-1", gone}, nil)
	req := asked()
	for _, x := range [][2]string{
		{req.GetTenantId(), id("Tenant")},
		{req.GetConsumerId(), id("Consumer")},
		{req.GetApiKeyId(), id("ConsumerAPIKey")},
		{req.GetRouteId(), id("Route")},
		{req.GetCredentialId(), id("UpstreamCredential")},
	} {
		if x[0] != x[1] {
			t.Errorf("asked for %q, want %q: %v", x[0], x[1], req)
		}
	}

	// What is deleted has no name any more, and its rows are still there.
	f.aidy(t, "", "logs", "list", "--credential", gone).want(t, ExitOK, []string{"req_b"}, nil)
	if got := asked().GetCredentialId(); got != gone {
		t.Errorf("asked for %q, want %q", got, gone)
	}
	f.aidy(t, "", "logs", "list", "-t", "nobody").want(t, ExitError, nil, []string{`there is no tenant "nobody"`})
	f.logs = nil
	f.aidy(t, "", "logs", "list").want(t, ExitOK, []string{"REQUEST"}, []string{"nothing to show"})
}

func TestARequestIsShownToPeopleWithoutTheJSONOfItsDecision(t *testing.T) {
	t.Parallel()
	f := seeded()
	f.logs = []*adminv1.RequestLog{{RequestId: "req_a", Record: &ledgerv1.RequestRecord{FeaturesJson: `{"model":"m"}`, DecisionJson: `{"id":"dec_a"}`}}}
	r := f.aidy(t, "", "logs", "get", "req_a")
	r.want(t, ExitOK, []string{"request_id: req_a"}, []string{"aidy explain req_a"})
	if strings.Contains(r.out, "_json") {
		t.Errorf("the table has JSON in it:\n%s", r.out)
	}
	f.aidy(t, "", "logs", "get", "req_a", "-o", "yaml").want(t, ExitOK, []string{"features_json", "decision_json", "dec_a"}, nil)
}

func TestReplayFindsItsTenantByName(t *testing.T) {
	t.Parallel()
	f := seeded()
	f.aidy(t, "", "replay", "-t", "dev") // the stand-in does not replay
	req, ok := f.requests[len(f.requests)-1].(*adminv1.ReplayRequest)
	if want := resource.ID(f.rows["Tenant"][0]); !ok || req.GetTenantId() != want {
		t.Errorf("asked %v, want a replay of %s", f.requests[len(f.requests)-1], want)
	}
}
