package attempt

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/affinity"
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/stateid"
	"github.com/aidy-gateway/aidy-gateway/dataplane/schedule"
)

// streamed makes the request one for a stream.
func streamed(r *Request) {
	r.Target.Stream, r.Target.Framing = true, protocol.FramingSSE
}

const lastEvents = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"

func sse(body string) answer {
	return answer{status: 200, body: body, header: http.Header{"Content-Type": {"text/event-stream"}}}
}

// A 429 that says neither how long nor that a window is used up rests the account for a
// minute, whatever the reset times of its windows are.
func TestField_F01_ShortBurstRestsForAMinuteAndNotUntilTheWindowResets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limited := status(429)
		limited.header = http.Header{
			"Anthropic-Ratelimit-Tokens-Limit": {"1000"}, "Anthropic-Ratelimit-Tokens-Remaining": {"400"},
			"Anthropic-Ratelimit-Tokens-Reset": {time.Now().Add(72 * time.Hour).Format(time.RFC3339)},
			"X-Ratelimit-Reset-Requests":       {"48h0m0s"},
		}
		w := newWorld(t, nil, map[string][]answer{"a": {limited, ok()}, "b": {ok()}})
		w.run(t, t.Context(), nil)
		rests := w.scheduler.Rests(time.Now())
		if len(rests) != 1 || time.Until(rests[0].Until) > time.Minute {
			t.Fatalf("cooldowns %+v, want one of at most a minute", rests)
		}
	})
}

// What operators see of a cooldown says what it covers, why, since when and until when,
// and which request it was.
func TestField_F05_CooldownSaysAllThatCausedIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limited := status(429)
		limited.header = http.Header{"Retry-After": {"90"}}
		w := newWorld(t, nil, map[string][]answer{"a": {limited}, "b": {ok()}})
		w.run(t, t.Context(), nil)
		rests := w.scheduler.Rests(time.Now())
		if len(rests) != 1 {
			t.Fatalf("cooldowns %+v, want one", rests)
		}
		r := rests[0]
		if r.Scope != schedule.QuotaModel || r.Subject != "crd_a|up" || r.Kind != "rate_limit" || r.Status != 429 || r.Source != "retry-after" ||
			r.Started.IsZero() || r.Until.Sub(r.Started) != 90*time.Second || r.RequestID != "req_1" || !r.Announced {
			t.Errorf("%+v does not say all of it", r)
		}
	})
}

// A limit or a missing right of one model leaves the account's other models alone.
func TestField_F06_OneModelsFailureDoesNotRestTheAccount(t *testing.T) {
	t.Parallel()
	for _, code := range []int{429, 403, 404} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, func(s *syncv1.TenantShard) {
				s.Models = append(s.Models, &configv1.UpstreamModel{Id: "upm_2", UpstreamId: "upr_1", Model: "other"})
			}, map[string][]answer{"a": {status(code), ok()}, "b": {ok()}})
			w.run(t, t.Context(), nil)
			w.calls = nil
			res, _ := w.run(t, t.Context(), func(r *Request) {
				r.Candidates = w.candidates(r, "other")
				r.Candidates = r.Candidates[:1]
			})
			if res.Fault != nil || w.path() != "a" {
				t.Errorf("after a %d of one model the other was served by %q with fault %v, want a", code, w.path(), res.Fault)
			}
		})
	}
}

// The same account is not asked again before the time that it named.
func TestField_F09_RetryAfterIsMinded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limited := status(429)
		limited.header = http.Header{"Retry-After": {"2"}}
		w := newWorld(t, nil, map[string][]answer{"a": {limited, ok()}})
		began := time.Now()
		res, _ := w.run(t, t.Context(), nil)
		if res.Fault != nil || w.path() != "a a" || time.Since(began) < 2*time.Second {
			t.Errorf("called %q in %v with fault %v, want the second call after 2 s", w.path(), time.Since(began), res.Fault)
		}
		limited.header = http.Header{"Retry-After": {"30"}}
		w = newWorld(t, nil, map[string][]answer{"a": {limited, ok()}, "b": {limited, ok()}})
		began = time.Now()
		res, _ = w.run(t, t.Context(), nil)
		if res.Fault == nil || w.path() != "a b" || time.Since(began) > time.Second {
			t.Errorf("called %q in %v with fault %v, want each account once and an error at once", w.path(), time.Since(began), res.Fault)
		}
		if got := res.Fault.RetryAfter; got != 30*time.Second {
			t.Errorf("the client is told to come back after %v, want 30 s", got)
		}
	})
}

// A lone account that failed is not taken out, and one that is out for its breaker gets
// one request at a time, not none and not all.
func TestField_F10_LoneAccountIsProbedAndNotShutOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, map[string][]answer{"a": {status(500)}})
		for range 8 {
			w.run(t, t.Context(), func(r *Request) { r.Policy.SingleRetries = 0 })
		}
		if len(w.scheduler.Rests(time.Now())) > 0 {
			t.Errorf("the only account rests: %+v", w.scheduler.Rests(time.Now()))
		}
		if len(w.scheduler.Breakers(time.Now())) == 0 {
			t.Fatal("no breaker opened after 8 failures in a row")
		}
		w.scripts["a"] = []answer{ok()}
		w.calls = nil
		time.Sleep(1100 * time.Millisecond)
		refused, served := 0, 0
		for range 5 {
			res, _ := w.run(t, t.Context(), nil)
			if res.Fault == nil {
				served++
			} else if refused++; res.Fault.RetryAfter < time.Second {
				t.Errorf("refused without a time to come back: %v", res.Fault)
			}
		}
		if served != 1 || refused != 4 {
			t.Errorf("%d served and %d refused within a moment, want one trial and the others refused", served, refused)
		}
		time.Sleep(11 * time.Second)
		for range 3 {
			if res, _ := w.run(t, t.Context(), nil); res.Fault != nil {
				t.Errorf("after the breaker's time: %v", res.Fault)
			}
			time.Sleep(1100 * time.Millisecond)
		}
		if open := w.scheduler.Breakers(time.Now()); len(open) > 0 {
			t.Errorf("the breaker did not close after successes: %+v", open)
		}
	})
}

// bound makes the request one of a session that the first account has cached.
func bound(credential string) func(*Request) {
	return func(r *Request) {
		r.Scheduling.Affinity = &affinity.Key{Kind: affinity.Strong, Root: "s", PromptTokens: 30_000}
		r.Scheduling.Matches = []affinity.Match{{
			Scope: affinity.ScopeOf("c:" + credential + "|m:up"), Tokens: 28_000, Confidence: 1, TTLMin: time.Hour, TTLMax: time.Hour, Session: true,
		}}
	}
}

// A session whose account is disabled, rests or fails is served by another one, unless
// the policy says that it must not leave.
func TestField_F13_StaleAffinityFallsBack(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		a    answer
		rest bool
		path string
	}{
		{"sound", ok(), false, "a"},
		{"limited", status(429), false, "a b"},
		{"failing", status(500), false, "a a b"},
		{"resting", ok(), true, "b"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, priced, map[string][]answer{"a": {tc.a}, "b": {ok()}})
				if tc.rest {
					w.scheduler.Hear(schedule.Signal{Rest: &schedule.Rest{Scope: schedule.Credential, Subject: "crd_a", Kind: "auth", Until: time.Now().Add(time.Hour)}}, time.Now())
				}
				res, _ := w.run(t, t.Context(), bound("crd_a"))
				if res.Fault != nil || w.path() != tc.path {
					t.Errorf("called %q with fault %v, want %q", w.path(), res.Fault, tc.path)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, priced, map[string][]answer{"a": {status(429)}, "b": {ok()}})
		res, _ := w.run(t, t.Context(), func(r *Request) {
			bound("crd_a")(r)
			r.Scheduling.Policy.PreserveCache = configv1.PreserveCache_PRESERVE_CACHE_STRICT
		})
		if res.Fault == nil || w.path() != "a" {
			t.Errorf("called %q with fault %v, want a alone where the cache must be kept", w.path(), res.Fault)
		}
	})
}

func priced(s *syncv1.TenantShard) {
	s.Pricing = append(s.Pricing, &configv1.ProviderPricing{ProviderId: "prv_1", Model: "m", Published: true, Items: []*configv1.PriceItem{
		{Component: configv1.PriceComponent_PRICE_COMPONENT_INPUT, PerMtokNanos: 3_000_000_000},
		{Component: configv1.PriceComponent_PRICE_COMPONENT_CACHE_READ, PerMtokNanos: 300_000_000},
		{Component: configv1.PriceComponent_PRICE_COMPONENT_OUTPUT, PerMtokNanos: 15_000_000_000},
	}})
}

// After a warm account of a low priority failed, the search begins at the top again, and
// only what failed is left out.
func TestField_F14_AffinityMissRestartsAtTheTopPriority(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(s *syncv1.TenantShard) {
			priced(s)
			for i, p := range []int32{1, 2, 3} {
				s.Credentials[i].Priority = &p
			}
		}, map[string][]answer{"a": {ok()}, "b": {status(429)}, "c": {ok()}})
		res, _ := w.run(t, t.Context(), bound("crd_b"))
		if res.Fault != nil || w.path() != "b a" {
			t.Errorf("called %q with fault %v, want the warm b and then the top a", w.path(), res.Fault)
		}
	})
}

// A request that names what one account stores is never led elsewhere by a preference,
// and gets its owner's error if the owner fails.
func TestField_F22_HardConstraintsComeBeforeAffinity(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, priced, map[string][]answer{"a": {ok()}, "b": {status(429)}})
		res, _ := w.run(t, t.Context(), func(r *Request) {
			bound("crd_a")(r) // the session is warm at a
			r.Owner = stateid.Owner{Scope: "crd_b", Upstream: "upr_1"}
		})
		if res.Fault == nil || strings.Contains(w.path(), "a") {
			t.Errorf("called %q with fault %v, want the owner b alone", w.path(), res.Fault)
		}
	})
}

// A model that one account does not know is asked of the others; one that nobody knows
// ends after each was asked once.
func TestField_F25_ModelNotFoundIsTriedElsewhereAndNeverInALoop(t *testing.T) {
	t.Parallel()
	unknown := answer{status: 404, body: `{"error":{"message":"no such model","code":"model_not_found"}}`}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, map[string][]answer{"a": {unknown}, "b": {ok()}})
		if res, _ := w.run(t, t.Context(), nil); res.Fault != nil || w.path() != "a b" {
			t.Errorf("called %q with fault %v, want b to serve", w.path(), res.Fault)
		}
		rests := w.scheduler.Rests(time.Now())
		if len(rests) != 1 || rests[0].Scope != schedule.CredentialModel || rests[0].Kind != "model" {
			t.Errorf("cooldowns %+v, want one of the credential and model", rests)
		}
		w = newWorld(t, nil, map[string][]answer{"a": {unknown}, "b": {unknown}, "c": {unknown}})
		res, _ := w.run(t, t.Context(), nil)
		if res.Fault == nil || res.Fault.Status() != 404 || w.path() != "a b c" {
			t.Errorf("called %q with fault %v, want each once and a 404", w.path(), res.Fault)
		}
	})
}

// Requests wait for a slot in a queue that is bounded in length and time, and the wait is
// told.
func TestField_F27_QueueIsBoundedInLengthAndTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one := int32(1)
		slow := ok()
		slow.latency = 3 * time.Second
		w := newWorld(t, func(s *syncv1.TenantShard) { s.Credentials[0].MaxConcurrency = &one }, map[string][]answer{"a": {slow}})
		type outcome struct {
			res  *Result
			took time.Duration
		}
		out := make(chan outcome, 8)
		for range 4 {
			go func() {
				began := time.Now()
				res, _ := w.run(t, t.Context(), nil)
				out <- outcome{res, time.Since(began)}
			}()
			synctest.Wait()
		}
		served, full, expired := 0, 0, 0
		for range 4 {
			switch o := <-out; {
			case o.res.Fault == nil:
				served++
			case o.res.Fault.Class != fault.CapacityExhausted || o.res.Fault.RetryAfter < time.Second:
				t.Errorf("refused with %v, want capacity_exhausted and a time to come back", o.res.Fault)
			case o.took == 0:
				full++
			case o.took == 2*time.Second:
				if o.res.Queued != o.took {
					t.Errorf("told of a wait of %v, it was %v", o.res.Queued, o.took)
				}
				expired++
			default:
				t.Errorf("refused after %v", o.took)
			}
		}
		if served != 1 || full != 1 || expired != 2 {
			t.Errorf("%d served, %d found the queue full, %d gave up after 2 s; want 1, 1 and 2", served, full, expired)
		}
	})
}

// A request in the queue is served as soon as a slot is free, the more urgent class and
// the older first; who leaves gives its place to the next.
func TestQueueServesByClassThenAge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		two := int32(2)
		slow := ok()
		slow.latency = time.Second
		w := newWorld(t, func(s *syncv1.TenantShard) { s.Credentials[0].MaxConcurrency = &two }, map[string][]answer{"a": {slow}})
		order := make(chan string, 8)
		start := func(ctx context.Context, name string, class uint8) {
			go func() {
				res, _ := w.run(t, ctx, func(r *Request) { r.Scheduling.Class = class })
				if res.Fault == nil {
					order <- name
				} else {
					order <- name + "!"
				}
			}()
			synctest.Wait()
		}
		ctx, leave := context.WithCancel(t.Context())
		start(t.Context(), "1", schedule.ClassInteractive)
		time.Sleep(100 * time.Millisecond)
		start(t.Context(), "2", schedule.ClassInteractive)
		start(t.Context(), "batch", schedule.ClassBatch)
		start(ctx, "left", schedule.ClassCritical)
		start(t.Context(), "urgent", schedule.ClassCritical)
		leave()
		var got []string
		for range 5 {
			got = append(got, <-order)
		}
		if want := "left! 1 2 urgent batch"; strings.Join(got, " ") != want {
			t.Errorf("ended in the order %v, want %s", got, want)
		}
		if n := w.scheduler.InFlight("crd_a"); n != 0 {
			t.Errorf("%d slots are held", n)
		}
	})
}

// For every place at which the stream of the first account can break, the client gets
// the bytes of exactly one upstream.
func TestField_F29_BytesOfExactlyOneUpstreamForEveryBreak(t *testing.T) {
	t.Parallel()
	mark := func(name string) string {
		return strings.ReplaceAll(firstEvent, `"Hi"`, `"`+name+`"`) + strings.ReplaceAll(firstEvent, `"Hi"`, `"`+name+name+`"`) + lastEvents
	}
	one, other := mark("one"), mark("other")
	for cut := range len(one) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil, map[string][]answer{"a": {sse(one[:cut])}, "b": {sse(other)}})
			res, rec := w.run(t, t.Context(), streamed)
			body := rec.Body.String()
			if strings.Contains(body, `"one`) && strings.Contains(body, `"other`) {
				t.Fatalf("cut after %d bytes: two answers in one: %q", cut, body)
			}
			if res.Fault == nil && !strings.Contains(body, `"one`) && !strings.Contains(body, `"other`) {
				t.Fatalf("cut after %d bytes: no answer and no fault: %q", cut, body)
			}
		})
	}
}

// What comes before the first content is not told, so an error there is failed over.
func TestField_F30_ErrorBehindLifecycleEventsIsFailedOver(t *testing.T) {
	t.Parallel()
	const role = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"
	synctest.Test(t, func(t *testing.T) {
		broken := sse(role + `data: {"error":{"message":"overloaded","code":"server_error"}}` + "\n\n")
		w := newWorld(t, nil, map[string][]answer{"a": {broken}, "b": {sse(firstEvent + lastEvents)}})
		res, rec := w.run(t, t.Context(), streamed)
		if res.Fault != nil || !strings.HasSuffix(w.path(), "b") || strings.Contains(rec.Body.String(), "overloaded") {
			t.Errorf("called %q with fault %v and body %q, want b's answer alone", w.path(), res.Fault, rec.Body)
		}
	})
}

// What an error means is decided before the client sees any of it.
func TestField_F31_ErrorsAreClassifiedBeforeTheClientSeesThem(t *testing.T) {
	t.Parallel()
	for _, a := range []answer{
		{status: 500, body: `{"error":{"message":"secret detail"}}`},
		{status: 429, body: `{"error":{"message":"secret detail"}}`},
		{status: 401, body: `{"error":{"message":"secret detail"}}`},
		{status: 200, body: `{"error":{"message":"secret detail","code":"server_error"}}`},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil, map[string][]answer{"a": {a}, "b": {ok()}})
			res, rec := w.run(t, t.Context(), nil)
			if res.Fault != nil || rec.Body.String() != okBody {
				t.Errorf("%d: fault %v, body %q; want b's answer", a.status, res.Fault, rec.Body)
			}
		})
	}
}

// The outcome of an attempt is known when the executor returns, for whole answers and
// for streams: nothing fails later, where nobody could try again.
func TestField_F33_OutcomeIsKnownWhenTheExecutorReturns(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Request){"whole": nil, "streamed": streamed} {
		synctest.Test(t, func(t *testing.T) {
			a := ok()
			if change != nil {
				a = sse(firstEvent + lastEvents)
			}
			w := newWorld(t, nil, map[string][]answer{"a": {a}})
			res, rec := w.run(t, t.Context(), change)
			if res.Winner == nil || rec.Body.Len() == 0 || len(w.ends) != 1 || w.ends[0].Answer == nil {
				t.Errorf("%s: winner %v, %d bytes, ends %+v", name, res.Winner, rec.Body.Len(), w.ends)
			}
		})
	}
}

// One executor serves streams and whole answers alike: the same failures lead to the
// same attempts under every mode.
func TestField_F34_OnePathForStreamsAndWholeAnswers(t *testing.T) {
	t.Parallel()
	for _, mode := range []configv1.FallbackMode{
		configv1.FallbackMode_FALLBACK_MODE_OFF, configv1.FallbackMode_FALLBACK_MODE_RETRY, configv1.FallbackMode_FALLBACK_MODE_MODEL_CHAIN,
		configv1.FallbackMode_FALLBACK_MODE_PROVIDER_CHAIN, configv1.FallbackMode_FALLBACK_MODE_ADAPTIVE,
	} {
		for _, code := range []int{400, 401, 402, 404, 408, 409, 413, 429, 500, 503, 504, 529} {
			paths := make(map[string]string)
			for name, change := range map[string]func(*Request){"whole": nil, "streamed": streamed} {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, nil, map[string][]answer{"a": {status(code)}, "b": {status(code)}, "c": {ok()}})
					if change != nil {
						w.scripts["c"] = []answer{sse(firstEvent + lastEvents)}
					}
					w.run(t, t.Context(), func(r *Request) {
						r.Policy.Mode = mode
						if change != nil {
							change(r)
						}
					})
					paths[name] = w.path()
				})
			}
			if paths["whole"] != paths["streamed"] {
				t.Errorf("%v, %d: a whole answer took %q, a stream %q", mode, code, paths["whole"], paths["streamed"])
			}
			if mode == configv1.FallbackMode_FALLBACK_MODE_OFF && paths["whole"] != "a" {
				t.Errorf("%d: %q was called though failover is off", code, paths["whole"])
			}
		}
	}
}

// A whole answer that breaks off is tried elsewhere, since the client has nothing of it.
func TestField_F35_BrokenWholeAnswerIsFailedOver(t *testing.T) {
	t.Parallel()
	for cut := range len(okBody) {
		synctest.Test(t, func(t *testing.T) {
			broken := ok()
			broken.body = okBody[:cut]
			w := newWorld(t, nil, map[string][]answer{"a": {broken, ok()}, "b": {ok()}})
			res, rec := w.run(t, t.Context(), nil)
			if res.Fault != nil || rec.Body.String() != okBody {
				t.Fatalf("cut after %d bytes: fault %v, body %q", cut, res.Fault, rec.Body)
			}
		})
	}
}

// A failure behind output has a stable code, says that something was consumed, and is in
// the record of attempts.
func TestField_F38_FailureBehindOutputIsToldAndRecorded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, map[string][]answer{"a": {sse(firstEvent + `data: {"error":{"message":"gone","code":"server_error"}}` + "\n\n")}, "b": {ok()}})
		res, _ := w.run(t, t.Context(), streamed)
		f := res.Answer.Fault
		if f == nil || f.StableCode() == "" || res.Tries[0].Consumed != fault.ConsumedCertain || res.Stop != StopNotRetryable {
			t.Fatalf("the answer ended with %v, %+v", f, res.Tries[0])
		}
		if w.path() != "a" || len(w.ends) != 1 || w.ends[0].Answer == nil || w.ends[0].Fault == nil {
			t.Errorf("called %q, recorded %+v", w.path(), w.ends)
		}
	})
}

// An upstream that sends nothing is given up after the route's bound, which is on without
// being set.
func TestField_F39_FirstEventHasADeadlineByDefault(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]time.Duration{"default": 0, "route": 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			silent := sse(": wait\n\n")
			silent.stalls = true
			w := newWorld(t, nil, map[string][]answer{"a": {silent}, "b": {sse(firstEvent + lastEvents)}})
			began := time.Now()
			res, _ := w.run(t, t.Context(), func(r *Request) {
				streamed(r)
				r.Policy = PolicyOf(nil, &configv1.Route{FirstEventTimeoutMs: set.Milliseconds()}, true, 0, began)
			})
			want := set
			if want == 0 {
				want = 2 * time.Minute
			}
			if res.Fault != nil || w.path() != "a b" || time.Since(began) != want {
				t.Errorf("%s: called %q in %v with fault %v, want b after %v", name, w.path(), time.Since(began), res.Fault, want)
			}
		})
	}
}

// Groups are entered as fallbacks in their order, when the ones before have nobody left,
// and never after a failure that stops.
func TestFallbackGroupsAreEnteredInOrder(t *testing.T) {
	t.Parallel()
	groups := map[string][]string{"grp_1": {"grp_2"}, "grp_2": {"grp_3"}}
	for _, tc := range []struct {
		name string
		a    answer
		path string
	}{
		{"limited", status(429), "a b c"},
		{"stops", status(400), "a"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, func(s *syncv1.TenantShard) {
				for i, c := range s.Credentials {
					up := fmt.Sprintf("upr_%d", i+1)
					c.UpstreamId = up
					if i > 0 {
						s.Upstreams = append(s.Upstreams, &configv1.Upstream{Id: up, ProviderId: "prv_1", GroupId: fmt.Sprintf("grp_%d", i+1)})
						s.Models = append(s.Models, &configv1.UpstreamModel{Id: "upm_" + up, UpstreamId: up, Model: "m", UpstreamModel: "up"})
					}
				}
			}, map[string][]answer{"a": {tc.a}, "b": {status(429)}, "c": {ok()}})
			w.run(t, t.Context(), func(r *Request) {
				r.Scheduling.Fallback = func(g string) []string { return groups[g] }
			})
			if w.path() != tc.path {
				t.Errorf("%s: called %q, want %q", tc.name, w.path(), tc.path)
			}
		})
	}
}

// Statuses that a policy lists decide in the place of the table.
func TestStatusListsOfAPolicyDecide(t *testing.T) {
	t.Parallel()
	two := func(s *syncv1.TenantShard) {
		s.Providers = append(s.Providers, &configv1.Provider{Id: "prv_2", Name: "two", Capabilities: s.Providers[0].Capabilities})
		s.Upstreams = append(s.Upstreams, &configv1.Upstream{Id: "upr_2", ProviderId: "prv_2", GroupId: "grp_1", Priority: 2})
		s.Models = append(s.Models, &configv1.UpstreamModel{Id: "upm_2", UpstreamId: "upr_2", Model: "m", UpstreamModel: "up"})
		s.Credentials[1].UpstreamId = "upr_2"
	}
	for _, tc := range []struct {
		name   string
		code   int
		change func(*Policy)
		path   string
	}{
		{"the table retries 500 and leaves the provider", 500, func(*Policy) {}, "a a b"},
		{"500 is not on the list of what is retried", 500, func(p *Policy) { p.RetryStatus = []int32{502} }, "a b"},
		{"501 is", 501, func(p *Policy) { p.RetryStatus = []int32{501} }, "a a b"},
		{"500 may not leave the provider", 500, func(p *Policy) { p.CrossStatus = []int32{503} }, "a a"},
		{"400 stops whatever the lists say", 400, func(p *Policy) { p.CrossStatus, p.RetryStatus = []int32{400}, []int32{400} }, "a"},
		{"400 switches where that is allowed", 400, func(p *Policy) { p.SwitchOn400 = true }, "a b"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, two, map[string][]answer{"a": {status(tc.code)}, "b": {ok()}})
			w.run(t, t.Context(), func(r *Request) { tc.change(&r.Policy) })
			if w.path() != tc.path {
				t.Errorf("%s: called %q, want %q", tc.name, w.path(), tc.path)
			}
		})
	}
}

// Nobody waits while a slot is free, whatever comes and goes at the same moment.
func TestQueueLeavesNoSlotFree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ten := int32(10)
		slow := ok()
		slow.latency = 100 * time.Millisecond
		w := newWorld(t, func(s *syncv1.TenantShard) { s.Credentials[0].MaxConcurrency = &ten }, map[string][]answer{"a": {slow}})
		began := time.Now()
		failed := make(chan error, 64)
		for range 30 {
			go func() {
				res, _ := w.run(t, t.Context(), nil)
				if res.Fault != nil {
					failed <- res.Fault
					return
				}
				failed <- nil
			}()
		}
		for range 30 {
			if err := <-failed; err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(began); took > 300*time.Millisecond {
			t.Errorf("30 requests of 100 ms took %v on 10 slots, want 300 ms", took)
		}
	})
}

// A request that waits because its own groups and their fallbacks are full is served by
// its own when a slot is free there first.
func TestQueuedRequestBeginsAtItsOwnGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one := int32(1)
		soon, late := ok(), ok()
		soon.latency, late.latency = time.Second, 5*time.Second
		w := newWorld(t, func(s *syncv1.TenantShard) {
			s.Upstreams = append(s.Upstreams, &configv1.Upstream{Id: "upr_2", ProviderId: "prv_1", GroupId: "grp_2"})
			s.Models = append(s.Models, &configv1.UpstreamModel{Id: "upm_2", UpstreamId: "upr_2", Model: "m", UpstreamModel: "up"})
			s.Credentials[1].UpstreamId = "upr_2"
			for _, c := range s.Credentials {
				c.MaxConcurrency = &one
			}
		}, map[string][]answer{"a": {soon}, "b": {late}})
		out := make(chan *Result, 3)
		for range 3 {
			go func() {
				res, _ := w.run(t, t.Context(), func(r *Request) {
					r.Scheduling.Fallback = func(g string) []string { return map[string][]string{"grp_1": {"grp_2"}}[g] }
				})
				out <- res
			}()
			synctest.Wait()
		}
		for range 3 {
			if res := <-out; res.Fault != nil {
				t.Error(res.Fault)
			}
		}
		if w.path() != "a b a" {
			t.Errorf("called %q, want the waiting request at a, which was free first", w.path())
		}
	})
}
