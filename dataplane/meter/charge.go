package meter

import (
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
)

// Count is what is known of an attempt's usage when it ends. Nil means not known.
type Count struct {
	// Reported is the provider's last account of the usage.
	Reported *ledgerv1.Units
	// Final says that Reported is the closing account of a whole answer, not
	// one met on the way.
	Final bool
	// Counted is the gateway's own count: the prompt as estimated and the
	// output as seen.
	Counted *ledgerv1.Units
}

// Assessment is what an attempt is booked with.
type Assessment struct {
	// Row is false where nothing is due and the ledger gets no row.
	Row bool
	// Kind is settlement, or hold where the outcome is not known.
	Kind ledgerv1.EntryKind
	// Source says where Units come from; unspecified where nothing was used.
	Source ledgerv1.UsageSource
	// Units are what the provider is owed for. They are nil for a hold with no
	// count, where the estimate of the INTENT stands.
	Units *ledgerv1.Units
}

// Assess decides what an attempt of the given outcome is booked with:
//
//	not_sent           nothing, no row
//	refused_upstream   nothing
//	completed          the provider's usage, an explicit 0 is 0; else the gateway's count
//	cancelled, broken  the larger of the last reported usage and the prompt plus
//	                   the output counted; the prompt is the provider's where reported
//	cache_hit          nothing
//	unknown            as cancelled, held
//
// A cancelled attempt whose closing usage arrived (a drained stream) is booked
// with exactly that. Negative numbers count as 0. Assess is pure and returns
// Units of its own.
func Assess(outcome ledgerv1.AttemptOutcome, c Count) Assessment {
	settled := Assessment{Row: true, Kind: ledgerv1.EntryKind_ENTRY_KIND_SETTLEMENT}
	switch outcome {
	case ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_NOT_SENT:
		return Assessment{}
	case ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_REFUSED_UPSTREAM, ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_CACHE_HIT:
		settled.Units = &ledgerv1.Units{}
	case ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_COMPLETED:
		if c.Reported != nil {
			settled.Source, settled.Units = ledgerv1.UsageSource_USAGE_SOURCE_PROVIDER, sound(c.Reported)
		} else {
			settled.Source, settled.Units = ledgerv1.UsageSource_USAGE_SOURCE_ESTIMATED, sound(c.Counted)
		}
	case ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_CANCELLED:
		if c.Final && c.Reported != nil {
			settled.Source, settled.Units = ledgerv1.UsageSource_USAGE_SOURCE_PROVIDER, sound(c.Reported)
		} else {
			settled.Source, settled.Units = ledgerv1.UsageSource_USAGE_SOURCE_PARTIAL, larger(c.Reported, c.Counted)
		}
	case ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_BROKEN:
		settled.Source, settled.Units = ledgerv1.UsageSource_USAGE_SOURCE_PARTIAL, larger(c.Reported, c.Counted)
	default:
		a := Assessment{
			Row: true, Kind: ledgerv1.EntryKind_ENTRY_KIND_HOLD,
			Source: ledgerv1.UsageSource_USAGE_SOURCE_ESTIMATED,
		}
		if c.Reported != nil || c.Counted != nil {
			a.Units = larger(c.Reported, c.Counted)
		}
		return a
	}
	return settled
}

// UnknownCharge is the policy for what a customer is charged while the outcome
// of an attempt is not known.
type UnknownCharge uint8

// The policies for unknown outcomes.
const (
	// ChargeNone charges nothing.
	ChargeNone UnknownCharge = iota
	// ChargeInput charges the prompt as estimated.
	ChargeInput
	// ChargeReserved charges all that was reserved.
	ChargeReserved
)

// Units returns what the policy charges of the estimate. It belongs into
// charged_units of an INTENT, so that a node which finds the attempt open after
// a crash charges by the policy of the time.
func (p UnknownCharge) Units(estimate *ledgerv1.Units) *ledgerv1.Units {
	switch p {
	case ChargeInput:
		u := sound(estimate)
		setOutput(u, &ledgerv1.Units{})
		u.WebSearch, u.Request = 0, 0
		return u
	case ChargeReserved:
		return sound(estimate)
	default:
		return &ledgerv1.Units{}
	}
}

// UnitsOf returns the ledger's components of a usage. Cache writes of a
// lifetime the provider does not name count as the shortest one, five minutes.
func UnitsOf(u llm.Usage) *ledgerv1.Units {
	return &ledgerv1.Units{
		Input:         u.Input,
		CacheRead:     u.CacheRead,
		CacheWrite_5M: u.CacheWrite5m + u.CacheWriteOther,
		CacheWrite_1H: u.CacheWrite1h,
		Output:        u.Output,
		Reasoning:     u.Reasoning,
		AudioIn:       u.InputAudio,
		AudioOut:      u.OutputAudio,
		ImageIn:       u.InputImage,
		ImageOut:      u.OutputImage,
		ImageUnit:     u.Images,
		AudioSecond:   u.AudioSeconds,
		VideoSecond:   u.VideoSeconds,
		WebSearch:     u.WebSearches,
		Request:       u.Calls,
	}
}

// larger combines an account of the provider with the gateway's count of an
// answer that was cut. Of the prompt the provider knows best, even in an early
// account; of the output the larger side counts.
func larger(reported, counted *ledgerv1.Units) *ledgerv1.Units {
	r, c := sound(reported), sound(counted)
	if reported == nil || promptOf(r) == 0 {
		setPrompt(r, c)
	}
	if outputOf(c) > outputOf(r) {
		setOutput(r, c)
	}
	r.AudioSecond = max(r.AudioSecond, c.AudioSecond)
	r.VideoSecond = max(r.VideoSecond, c.VideoSecond)
	r.WebSearch = max(r.WebSearch, c.WebSearch)
	r.Request = max(r.Request, c.Request)
	return r
}

// sound returns a copy of u without negative numbers; of nil, zeros.
func sound(u *ledgerv1.Units) *ledgerv1.Units {
	return &ledgerv1.Units{
		Input:         max(u.GetInput(), 0),
		CacheRead:     max(u.GetCacheRead(), 0),
		CacheWrite_5M: max(u.GetCacheWrite_5M(), 0),
		CacheWrite_1H: max(u.GetCacheWrite_1H(), 0),
		Output:        max(u.GetOutput(), 0),
		Reasoning:     max(u.GetReasoning(), 0),
		AudioIn:       max(u.GetAudioIn(), 0),
		AudioOut:      max(u.GetAudioOut(), 0),
		ImageIn:       max(u.GetImageIn(), 0),
		ImageOut:      max(u.GetImageOut(), 0),
		ImageUnit:     max(u.GetImageUnit(), 0),
		AudioSecond:   max(u.GetAudioSecond(), 0),
		VideoSecond:   max(u.GetVideoSecond(), 0),
		WebSearch:     max(u.GetWebSearch(), 0),
		Request:       max(u.GetRequest(), 0),
	}
}

func promptOf(u *ledgerv1.Units) int64 {
	return u.Input + u.CacheRead + u.CacheWrite_5M + u.CacheWrite_1H + u.AudioIn + u.ImageIn
}

func outputOf(u *ledgerv1.Units) int64 {
	return u.Output + u.Reasoning + u.AudioOut + u.ImageOut + u.ImageUnit
}

func setPrompt(dst, src *ledgerv1.Units) {
	dst.Input, dst.CacheRead = src.Input, src.CacheRead
	dst.CacheWrite_5M, dst.CacheWrite_1H = src.CacheWrite_5M, src.CacheWrite_1H
	dst.AudioIn, dst.ImageIn = src.AudioIn, src.ImageIn
}

func setOutput(dst, src *ledgerv1.Units) {
	dst.Output, dst.Reasoning = src.Output, src.Reasoning
	dst.AudioOut, dst.ImageOut, dst.ImageUnit = src.AudioOut, src.ImageOut, src.ImageUnit
}
