// Package sim measures the scheduler in a simulated fleet: the product's own executor,
// scheduler and affinity store on a virtual clock, against providers that model prompt
// caches, limits, outages and slowness.
package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/upstream"
)

// turn is one request of a conversation as the provider sees it.
type turn struct {
	conversation int
	head         int     // which shared beginning it has
	headTokens   int64   // of it
	prior        int64   // tokens of the request before; 0 for the first
	prompt       int64   // tokens
	output       int64   // tokens
	noise        float64 // factor of the latency
}

// account is one credential at the provider.
type account struct {
	name   string
	weight int32

	mu     sync.Mutex
	cache  map[string]entry // prefixes, by what they are of
	used   float64          // of the limit; guarded by mu
	usedAt time.Time        // guarded by mu

	limit float64 // uncached input tokens a minute; 0 for none

	tokens  int64 // prompt tokens served
	cached  int64
	calls   int
	limited int
	failed  int
	minutes map[int]int64 // prompt tokens served in each minute
}

type entry struct {
	tokens int64
	until  time.Time
}

const cacheTTL = 5 * time.Minute

// trouble is what is wrong with an account at a time.
type trouble struct {
	account    string
	kind       string // down or slow
	begin, end time.Duration
}

// provider answers the calls of the fleet.
type provider struct {
	start    time.Time
	accounts map[string]*account
	troubles []trouble
}

type turnKey struct{}

// lookup returns how many tokens of a prompt the cache has, and keeps the prompt. The
// caller holds a.mu.
func (a *account) lookup(t *turn, now time.Time, write bool) int64 {
	hit := int64(0)
	conversation, head := fmt.Sprint("c", t.conversation), fmt.Sprint("h", t.head)
	if e, ok := a.cache[conversation]; ok && now.Before(e.until) {
		hit = min(e.tokens, t.prompt)
	}
	if e, ok := a.cache[head]; ok && now.Before(e.until) {
		hit = max(hit, min(e.tokens, t.prompt))
	}
	if write {
		a.cache[conversation] = entry{t.prompt, now.Add(cacheTTL)}
		a.cache[head] = entry{t.headTokens, now.Add(cacheTTL)}
	}
	return hit
}

// ttft is the time to the first token of a prompt of which some was cached.
func ttft(t *turn, hit int64) time.Duration {
	return time.Duration(t.noise * (700 + 60*float64(t.prompt-hit)/1000) * float64(time.Millisecond))
}

// Do implements attempt.Client.
func (p *provider) Do(ctx context.Context, c *upstream.Call) (*http.Response, error) {
	if c.BodyDone != nil {
		defer c.BodyDone()
	}
	a := p.accounts[c.Header.Get("X-Api-Key")]
	t := ctx.Value(turnKey{}).(*turn)
	now := time.Now()
	slow := 1.0
	for _, tr := range p.troubles {
		if at := now.Sub(p.start); tr.account == a.name && at >= tr.begin && at < tr.end {
			if tr.kind == "down" {
				a.mu.Lock()
				a.failed++
				a.mu.Unlock()
				if err := pause(ctx, 20*time.Millisecond); err != nil {
					return nil, err
				}
				return response(503, `{"type":"error","error":{"type":"api_error","message":"unavailable"}}`, nil), nil
			}
			slow = 10
		}
	}
	a.mu.Lock()
	a.calls++
	h := http.Header{}
	hit := a.lookup(t, now, false)
	if a.limit > 0 {
		a.used = max(0, a.used-a.limit*now.Sub(a.usedAt).Minutes())
		a.usedAt = now
		if need := float64(t.prompt - hit); a.used+min(need, a.limit) > a.limit {
			a.limited++
			wait := (a.used + min(need, a.limit) - a.limit) / a.limit * 60
			a.mu.Unlock()
			h.Set("Retry-After", strconv.Itoa(int(wait)+1))
			if err := pause(ctx, 20*time.Millisecond); err != nil {
				return nil, err
			}
			return response(429, `{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}`, h), nil
		}
		a.used += float64(t.prompt - hit)
		h.Set("Anthropic-Ratelimit-Input-Tokens-Limit", strconv.Itoa(int(a.limit)))
		h.Set("Anthropic-Ratelimit-Input-Tokens-Remaining", strconv.Itoa(int(max(0, a.limit-a.used))))
		h.Set("Anthropic-Ratelimit-Input-Tokens-Reset", now.Add(time.Duration(a.used/a.limit*float64(time.Minute))).Format(time.RFC3339))
	}
	hit = a.lookup(t, now, true)
	a.tokens += t.prompt
	a.cached += hit
	a.minutes[int(now.Sub(p.start)/time.Minute)] += t.prompt
	a.mu.Unlock()
	if err := pause(ctx, time.Duration(slow*float64(ttft(t, hit)))); err != nil {
		return nil, err
	}
	h.Set("Content-Type", "text/event-stream")
	first := fmt.Sprintf(`event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":0,"cache_read_input_tokens":%d,"cache_creation_input_tokens":%d,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"ok"}}

`, hit, t.prompt-hit)
	last := fmt.Sprintf(`event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":%d}}

event: message_stop
data: {"type":"message_stop"}

`, t.output)
	r := response(200, "", h)
	r.Body = io.NopCloser(&stream{ctx: ctx, parts: []string{first, last}, gap: time.Duration(t.output) * 10 * time.Millisecond})
	return r, nil
}

func response(status int, body string, h http.Header) *http.Response {
	if h == nil {
		h = http.Header{}
	}
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	return &http.Response{StatusCode: status, Header: h, ContentLength: -1, Body: io.NopCloser(strings.NewReader(body))}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return &fault.Error{Class: fault.Reset, Err: ctx.Err()}
	}
}

// stream is a body whose parts come with a gap between them.
type stream struct {
	ctx   context.Context
	parts []string
	gap   time.Duration
	at    int
	begun bool
}

func (s *stream) Read(p []byte) (int, error) {
	if s.at == len(s.parts) {
		return 0, io.EOF
	}
	if s.at > 0 && !s.begun {
		if pause(s.ctx, s.gap) != nil {
			return 0, errors.New("gone")
		}
		s.begun = true
	}
	n := copy(p, s.parts[s.at])
	if s.parts[s.at] = s.parts[s.at][n:]; s.parts[s.at] == "" {
		s.at++
	}
	return n, nil
}
