package dataplane

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"

	"github.com/aidy-gateway/aidy-gateway/dataplane/affinity"
	"github.com/aidy-gateway/aidy-gateway/dataplane/decision"
)

const mtok = 1_000_000 // tokens; a price of so many nanos a million is one nano a token

// priced gives the model a price: nanos a token of the prompt, of what is cached of it, and
// of the answer.
func priced(in, read, out int64) rigOption {
	item := func(c configv1.PriceComponent, nanos int64) *configv1.PriceItem {
		return &configv1.PriceItem{Component: c, PerMtokNanos: nanos * mtok}
	}
	return func(t *syncv1.TenantShard) {
		t.Pricing = []*configv1.ProviderPricing{{
			Id: "prc_1", TenantId: "ten_1", ProviderId: "prv_1", Model: "fake-large", Currency: "USD", Published: true,
			EffectiveFrom: timestamppb.New(time.Unix(0, 0)), Items: []*configv1.PriceItem{
				item(configv1.PriceComponent_PRICE_COMPONENT_INPUT, in), item(configv1.PriceComponent_PRICE_COMPONENT_CACHE_READ, read),
				item(configv1.PriceComponent_PRICE_COMPONENT_OUTPUT, out),
			},
		}}
	}
}

// talks are recorded requests: conversations of so many turns, a turn a minute, each
// turn 1,000 tokens longer than the one before.
func talks(conversations, turns int) []*ledgerv1.RequestRecord {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var out []*ledgerv1.RequestRecord
	for turn := range turns {
		for c := range conversations {
			chain := decision.Chain{}
			for i := range 2*turn + 1 {
				chain = append(chain, affinity.Boundary{Hash: affinity.Hash{Hi: uint64(c + 1), Lo: uint64(i + 1)}, Block: affinity.Message, Tokens: int64(2000 + 500*i)})
			}
			if len(chain) > 6 {
				chain = append(chain[:2:2], chain[len(chain)-4:]...)
			}
			size := chain[len(chain)-1].Tokens
			f := decision.Features{
				Tenant: "ten_1", Route: "rte_1", APIKey: "key_1", Auth: "api_key", Protocol: "openai_chat", Operation: "generate", Model: "m",
				PromptTokens: size, OutputTokens: 100,
				Prefix: &decision.Prefix{Kind: "weak", Root: affinity.Hash{Hi: uint64(c + 1), Lo: 1}, Chain: chain},
			}
			raw, err := json.Marshal(&f)
			if err != nil {
				panic(err)
			}
			at := start.Add(time.Duration(turn)*time.Minute + time.Duration(c)*100*time.Millisecond)
			out = append(out, &ledgerv1.RequestRecord{
				RequestId: ident.NewAt(ident.Request, at), StartTime: timestamppb.New(at), TenantId: "ten_1", FeaturesJson: string(raw),
				DurationUs: 2_000_000, CredentialId: "crd_a", Units: &ledgerv1.Units{Input: size, Output: 100},
			})
		}
	}
	return out
}

func replayed(t *testing.T, rows []*ledgerv1.RequestRecord, current, draft []rigOption) *ReplaySummary {
	t.Helper()
	run := func() *ReplaySummary {
		r := NewReplay(testView(t, "http://127.0.0.1:1", current...), testView(t, "http://127.0.0.1:1", draft...))
		for _, row := range rows {
			r.Add(row)
		}
		return r.Summary()
	}
	first, second := run(), run()
	a, b := must(json.Marshal(first)), must(json.Marshal(second))
	if string(a) != string(b) {
		t.Fatalf("two replays differ:\n%s\n%s", a, b)
	}
	return first
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

func TestReplayOfTheSameConfigurationChangesNothing(t *testing.T) {
	t.Parallel()
	rows := talks(40, 5)
	rows = append(rows, &ledgerv1.RequestRecord{RequestId: "req_x", StartTime: rows[len(rows)-1].GetStartTime()})
	s := replayed(t, rows, []rigOption{priced(10, 1, 50)}, []rigOption{priced(10, 1, 50)})
	if s.Rows != 201 || s.Decided != 200 || len(s.Skipped) != 1 || s.Skipped[0].Rows != 1 {
		t.Errorf("%d rows, %d decided, skipped %v; want 201, 200 and 1 without features", s.Rows, s.Decided, s.Skipped)
	}
	if s.Before != s.After || len(s.Changes) != 0 || s.CostDeltaNanos != 0 || s.Changed.Account != 0 || s.Refusals.New != 0 {
		t.Errorf("the same configuration twice differs: %+v", s)
	}
	if s.Before.Served != 200 || s.Before.Refused != 0 || s.Before.Unpriced != 0 {
		t.Errorf("served %+v", s.Before)
	}
	// Each conversation finds on every later turn what its last one had: of turn n, the
	// 2000 + 1000·(n-1) tokens before.
	want := int64(40 * (2000 + 3000 + 4000 + 5000))
	if s.Before.HitTokens != want {
		t.Errorf("%d tokens are expected to be cached, want %d", s.Before.HitTokens, want)
	}
	total := int64(40 * (2000 + 3000 + 4000 + 5000 + 6000))
	if cost := (total-want)*10 + want*1 + 200*100*50; s.Before.CostNanos != cost {
		t.Errorf("the cost is %d, want %d", s.Before.CostNanos, cost)
	}
	if s.Reproduced == 0 || s.Reproduced == 200 {
		t.Errorf("%d of 200 are reproduced; all were served by one of two accounts", s.Reproduced)
	}
}

func TestReplayShowsWhatOtherWeightsMove(t *testing.T) {
	t.Parallel()
	heavy := func(t *syncv1.TenantShard) { t.Credentials[0].Weight = proto.Int32(9) }
	s := replayed(t, talks(200, 3), []rigOption{priced(10, 1, 50)}, []rigOption{priced(10, 1, 50), heavy})
	if s.Changed.Account == 0 || s.Changed.Target != 0 || s.Changed.Protocol != 0 || s.Refusals.New != 0 {
		t.Errorf("changed %+v, refusals %+v; want accounts alone", s.Changed, s.Refusals)
	}
	// Half of the conversations were at each; nine in ten are to be at the heavy one.
	if share := float64(s.Changed.Account) / 600; math.Abs(share-0.4) > 0.1 {
		t.Errorf("%.0f %% move, want about 40 %%", 100*share)
	}
	if len(s.Changes) != 1 || s.Changes[0].From != "fake/main/b fake-large" || s.Changes[0].To != "fake/main/a fake-large" || len(s.Changes[0].Examples) != 3 {
		t.Errorf("moves %+v, want those from b to a with three examples", s.Changes)
	}
	if s.CostDeltaNanos != 0 || s.Before.HitTokens != s.After.HitTokens {
		t.Errorf("conversations that stay together lose nothing, but the cost moves by %d and hits from %d to %d", s.CostDeltaNanos, s.Before.HitTokens, s.After.HitTokens)
	}
}

func TestReplayShowsACredentialThatIsGone(t *testing.T) {
	t.Parallel()
	gone := func(t *syncv1.TenantShard) { t.Credentials = t.Credentials[:1] }
	s := replayed(t, talks(50, 4), nil, []rigOption{gone})
	if s.After.Served != 200 || s.Refusals.New != 0 || s.Changed.Account == 0 {
		t.Errorf("after %+v, changed %+v; want all served, by the other account", s.After, s.Changed)
	}
	for _, c := range s.Changes {
		if c.To != "fake/main/a fake-large" {
			t.Errorf("requests go to %q", c.To)
		}
	}
	if s.Before.Unpriced != 200 {
		t.Errorf("%d requests are without a price, want all", s.Before.Unpriced)
	}
}

func TestReplayPricesBothSides(t *testing.T) {
	t.Parallel()
	s := replayed(t, talks(10, 2), []rigOption{priced(10, 10, 50)}, []rigOption{priced(20, 20, 50)})
	prompts := int64(10 * (2000 + 3000))
	if s.CostDeltaNanos != prompts*10 || s.After.CostNanos-s.Before.CostNanos != prompts*10 {
		t.Errorf("the draft costs %d more, want %d", s.CostDeltaNanos, prompts*10)
	}
	if len(s.Changes) != 0 {
		t.Errorf("a price for all moves nobody, but %+v", s.Changes)
	}
}

func TestReplayShowsARefusedModelWithItsReason(t *testing.T) {
	t.Parallel()
	small := func(t *syncv1.TenantShard) { t.Models[0].MaxContextTokens = 2500 }
	other := func(t *syncv1.TenantShard) { t.Models[0].Model = "renamed" }
	s := replayed(t, talks(10, 3), nil, []rigOption{small})
	if s.Refusals.New != 20 || len(s.Refusals.Reasons) != 1 || s.Refusals.Reasons[0].Reason != "request_not_supported (context_too_long)" || s.Refusals.Reasons[0].New != 20 {
		t.Errorf("refusals %+v, want 20 for their length", s.Refusals)
	}
	if s := replayed(t, talks(10, 3), nil, []rigOption{other}); s.Refusals.New != 30 || s.Refusals.Reasons[0].Reason != "model_not_found" {
		t.Errorf("refusals %+v, want 30 of an unknown model", s.Refusals)
	}
	if s := replayed(t, talks(10, 3), []rigOption{other}, nil); s.Refusals.Gone != 30 || s.Refusals.New != 0 {
		t.Errorf("refusals %+v, want 30 that are gone", s.Refusals)
	}
}

// Limits and slots hold for each side on its own.
func TestReplayKeepsLimits(t *testing.T) {
	t.Parallel()
	limited := func(t *syncv1.TenantShard) {
		for _, c := range t.Credentials {
			c.MaxConcurrency = proto.Int32(2)
		}
	}
	// Twenty requests begin within two seconds and take two: four slots take four, and a
	// minute later four again.
	s := replayed(t, talks(20, 2), nil, []rigOption{limited})
	if s.Before.Refused != 0 || s.After.Served != 8 || s.After.Refused != 32 {
		t.Errorf("before %+v, after %+v; want all, and 8 served", s.Before, s.After)
	}
	if r := s.Refusals.Reasons[0].Reason; r != "capacity_exhausted (slot_full)" {
		t.Errorf("the reason is %q", r)
	}
}

func BenchmarkReplay(b *testing.B) {
	rows := talks(100, 20)
	view := func() []rigOption { return []rigOption{priced(10, 1, 50)} }
	for b.Loop() {
		r := NewReplay(testView(b, "http://127.0.0.1:1", view()...), testView(b, "http://127.0.0.1:1", view()...))
		for _, row := range rows {
			r.Add(row)
		}
		if s := r.Summary(); s.Decided != int64(len(rows)) {
			b.Fatal(fmt.Sprint(s))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(rows)), "ns/request")
}
