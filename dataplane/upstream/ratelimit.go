package upstream

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/schedule"
)

// RateLimits reads what an answer's headers say of the account's limits:
// x-ratelimit-{limit,remaining,reset}-{requests,tokens} with durations (OpenAI and those
// that follow it) and anthropic-ratelimit-{requests,tokens,input-tokens,output-tokens}-*
// with times of RFC 3339. What is absent, negative or cannot be read is unknown, never
// zero.
func RateLimits(h http.Header, now time.Time) []schedule.Observation {
	var out []schedule.Observation
	for _, f := range [...]struct {
		dim                     schedule.Dim
		limit, remaining, reset string
	}{
		{schedule.RPM, "X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests"},
		{schedule.TPM, "X-Ratelimit-Limit-Tokens", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens"},
		{schedule.RPM, "Anthropic-Ratelimit-Requests-Limit", "Anthropic-Ratelimit-Requests-Remaining", "Anthropic-Ratelimit-Requests-Reset"},
		{schedule.TPM, "Anthropic-Ratelimit-Tokens-Limit", "Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Tokens-Reset"},
		{schedule.ITPM, "Anthropic-Ratelimit-Input-Tokens-Limit", "Anthropic-Ratelimit-Input-Tokens-Remaining", "Anthropic-Ratelimit-Input-Tokens-Reset"},
		{schedule.OTPM, "Anthropic-Ratelimit-Output-Tokens-Limit", "Anthropic-Ratelimit-Output-Tokens-Remaining", "Anthropic-Ratelimit-Output-Tokens-Reset"},
	} {
		limit, ok1 := amount(h, f.limit)
		left, ok2 := amount(h, f.remaining)
		if !ok1 || !ok2 || limit <= 0 {
			continue
		}
		out = append(out, schedule.Observation{Dim: f.dim, Limit: limit, Remaining: left, Reset: until(h, f.reset, now)})
	}
	return out
}

// maxAmount is more than any provider grants; beyond it a number is a mistake.
const maxAmount = 1e12

func amount(h http.Header, name string) (float64, bool) {
	v := h[name]
	if len(v) != 1 {
		return 0, false
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(v[0]), 64)
	if err != nil || !(n >= 0 && n <= maxAmount) {
		return 0, false
	}
	return n, true
}

// until is the time to a reset: a duration such as 6m0s or 12ms, seconds, or a time.
func until(h http.Header, name string, now time.Time) time.Duration {
	v := h[name]
	if len(v) != 1 {
		return 0
	}
	text := strings.TrimSpace(v[0])
	if d, err := time.ParseDuration(text); err == nil {
		return max(0, d)
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return max(0, t.Sub(now))
	}
	if n, err := strconv.ParseFloat(text, 64); err == nil && n >= 0 && n < 1e9 {
		return time.Duration(n * float64(time.Second))
	}
	return 0
}

// Allowance is what is left of an allowance that is renewed whole at Reset, of those that
// subscription keys have.
type Allowance struct {
	Left   float64 // share, in [0, 1]
	Reset  time.Time
	Window time.Duration
}

const (
	unifiedPrefix = "Anthropic-Ratelimit-Unified-"
	usedSuffix    = "-Utilization"
)

// Allowances reads anthropic-ratelimit-unified-<window>-{utilization,reset}: a share in
// [0, 1] and seconds since 1970, for windows such as 5h and 7d. It returns the one that
// is renewed first.
func Allowances(h http.Header, now time.Time) (soonest Allowance, ok bool) {
	for name := range h {
		window, unified := strings.CutPrefix(name, unifiedPrefix)
		window, utilization := strings.CutSuffix(window, usedSuffix)
		if !unified || !utilization {
			continue
		}
		length := windowOf(window)
		used, err1 := strconv.ParseFloat(h.Get(name), 64)
		at, err2 := strconv.ParseInt(h.Get(unifiedPrefix+window+"-Reset"), 10, 64)
		if length == 0 || err1 != nil || err2 != nil || !(used >= 0 && used <= 2) {
			continue
		}
		reset := time.Unix(at, 0)
		if !reset.After(now) || reset.Sub(now) > 2*length || ok && !reset.Before(soonest.Reset) {
			continue
		}
		soonest, ok = Allowance{Left: max(0, 1-used), Reset: reset, Window: length}, true
	}
	return soonest, ok
}

// windowOf reads a window such as 5h or 7d; 0 if it is none.
func windowOf(text string) time.Duration {
	if len(text) < 2 {
		return 0
	}
	n, err := strconv.Atoi(text[:len(text)-1])
	if err != nil || n < 1 || n > 1000 {
		return 0
	}
	switch text[len(text)-1] {
	case 'h', 'H':
		return time.Duration(n) * time.Hour
	case 'd', 'D':
		return time.Duration(n) * 24 * time.Hour
	}
	return 0
}
