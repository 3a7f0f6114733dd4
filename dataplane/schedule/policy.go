package schedule

import (
	"time"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

// Policy tunes a selection. Money is in nano-USD, times that enter a score are in
// milliseconds.
type Policy struct {
	TimeValue    float64 // money that a millisecond of waiting is worth
	PriorityStep float64 // money that one step of priority is worth

	LoadKnee float64 // utilisation from which load costs
	LoadMS   float64 // what it costs at full load
	ErrorMS  float64 // what a failure costs

	PrefillMS float64 // reading 1,000 uncached tokens takes so long
	BaseTTFT  float64 // time to the first token of an account that is not known
	StaleMS   float64 // a reading of the latency fades with this time constant

	TieMS    float64 // expected latencies closer than this are the same
	TieMoney float64 // and costs closer than this share of the best

	Spillover float64 // utilisation at which the next priority opens
	BandLow   float64 // below this utilisation an account counts as idle

	TopK       int // above 0: draw among so many of the best
	TopKTau    float64
	RoundRobin bool // new conversations take turns instead of having a home

	PriorConfidence float64 // of a continued conversation being warm at its home

	EscapeErrorRate  float64
	EscapeMinSamples float64
	EscapeTTFT       float64
	EscapeFactor     float64

	MinPrefix     int64 // shorter prefixes are not cached
	SessionValue  float64
	ResetBonus    float64
	HeadroomBonus float64
	QualityValue  float64
	BudgetFactor  float64

	PreserveCache    configv1.PreserveCache
	MaxCacheWait     time.Duration // for a warm account
	HoldMS           float64       // how long an attempt is expected to hold its slot
	MaxWaitingFactor int64         // waiting attempts of a warm account, as a multiple of its slots
	MaxQueueWait     time.Duration // for a slot when all accounts are full

	ProbeMaxTokens      int64 // larger prompts do not probe an account that failed
	BreakerByCredential bool

	Cache *configv1.CacheSettings // below those of provider, model and credential; may be nil
}

// DefaultPolicy is the policy where the configuration says nothing.
func DefaultPolicy() Policy {
	return Policy{
		TimeValue:        2000,
		PriorityStep:     1_000_000,
		LoadKnee:         0.5,
		LoadMS:           4000,
		ErrorMS:          3000,
		PrefillMS:        60,
		BaseTTFT:         800,
		StaleMS:          60_000,
		TieMS:            500,
		TieMoney:         0.05,
		Spillover:        0.8,
		BandLow:          0.5,
		TopKTau:          1_000_000,
		PriorConfidence:  0.7,
		EscapeErrorRate:  0.5,
		EscapeMinSamples: 10,
		EscapeTTFT:       5000,
		EscapeFactor:     4,
		MinPrefix:        1024,
		SessionValue:     500_000,
		PreserveCache:    configv1.PreserveCache_PRESERVE_CACHE_PREFER,
		MaxCacheWait:     3 * time.Second,
		HoldMS:           8000,
		MaxWaitingFactor: 2,
		MaxQueueWait:     2 * time.Second,
		ProbeMaxTokens:   8000,
	}
}

// PolicyOf combines scheduling policies, the outermost first; of each field the
// innermost value that is set wins.
func PolicyOf(levels ...*configv1.SchedulingPolicy) Policy {
	p := DefaultPolicy()
	topk, k := false, int32(3)
	for _, s := range levels {
		if s == nil {
			continue
		}
		p.take(s)
		if m := s.GetMode(); m != configv1.SelectionMode_SELECTION_MODE_UNSPECIFIED {
			topk = m == configv1.SelectionMode_SELECTION_MODE_TOPK
		}
		if s.TopK != nil {
			k = s.GetTopK()
		}
	}
	if topk {
		p.TopK = int(k)
	}
	return p
}

func (p *Policy) take(s *configv1.SchedulingPolicy) {
	whole := func(to *float64, v *int64) {
		if v != nil {
			*to = float64(*v)
		}
	}
	ratio := func(to, v *float64) {
		if v != nil {
			*to = *v
		}
	}
	wait := func(to *time.Duration, v *int64) {
		if v != nil {
			*to = time.Duration(*v) * time.Millisecond
		}
	}
	whole(&p.TimeValue, s.TimeValueNusdPerMs)
	whole(&p.PriorityStep, s.PriorityStepNusd)
	whole(&p.LoadMS, s.LoadMs)
	ratio(&p.LoadKnee, s.LoadKnee)
	whole(&p.ErrorMS, s.ErrorMs)
	whole(&p.PrefillMS, s.PrefillMsPerKtok)
	whole(&p.BaseTTFT, s.BaseTtftMs)
	whole(&p.StaleMS, s.StaleMs)
	whole(&p.TieMS, s.TieMs)
	ratio(&p.TieMoney, s.TieMoney)
	ratio(&p.Spillover, s.Spillover)
	ratio(&p.BandLow, s.BandLow)
	whole(&p.TopKTau, s.TopKTauNusd)
	ratio(&p.PriorConfidence, s.PriorConfidence)
	ratio(&p.EscapeErrorRate, s.EscapeErrorRate)
	if s.EscapeMinSamples != nil {
		p.EscapeMinSamples = float64(s.GetEscapeMinSamples())
	}
	whole(&p.EscapeTTFT, s.EscapeTtftMs)
	ratio(&p.EscapeFactor, s.EscapeTtftFactor)
	if s.MinPrefixTokens != nil {
		p.MinPrefix = s.GetMinPrefixTokens()
	}
	whole(&p.SessionValue, s.SessionValueNusd)
	whole(&p.ResetBonus, s.ResetBonusNusd)
	whole(&p.HeadroomBonus, s.HeadroomBonusNusd)
	whole(&p.QualityValue, s.QualityValueNusd)
	ratio(&p.BudgetFactor, s.BudgetFactor)
	wait(&p.MaxCacheWait, s.MaxCacheWaitMs)
	whole(&p.HoldMS, s.HoldMs)
	if s.MaxWaitingFactor != nil {
		p.MaxWaitingFactor = int64(s.GetMaxWaitingFactor())
	}
	wait(&p.MaxQueueWait, s.MaxQueueWaitMs)
	if s.ProbeMaxTokens != nil {
		p.ProbeMaxTokens = s.GetProbeMaxTokens()
	}
	if v := s.GetPlacement(); v != configv1.Placement_PLACEMENT_UNSPECIFIED {
		p.RoundRobin = v == configv1.Placement_PLACEMENT_ROUND_ROBIN
	}
	if v := s.GetPreserveCache(); v != configv1.PreserveCache_PRESERVE_CACHE_UNSPECIFIED {
		p.PreserveCache = v
	}
	if v := s.GetBreakerScope(); v != configv1.BreakerScope_BREAKER_SCOPE_UNSPECIFIED {
		p.BreakerByCredential = v == configv1.BreakerScope_BREAKER_SCOPE_CREDENTIAL
	}
	if s.GetCache() != nil {
		p.Cache = s.GetCache()
	}
}
