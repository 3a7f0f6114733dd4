package meter

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
)

const (
	notSent   = ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_NOT_SENT
	refused   = ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_REFUSED_UPSTREAM
	completed = ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_COMPLETED
	cancelled = ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_CANCELLED
	broken    = ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_BROKEN
	cacheHit  = ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_CACHE_HIT
	unknown   = ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_UNKNOWN

	settlement = ledgerv1.EntryKind_ENTRY_KIND_SETTLEMENT
	hold       = ledgerv1.EntryKind_ENTRY_KIND_HOLD

	noSource  = ledgerv1.UsageSource_USAGE_SOURCE_UNSPECIFIED
	provider  = ledgerv1.UsageSource_USAGE_SOURCE_PROVIDER
	estimated = ledgerv1.UsageSource_USAGE_SOURCE_ESTIMATED
	partial   = ledgerv1.UsageSource_USAGE_SOURCE_PARTIAL
)

type units = ledgerv1.Units

func TestOutcomeDecidesTheCharge(t *testing.T) {
	t.Parallel()
	var (
		reported = &units{Input: 10, CacheRead: 90, Output: 20, Reasoning: 5}
		early    = &units{Input: 10, CacheRead: 90, Output: 1}
		counted  = &units{Input: 120, Output: 15}
	)
	for _, tc := range []struct {
		name    string
		outcome ledgerv1.AttemptOutcome
		count   Count
		want    Assessment
	}{
		{"not sent", notSent, Count{Counted: counted}, Assessment{}},
		{"refused", refused, Count{Counted: counted}, Assessment{true, settlement, noSource, &units{}}},
		{"cache hit", cacheHit, Count{Counted: counted}, Assessment{true, settlement, noSource, &units{}}},
		{"completed, reported", completed, Count{reported, true, counted}, Assessment{true, settlement, provider, reported}},
		{"completed, an explicit 0 is 0", completed, Count{&units{}, true, counted}, Assessment{true, settlement, provider, &units{}}},
		{"completed, not reported", completed, Count{Counted: counted}, Assessment{true, settlement, estimated, counted}},
		{"completed, nothing known", completed, Count{}, Assessment{true, settlement, estimated, &units{}}},
		{"cancelled, nothing reported", cancelled, Count{Counted: counted}, Assessment{true, settlement, partial, counted}},
		{
			"cancelled, early report, more counted", cancelled,
			Count{early, false, counted},
			Assessment{true, settlement, partial, &units{Input: 10, CacheRead: 90, Output: 15}},
		},
		{"cancelled, more reported than counted", cancelled, Count{reported, false, counted}, Assessment{true, settlement, partial, reported}},
		{"cancelled, drained", cancelled, Count{early, true, counted}, Assessment{true, settlement, provider, early}},
		{"broken, reported", broken, Count{reported, true, counted}, Assessment{true, settlement, partial, reported}},
		{"broken, output reported without a prompt", broken, Count{&units{Output: 30}, false, counted}, Assessment{true, settlement, partial, &units{Input: 120, Output: 30}}},
		{"unknown, nothing known", unknown, Count{}, Assessment{true, hold, estimated, nil}},
		{"unknown, counted", unknown, Count{Counted: counted}, Assessment{true, hold, estimated, counted}},
		{"unspecified is unknown", 0, Count{}, Assessment{true, hold, estimated, nil}},
		{"negative is 0", completed, Count{Reported: &units{Input: -1, Output: 3}}, Assessment{true, settlement, provider, &units{Output: 3}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, Assess(tc.outcome, tc.count), protocmp.Transform()); diff != "" {
				t.Errorf("assessment differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCutAnswerIsNeverChargedLessThanReported(t *testing.T) {
	t.Parallel()
	gen := rapid.Custom(func(t *rapid.T) *units {
		n := rapid.Int64Range(0, 1<<40)
		return &units{
			Input: n.Draw(t, "input"), CacheRead: n.Draw(t, "cache_read"), CacheWrite_5M: n.Draw(t, "write_5m"),
			Output: n.Draw(t, "output"), Reasoning: n.Draw(t, "reasoning"), ImageOut: n.Draw(t, "image_out"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		r, c := gen.Draw(t, "reported"), gen.Draw(t, "counted")
		got := Assess(broken, Count{Reported: r, Counted: c}).Units
		if outputOf(got) != max(outputOf(r), outputOf(c)) {
			t.Fatalf("output is %d, want the larger of %d and %d", outputOf(got), outputOf(r), outputOf(c))
		}
		if p := promptOf(r); p > 0 && promptOf(got) != p {
			t.Fatalf("prompt is %d, the provider says %d", promptOf(got), p)
		}
	})
}

func TestUnknownIsChargedByPolicy(t *testing.T) {
	t.Parallel()
	estimate := &units{Input: 100, Output: 50, Request: 1}
	for policy, want := range map[UnknownCharge]*units{
		ChargeNone: {}, ChargeInput: {Input: 100}, ChargeReserved: {Input: 100, Output: 50, Request: 1},
	} {
		if diff := cmp.Diff(want, policy.Units(estimate), protocmp.Transform()); diff != "" {
			t.Errorf("policy %d (-want +got):\n%s", policy, diff)
		}
	}
}

func TestUnitsKeepEveryToken(t *testing.T) {
	t.Parallel()
	u := llm.Usage{
		Input: 1, CacheRead: 2, CacheWrite5m: 4, CacheWrite1h: 8, CacheWriteOther: 16, InputAudio: 32, InputImage: 64,
		Output: 128, Reasoning: 256, OutputAudio: 512, OutputImage: 1024, WebSearches: 7,
	}
	got := UnitsOf(u)
	if promptOf(got) != u.PromptTokens() || outputOf(got) != u.CompletionTokens() || got.WebSearch != 7 {
		t.Errorf("units %v do not add up to %+v", got, u)
	}
	if got.CacheWrite_5M != 20 {
		t.Errorf("cache writes of an unnamed lifetime count as %d with the 5-minute ones, want 20", got.CacheWrite_5M)
	}
}
