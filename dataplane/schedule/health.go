package schedule

import (
	"math"
	"sync"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
)

// health is what is known of the latency and reliability of one credential for one
// model.
type health struct {
	mu      sync.Mutex
	ttft    float64   // ms without the time of reading the prompt; guarded by mu
	ttftAt  time.Time // of the last sample, zero if there was none; guarded by mu
	trial   time.Time // until when one attempt may find out whether it is still slow; guarded by mu
	errs    float64   // share of failures; guarded by mu
	samples float64   // that errs stands on; guarded by mu
	errsAt  time.Time // guarded by mu
}

// The weights of samples: bad news of the latency counts more than good news.
const (
	ttftUp, ttftDown = 0.3, 0.1
	errNew           = 0.2
	errFade          = 60_000.0 // ms
)

// reading is a health at one time.
type reading struct {
	ttft    float64 // ms
	known   bool    // there is a sample of the latency
	sample  float64 // that ttft stands on, as it was
	weight  float64 // of the sample in ttft; the rest is what an unknown account is taken for
	errs    float64
	samples float64
}

func (h *health) read(p *Policy, now time.Time) reading {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := reading{ttft: p.BaseTTFT, known: !h.ttftAt.IsZero()}
	switch {
	case r.known && now.Before(h.trial):
		r.ttft = h.ttft // one attempt is finding out; the others do not go there before it did
		r.sample, r.weight = h.ttft, 1
	case r.known:
		r.ttft = h.faded(p, now)
		r.sample, r.weight = h.ttft, fade(now.Sub(h.ttftAt), p.StaleMS)
	}
	if h.samples > 0 {
		f := fade(now.Sub(h.errsAt), errFade)
		r.errs, r.samples = h.errs*f, h.samples*f
	}
	return r
}

// faded is the latency as it stands at now: an old reading goes back to what an
// unknown account is taken for. The caller holds h.mu.
func (h *health) faded(p *Policy, now time.Time) float64 {
	return p.BaseTTFT + (h.ttft-p.BaseTTFT)*fade(now.Sub(h.ttftAt), p.StaleMS)
}

func fade(age time.Duration, constantMS float64) float64 {
	if age <= 0 {
		return 1
	}
	if constantMS <= 0 {
		return 0
	}
	return math.Exp(-ms(age) / constantMS)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// FirstToken notes how long a candidate took to its first token, for a prompt of
// which it had read some from its cache.
func (s *Scheduler) FirstToken(c *plan.Candidate, p *Policy, took time.Duration, prompt, read int64, now time.Time) {
	h := s.handle(c).health
	sample := max(0, ms(took)-p.PrefillMS*float64(max(0, prompt-read))/1000)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trial = time.Time{}
	if h.ttftAt.IsZero() {
		h.ttft, h.ttftAt = sample, now
		return
	}
	old := h.faded(p, now)
	w := ttftDown
	if sample > old {
		w = ttftUp
	}
	h.ttft, h.ttftAt = old+w*(sample-old), now
}

// trialTime bounds how long the others wait for one attempt to tell.
const trialTime = 30 * time.Second

// try notes that an attempt goes to an account. If that was slow when it was last heard
// of, the attempt finds out whether it still is, alone.
func (h *health) try(p *Policy, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ttft > p.EscapeTTFT && !now.Before(h.trial) {
		h.trial = now.Add(trialTime)
	}
}

// attempted adds one attempt to the error rate.
func (h *health) attempted(failed bool, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := 1.0
	if h.samples > 0 {
		f = fade(now.Sub(h.errsAt), errFade)
	}
	sample := 0.0
	if failed {
		sample = 1
	}
	h.errs = errNew*sample + (1-errNew)*h.errs*f
	h.samples = h.samples*f + 1
	h.errsAt = now
}
