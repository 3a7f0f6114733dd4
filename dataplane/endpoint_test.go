package dataplane

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/rs/zerolog"
	"google.golang.org/genai"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"

	"github.com/aidy-gateway/aidy-gateway/dataplane/auth"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

// newStrictRig is newRig before a provider that refuses what the real ones refuse.
func newStrictRig(t testing.TB, options ...rigOption) *rig {
	t.Helper()
	provider := fakeprovider.New(fakeprovider.Config{Keys: []string{keyA, keyB}, Strict: true})
	up := httptest.NewServer(provider)
	t.Cleanup(up.Close)
	n, err := staticNode(testView(t, up.URL, options...), t.TempDir(), zerolog.New(zerolog.NewTestWriter(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.wal.Close() })
	t.Cleanup(n.transport.Close)
	front := httptest.NewServer(n)
	t.Cleanup(front.Close)
	return &rig{node: n, url: front.URL, provider: provider, wal: n.wal}
}

// offering leaves the provider of a rig with some protocols alone.
func offering(ps ...configv1.Protocol) rigOption {
	return func(ts *syncv1.TenantShard) {
		var kept []*configv1.Capability
		for _, c := range ts.GetProviders()[0].GetCapabilities() {
			for _, p := range ps {
				if c.GetProtocol() == p {
					kept = append(kept, c)
				}
			}
		}
		ts.Providers[0].Capabilities = kept
	}
}

// elsewhere puts the second credential into an upstream of its own, which does not rest
// with the first.
func elsewhere(ts *syncv1.TenantShard) {
	ts.Upstreams = append(ts.Upstreams, &configv1.Upstream{Id: "upr_2", TenantId: "ten_1", Name: "second", ProviderId: "prv_1", GroupId: "grp_1"})
	ts.Credentials[1].UpstreamId = "upr_2"
	ts.Models = append(ts.Models, &configv1.UpstreamModel{Id: "upm_3", TenantId: "ten_1", UpstreamId: "upr_2", Model: "m", UpstreamModel: "fake-large"})
}

func (g *rig) openai(extra ...option.RequestOption) openai.Client {
	return openai.NewClient(append([]option.RequestOption{option.WithBaseURL(g.url + "/v1"), option.WithAPIKey(testKey), option.WithMaxRetries(0)}, extra...)...)
}

func (g *rig) anthropic() anthropic.Client {
	return anthropic.NewClient(anthropicoption.WithBaseURL(g.url), anthropicoption.WithAPIKey(testKey), anthropicoption.WithMaxRetries(0))
}

func (g *rig) gemini(t testing.TB) *genai.Client {
	t.Helper()
	c, err := genai.NewClient(t.Context(), &genai.ClientConfig{
		APIKey: testKey, Backend: genai.BackendGeminiAPI, HTTPOptions: genai.HTTPOptions{BaseURL: g.url},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// send makes a request as it is.
func (g *rig) send(t testing.TB, method, path, contentType, body string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, g.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+testKey)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(got)
}

// only returns what the one attempt is booked with.
func (g *rig) only(t testing.TB) *ledgerv1.UsageEvent {
	t.Helper()
	return g.settled(t, 1)[0]
}

// last is the newest request that the provider got.
func (g *rig) last(t testing.TB) fakeprovider.Request {
	t.Helper()
	all := g.provider.Requests()
	if len(all) == 0 {
		t.Fatal("the provider got no request")
	}
	return all[len(all)-1]
}

func wantUnits(t testing.TB, e *ledgerv1.UsageEvent, source ledgerv1.UsageSource, want *ledgerv1.Units) {
	t.Helper()
	if got := e.GetUnits(); got.String() != want.String() || e.GetUsageSource() != source {
		t.Errorf("booked with %v by %v, want %v by %v", got, e.GetUsageSource(), want, source)
	}
}

const (
	byProvider = ledgerv1.UsageSource_USAGE_SOURCE_PROVIDER
	estimated  = ledgerv1.UsageSource_USAGE_SOURCE_ESTIMATED
)

func TestEveryOperationIsAUseThatScopesKnow(t *testing.T) {
	t.Parallel()
	for use, operations := range map[auth.Operation][]protocol.Operation{
		auth.Generate:   {protocol.OpGenerate, protocol.OpCountTokens, protocol.OpCompact, protocol.OpModerate, protocol.OpResponses},
		auth.ListModels: {protocol.OpListModels, protocol.OpGetModel},
		auth.Embed:      {protocol.OpEmbed, protocol.OpEmbedBatch},
		auth.Rerank:     {protocol.OpRerank},
		auth.Realtime:   {protocol.OpRealtime},
		auth.Raw:        {protocol.OpRaw},
		auth.Images:     {protocol.OpImage, protocol.OpImageEdit, protocol.OpImageVariation, protocol.OpPredict},
		auth.Audio:      {protocol.OpSpeech, protocol.OpTranscribe, protocol.OpTranslate},
		auth.Video: {
			protocol.OpVideo, protocol.OpVideoRemix, protocol.OpVideoList, protocol.OpVideoGet, protocol.OpVideoDelete,
			protocol.OpVideoContent, protocol.OpPredictLong, protocol.OpGetOperation,
		},
	} {
		for _, op := range operations {
			if got := operationOf(op); got != use {
				t.Errorf("%v counts as use %v, want %v", op, got, use)
			}
		}
	}
}
