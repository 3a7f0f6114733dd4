package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider/vendorsdk"
)

// marker is a header by which the provider sees which version of the configuration of
// its callers made a request.
const marker = "X-Marker"

// version is one bundle that changes two things at once, which lie in different shards:
// a header that a provider of all tenants gets, and what a tenant's model is called
// there.
func (w *world) version(n int) []*adminv1.BundleResource {
	shared := "shared-" + w.name
	return []*adminv1.BundleResource{
		{Resource: &adminv1.BundleResource_Provider{Provider: &configv1.Provider{
			Name: shared, AllowPlaintext: true, AllowPrivateAddress: true,
			Capabilities: []*configv1.Capability{{Protocol: configv1.Protocol_PROTOCOL_OPENAI_CHAT, BaseUrl: w.f.provider.url + "/v1"}},
			RequestHeaderOverrides: []*configv1.HeaderOverride{{
				Name: marker, Action: configv1.HeaderAction_HEADER_ACTION_SET, Value: fmt.Sprint(n),
			}},
		}}},
		{Resource: &adminv1.BundleResource_Upstream{Upstream: &configv1.Upstream{
			TenantId: w.name, Name: "shared", ProviderId: shared, GroupId: "default",
		}}},
		{Resource: &adminv1.BundleResource_UpstreamCredential{UpstreamCredential: &configv1.UpstreamCredential{
			TenantId: w.name, Name: "shared", UpstreamId: "shared", Secret: w.secretOf("shared"),
		}}},
		{Resource: &adminv1.BundleResource_UpstreamModel{UpstreamModel: &configv1.UpstreamModel{
			TenantId: w.name, UpstreamId: "shared", Model: "both", UpstreamModel: fmt.Sprintf("served-%d", n),
		}}},
	}
}

// TestG01NoRequestSeesHalfAChange, however many run while changes arrive; and each is
// booked under the generation that its response named.
func TestG01G13NoRequestSeesHalfAChange(t *testing.T) {
	t.Parallel()
	const changes, callers = 12, 3 // callers of each node
	f := newFleet(t, 2, 2)
	w := f.newWorld(t, "atomic", oneUpstream())
	f.apply(t, w.version(0)...)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	var mu sync.Mutex
	named := map[string]string{} // the generation that each response named, by request
	for _, n := range f.nodes {
		for range callers {
			c := w.talk(t, n, anySDK())
			wg.Go(func() {
				for ctx.Err() == nil {
					if _, err := c.ask(t.Context(), false, vendorsdk.Question{Model: "both"}); err != nil {
						t.Errorf("through %s while changes arrive: %v", n.spec.Name, err)
						return
					}
					mu.Lock()
					named[c.head("X-Gateway-Request-Id")] = c.head("X-Gateway-Config-Generation")
					mu.Unlock()
				}
			})
		}
	}
	for i := range changes {
		f.apply(t, w.version(i+1)...)
	}
	stop()
	wg.Wait()

	versions := map[string]bool{}
	for _, r := range f.provider.of(w.secretOf("shared")) {
		served, sent := strings.TrimPrefix(r.Model, "served-"), r.Header.Get(marker)
		if served != sent {
			t.Errorf("a request asked for %q of version %s with the header of version %q", r.Model, served, sent)
		}
		versions[sent] = true
	}
	if len(versions) < changes/2 {
		t.Errorf("requests ran under %d versions of the configuration, too few to say anything", len(versions))
	}
	generations := map[string]bool{}
	for _, e := range w.rows(t, len(named)) {
		ev := e.GetEvent()
		if got := fmt.Sprint(ev.GetPolicyGeneration()); got != named[ev.GetRequestId()] {
			t.Errorf("request %s is booked under generation %s, its response named %q", ev.GetRequestId(), got, named[ev.GetRequestId()])
		}
		generations[named[ev.GetRequestId()]] = true
	}
	if len(generations) < len(versions) {
		t.Errorf("%d versions ran under %d generations", len(versions), len(generations))
	}
}
