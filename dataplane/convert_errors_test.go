package dataplane

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider/vendorsdk"

	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
)

// told is an error as a client of each protocol finds it: the status, and the word
// that programs look at.
type told struct {
	status int
	word   string // error.code of OpenAI's protocols, error.type of Anthropic's, error.status of Gemini's
}

// wordOf finds the word in an error's body.
func wordOf(p fakeprovider.Protocol, body string) string {
	var e struct {
		Error struct {
			Type, Status string
			Code         any
		}
	}
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		return fmt.Sprintf("%v in %s", err, body)
	}
	switch p {
	case fakeprovider.Anthropic:
		return e.Error.Type
	case fakeprovider.Gemini:
		return e.Error.Status
	}
	return fmt.Sprint(e.Error.Code)
}

func TestPairTellsEachErrorAsTheCallersProtocolDoes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name                      string
		fail                      fakeprovider.Failure
		openai, anthropic, gemini told
	}{
		{"400", fakeprovider.Failure{Kind: fakeprovider.BadRequest}, told{400, "invalid_request"}, told{400, "invalid_request_error"}, told{400, "INVALID_ARGUMENT"}},
		{"401", fakeprovider.Failure{Kind: fakeprovider.Unauthorized}, told{502, "upstream_auth"}, told{502, "api_error"}, told{502, "INTERNAL"}},
		{"403", fakeprovider.Failure{Kind: fakeprovider.Forbidden}, told{502, "upstream_permission"}, told{502, "api_error"}, told{502, "INTERNAL"}},
		{"404", fakeprovider.Failure{Kind: fakeprovider.ModelNotFound}, told{404, "model_not_found"}, told{404, "not_found_error"}, told{404, "NOT_FOUND"}},
		{"408", fakeprovider.Failure{Kind: fakeprovider.Timeout, Status: 408}, told{504, "upstream_timeout"}, told{504, "timeout_error"}, told{504, "DEADLINE_EXCEEDED"}},
		{"409", fakeprovider.Failure{Kind: fakeprovider.BadRequest, Status: 409}, told{409, "conflict"}, told{409, "conflict_error"}, told{409, "ABORTED"}},
		{"413", fakeprovider.Failure{Kind: fakeprovider.TooLarge}, told{413, "request_too_large"}, told{413, "request_too_large"}, told{413, "INVALID_ARGUMENT"}},
		{"429", fakeprovider.Failure{Kind: fakeprovider.RateLimited}, told{429, "rate_limit_exceeded"}, told{429, "rate_limit_error"}, told{429, "RESOURCE_EXHAUSTED"}},
		{"500", fakeprovider.Failure{Kind: fakeprovider.ServerError}, told{502, "upstream_error"}, told{502, "api_error"}, told{502, "INTERNAL"}},
		{"503", fakeprovider.Failure{Kind: fakeprovider.Unavailable}, told{503, "upstream_unavailable"}, told{529, "overloaded_error"}, told{503, "UNAVAILABLE"}},
		{"529", fakeprovider.Failure{Kind: fakeprovider.Overloaded, Status: 529}, told{503, "upstream_overloaded"}, told{529, "overloaded_error"}, told{503, "UNAVAILABLE"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			eachWay(t, func(t *testing.T, p pair, stream bool) {
				g := newPairRig(t, p, tryOnce)
				fail := tc.fail
				fail.Message = scripted
				if p.to == fakeprovider.Gemini && fail.Kind == fakeprovider.Overloaded {
					return // has no word for it
				}
				g.provider.Script(fakeprovider.Match{}, fakeprovider.Step{Fail: &fail})
				_, err := g.ask(t, g.question("hello"), stream)
				want := tc.openai
				switch p.from {
				case fakeprovider.Anthropic:
					want = tc.anthropic
				case fakeprovider.Gemini:
					want = tc.gemini
				}
				got := told{vendorsdk.Of(p.from).Status(err), wordOf(p.from, g.seen.body())}
				if got != want {
					t.Errorf("the SDK sees %+v, want %+v: %v\n%s", got, want, err, g.seen.body())
				}
				if strings.Contains(g.seen.body(), keyA) {
					t.Errorf("the credential is in %s", g.seen.body())
				}
			})
		})
	}
}

func TestConvE07_CallerIsToldHowLongToWait(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, p pair, stream bool) {
		g := newPairRig(t, p, tryOnce)
		g.provider.Script(fakeprovider.Match{}, fakeprovider.Step{Fail: &fakeprovider.Failure{Kind: fakeprovider.RateLimited, Message: scripted, RetryAfter: 30 * time.Second}})
		_, err := g.ask(t, g.question("hello"), stream)
		if got := vendorsdk.Of(p.from).Status(err); got != http.StatusTooManyRequests {
			t.Errorf("status %d (%v), want 429", got, err)
		}
		if wait := g.seen.head("Retry-After"); wait != "30" && wait != "31" {
			t.Errorf("retry-after is %q, want the 30 s that the upstream asked for", wait)
		}
	})
}

// A failure says which request of the provider it was, for whoever asks the provider.
func TestPairKeepsTheUpstreamsRequestID(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, p pair, stream bool) {
		g := newPairRig(t, p)
		if _, err := g.ask(t, g.question("hello"), stream); err != nil {
			t.Fatal(err)
		}
		id := g.sent(t).ID
		if p.to == fakeprovider.Gemini || p.from == fakeprovider.Gemini {
			return // neither tells one
		}
		found := false
		for _, values := range g.seen.headers() {
			for _, v := range values {
				found = found || v == id
			}
		}
		if !found {
			t.Errorf("the provider's request id %s is in none of %v", id, g.seen.headers())
		}
	})
}

func TestPairEndsABrokenStreamWithItsOwnErrorEvent(t *testing.T) {
	t.Parallel()
	for _, fault := range []fakeprovider.Fault{fakeprovider.FaultCut, fakeprovider.FaultEnd, fakeprovider.FaultErrorEvent, fakeprovider.FaultFailed} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			pairs(t, func(t *testing.T, p pair) {
				g := newPairRig(t, p)
				g.provider.Script(fakeprovider.Match{}, fakeprovider.Step{Fault: fault, FaultAfter: 2, Pieces: []string{"one ", "two ", "three ", "four"}})
				r, err := g.ask(t, g.question("hello"), true)
				if err == nil || errors.Is(err, vendorsdk.ErrNoEnd) {
					t.Fatalf("the SDK took %+v for a whole answer (%v)\n%s", r, err, g.seen.body())
				}
				if !strings.Contains(g.seen.body(), "one ") || !strings.Contains(g.seen.body(), "two ") {
					t.Errorf("what came before the break is lost: %s", g.seen.body())
				}
				if n := g.provider.Attempts(); n != 1 {
					t.Errorf("%d attempts, want 1: nothing is generated twice", n)
				}
				if e := g.settled(t, 1)[0]; e.GetOutcome() == ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_COMPLETED {
					t.Errorf("outcome %v of a broken answer", e.GetOutcome())
				}
			})
		})
	}
}

func TestPairTellsAnErrorOfAWholeAnswerThatBroke(t *testing.T) {
	t.Parallel()
	pairs(t, func(t *testing.T, p pair) {
		if p.from == p.to {
			return // is passed on as it comes, and the connection tells
		}
		g := newPairRig(t, p, tryOnce)
		g.provider.Script(fakeprovider.Match{}, fakeprovider.Step{Fault: fakeprovider.FaultCut, Text: "half an answer"})
		_, err := g.ask(t, g.question("hello"), false)
		if got := vendorsdk.Of(p.from).Status(err); got != http.StatusBadGateway {
			t.Errorf("status %d (%v), want 502", got, err)
		}
	})
}

// An upstream that falls silent is given up after the idle time, and the caller told.
func TestPairGivesUpAnUpstreamThatFellSilent(t *testing.T) {
	t.Parallel()
	pairs(t, func(t *testing.T, p pair) {
		g := newPairRig(t, p, idleAfter(300))
		g.provider.Script(fakeprovider.Match{}, fakeprovider.Step{Fault: fakeprovider.FaultStall, FaultAfter: 2, Pieces: []string{"one ", "two ", "three"}})
		r, err := g.ask(t, g.question("hello"), true)
		if err == nil || errors.Is(err, vendorsdk.ErrNoEnd) {
			t.Fatalf("the SDK took %+v for a whole answer (%v)\n%s", r, err, g.seen.body())
		}
		wait, stop := contextWithin(t, time.Second)
		defer stop()
		if err := g.provider.WaitCanceled(wait, 1); err != nil {
			t.Errorf("the call upstream was not ended: %v", err)
		}
	})
}

// A client that leaves ends the call upstream at once, and that is no failure of the
// upstream.
func TestConvE08_CallUpstreamEndsWhenTheClientLeaves(t *testing.T) {
	t.Parallel()
	for _, first := range []int{-1, 2} { // before anything, and after two pieces
		t.Run(fmt.Sprintf("after %d pieces", max(first, 0)), func(t *testing.T) {
			t.Parallel()
			eachWay(t, func(t *testing.T, p pair, stream bool) {
				if !stream && first > 0 {
					return // a whole answer has no pieces
				}
				g := newPairRig(t, p)
				g.provider.Script(fakeprovider.Match{}, fakeprovider.Step{Fault: fakeprovider.FaultStall, FaultAfter: first, Pieces: []string{"some ", "text ", "more"}})
				leave(t, g, stream, first > 0)
			})
		})
	}
}
