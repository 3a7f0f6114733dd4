package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider/vendorsdk"
)

// The tariffs of the tests: what three models cost, and what two names of one model
// are sold for.
const (
	costLarge  tariff = 2_000_000_000
	costSmall  tariff = 300_000_000
	costServed tariff = 1_700_000_000
	priceModel tariff = 5_000_000_000
	priceAlias tariff = 9_000_000_001
)

func tariffs(tenant string) []*adminv1.BundleResource {
	return []*adminv1.BundleResource{
		costs(tenant, "fake-large", costLarge), costs(tenant, "fake-small", costSmall), costs(tenant, "served-1", costServed),
		sells(tenant, model, priceModel), sells(tenant, alias, priceAlias),
	}
}

// bookedUnits is how the tokens that the provider tells are booked. Chat and Responses
// do not say for how long a cache is written, and Gemini has no word for writes.
func bookedUnits(p fakeprovider.Protocol) *ledgerv1.Units {
	u := &ledgerv1.Units{Input: 100, CacheRead: 30, CacheWrite_5M: 10, Output: 20, Reasoning: 5, Request: 1}
	switch p {
	case fakeprovider.Anthropic:
		u.CacheWrite_5M, u.CacheWrite_1H = 7, 3
	case fakeprovider.Gemini:
		u.Input, u.CacheWrite_5M = 110, 0
	}
	return u
}

// TestL1EveryAttemptHasOneRowWithItsTokensAndPrice: tokens split as the provider told
// them, the cost by the model that served, the price by the public model asked for, and
// all four model columns.
func TestL1EveryAttemptHasOneRowWithItsTokensAndPrice(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, 2)
	for _, sdk := range vendorsdk.All() {
		t.Run(string(sdk.Protocol), func(t *testing.T) {
			t.Parallel()
			name := named("rows", sdk.Protocol)
			dearer := &adminv1.BundleResource{Resource: &adminv1.BundleResource_Group{Group: &configv1.Group{
				TenantId: name, Name: "default", PriceMultiplier: &configv1.Rational{Num: 3, Den: 2},
			}}}
			w := f.newWorld(t, name, oneUpstream(), append(tariffs(name), dearer)...)
			step := fakeprovider.Step{
				Model: "served-1", Text: "an answer", Reasoning: "a thought",
				Usage: &fakeprovider.Usage{Input: 100, Cached: 30, CacheWrite5m: 7, CacheWrite1h: 3, Output: 20, Reasoning: 5},
			}
			for _, credential := range []string{"a", "b"} {
				f.provider.Script(fakeprovider.Match{Key: w.secretOf(credential)}, step)
			}
			generations := map[string]string{}
			for _, n := range f.nodes {
				for _, stream := range modes {
					c := w.talk(t, n, sdk)
					if _, err := c.ask(t.Context(), stream, vendorsdk.Question{Model: alias}); err != nil {
						t.Fatalf("stream %v through %s: %v", stream, n.spec.Name, err)
					}
					generations[c.head("X-Gateway-Request-Id")] = c.head("X-Gateway-Config-Generation")
				}
			}
			rows := w.rows(t, len(f.nodes)*len(modes))
			if sent := f.provider.attempts(w.secretPrefix()); sent != len(rows) {
				t.Errorf("the provider saw %d attempts, the ledger has %d", sent, len(rows))
			}
			for _, e := range rows {
				ev := e.GetEvent()
				if diff := cmp.Diff(bookedUnits(sdk.Protocol), ev.GetUnits(), protocmp.Transform()); diff != "" {
					t.Errorf("units (-want +got):\n%s", diff)
				}
				if got, want := [4]string{ev.GetModelRequested(), ev.GetModelRouted(), ev.GetModelServed(), e.GetModelBilled()}, [4]string{alias, model, "served-1", alias}; got != want {
					t.Errorf("models %v, want %v", got, want)
				}
				if ev.GetKind() != ledgerv1.EntryKind_ENTRY_KIND_SETTLEMENT || ev.GetOutcome() != ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_COMPLETED ||
					ev.GetUsageSource() != ledgerv1.UsageSource_USAGE_SOURCE_PROVIDER || ev.GetAttempt() != 1 {
					t.Errorf("row %s, want the settlement of a complete first attempt, counted by the provider", rowText([]*adminv1.LedgerEntry{e}))
				}
				if ev.GetConsumerId() != w.consumer || ev.GetApiKeyId() != w.keyID || ev.GetTenantId() != w.tenant || ev.GetCredentialId() == "" {
					t.Errorf("booked on consumer %q, key %q, credential %q; want %q, %q and one", ev.GetConsumerId(), ev.GetApiKeyId(), ev.GetCredentialId(), w.consumer, w.keyID)
				}
				if got, want := fmt.Sprint(ev.GetPolicyGeneration()), generations[ev.GetRequestId()]; got != want {
					t.Errorf("request %s is booked under generation %s, its response named %q", ev.GetRequestId(), got, want)
				}
				checkMoney(t, e, costServed, priceAlias, 3, 2)
			}
		})
	}
}

// TestField_F70FallbackIsCostedByTheModelThatServed: the failed attempt has a row that
// costs nothing, the other one is costed by what its upstream served, and the customer
// pays the public model.
func TestField_F70FallbackIsCostedByTheModelThatServed(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, 1)
	w := f.newWorld(t, "fallback", []account{
		{upstream: "first", credential: "a", priority: 1, served: "fake-large"},
		{upstream: "second", credential: "b", priority: 2, served: "fake-small"},
	}, tariffs("fallback")...)
	f.provider.Script(fakeprovider.Match{Key: w.secretOf("a")}, fakeprovider.Fail(fakeprovider.RateLimited))
	c := w.talk(t, f.nodes[0], vendorsdk.Of(fakeprovider.Anthropic))
	if _, err := c.ask(t.Context(), true, vendorsdk.Question{}); err != nil {
		t.Fatal(err)
	}
	rows := w.rows(t, 2)
	if sent := f.provider.attempts(w.secretPrefix()); sent != len(rows) {
		t.Errorf("the provider saw %d attempts, the ledger has %d", sent, len(rows))
	}
	for i, e := range rows {
		ev := e.GetEvent()
		if ev.GetRequestId() != c.head("X-Gateway-Request-Id") || ev.GetAttempt() != int32(i+1) {
			t.Errorf("row %d is attempt %d of %s", i, ev.GetAttempt(), ev.GetRequestId())
		}
		if ev.GetModelRequested() != model {
			t.Errorf("attempt %d: model requested %q, want %q", ev.GetAttempt(), ev.GetModelRequested(), model)
		}
	}
	failed, served := rows[0], rows[1]
	if failed.GetEvent().GetOutcome() != ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_REFUSED_UPSTREAM ||
		failed.GetCostNanos() != 0 || failed.GetPriceNanos() != 0 || failed.GetEvent().GetUpstreamStatus() != 429 {
		t.Errorf("the failed attempt is booked as\n%swant refused, status 429, and nothing due", rowText(rows[:1]))
	}
	if served.GetEvent().GetModelServed() != "fake-small" || served.GetModelBilled() != model {
		t.Errorf("the second attempt was served by %q and billed as %q, want fake-small and %q", served.GetEvent().GetModelServed(), served.GetModelBilled(), model)
	}
	checkMoney(t, served, costSmall, priceModel, 1, 1)
}

// TestL1AliasWithoutItsOwnPricePaysItsModel, and no row of it is without a price.
func TestL1AliasWithoutItsOwnPricePaysItsModel(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, 1)
	w := f.newWorld(t, "alias", oneUpstream(), costs("alias", "fake-large", costLarge), sells("alias", model, priceModel))
	if _, err := w.talk(t, f.nodes[0], anySDK()).ask(t.Context(), true, vendorsdk.Question{Model: alias}); err != nil {
		t.Fatal(err)
	}
	e := w.rows(t, 1)[0]
	if e.GetEvent().GetModelRequested() != alias || e.GetModelBilled() != model {
		t.Errorf("requested %q, billed %q; want %q and %q", e.GetEvent().GetModelRequested(), e.GetModelBilled(), alias, model)
	}
	checkMoney(t, e, costLarge, priceModel, 1, 1)
}

// TestField_F49LeavingEarlyIsBooked whenever the client leaves: once, with what was
// made until then, and priced.
func TestField_F49LeavingEarlyIsBooked(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, 2)
	for _, sdk := range vendorsdk.All() {
		t.Run(string(sdk.Protocol), func(t *testing.T) {
			t.Parallel()
			name := named("leave", sdk.Protocol)
			w := f.newWorld(t, name, oneUpstream(), tariffs(name)...)
			const pieces = 4
			for after := 0; after <= pieces; after++ {
				for _, credential := range []string{"a", "b"} {
					f.provider.Script(fakeprovider.Match{Key: w.secretOf(credential)}, fakeprovider.Step{
						Pieces: []string{"one piece ", "another ", "a third ", "the last"}, Fault: fakeprovider.FaultStall, FaultAfter: after,
					})
				}
				ctx, cancel := context.WithCancel(t.Context())
				c := w.talk(t, f.nodes[after%len(f.nodes)], sdk)
				left := make(chan error, 1)
				go func() {
					_, err := c.sdk.Stream(ctx, c.base, c.question(vendorsdk.Question{}), func() {
						if after > 0 {
							cancel()
						}
					})
					left <- err
				}()
				if after == 0 { // nothing reaches the client, so it leaves without having seen anything
					f.provider.waitFor(t, patience, w.secretPrefix(), "the request", func(seen []fakeprovider.Request) bool { return len(seen) == 1 })
					cancel()
				}
				if err := <-left; err == nil {
					t.Errorf("after %d pieces: the stream ended well", after)
				}
				cancel()
			}
			rows := w.rows(t, pieces+1)
			if sent := f.provider.attempts(w.secretPrefix()); sent != len(rows) {
				t.Errorf("the provider saw %d attempts, the ledger has %d", sent, len(rows))
			}
			for after, e := range rows {
				ev := e.GetEvent()
				if ev.GetOutcome() != ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_CANCELLED || ev.GetKind() != ledgerv1.EntryKind_ENTRY_KIND_SETTLEMENT {
					t.Errorf("after %d pieces: booked as\n%swant the settlement of a cancelled attempt", after, rowText(rows[after:after+1]))
				}
				if ev.GetUnits().GetInput() == 0 || (ev.GetUnits().GetOutput() == 0) != (after == 0) {
					t.Errorf("after %d pieces: units %v, want the prompt and what came", after, ev.GetUnits())
				}
				checkMoney(t, e, costLarge, priceModel, 1, 1)
			}
		})
	}
}
