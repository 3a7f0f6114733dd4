package dataplane

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

// thinkingModelOf signs its reasoning in each protocol that has signatures.
func thinkingModelOf(p fakeprovider.Protocol) rigOption {
	if p == fakeprovider.Gemini {
		return upstreamModel("gemini-3-pro")
	}
	return upstreamModel("fake-large")
}

// stateForm finds the opaque state in an answer of each protocol.
var stateForm = map[fakeprovider.Protocol]*regexp.Regexp{
	fakeprovider.Gemini:    regexp.MustCompile(`"thoughtSignature":"([^"]+)"`),
	fakeprovider.Anthropic: regexp.MustCompile(`"signature":"([^"]+)"`),
	fakeprovider.Responses: regexp.MustCompile(`"encrypted_content":"([^"]+)"`),
}

// keepsState reports whether the reasoning state of an upstream can travel through
// callers of a protocol: in their own field for such things, or inside ids of calls.
func (p pair) keepsState() bool {
	switch {
	case p.to == fakeprovider.Chat: // which has none
		return false
	case p.from == fakeprovider.Chat:
		return p.to == fakeprovider.Gemini
	}
	return true
}

// loop is what the model does in a loop of tools: it thinks and calls, twice, and ends.
func loop() []fakeprovider.Step {
	return []fakeprovider.Step{
		{Reasoning: "first the zone", ToolCalls: []fakeprovider.ToolCall{{Name: "look_up", Arguments: `{"zone":"a"}`}, {Name: "now"}}},
		{Reasoning: "then the hour", Text: "One more.", ToolCalls: []fakeprovider.ToolCall{{Name: "now"}}},
		{Reasoning: "now I know", Text: "It is open."},
		{Reasoning: "as I said", Text: "Still open."},
	}
}

func TestConvR08_PairCarriesReasoningStateThroughALoopOfTools(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, p pair, stream bool) {
		g := newPairRig(t, p, thinkingModelOf(p.to))
		g.provider.Script(fakeprovider.Match{}, loop()...)
		d := g.talk(t, manner{tools: toolOffers(), think: true, limit: 8000})
		said := turn{text: "Is it open?"}
		for i := range loop() {
			r, err := d.say(t.Context(), said, stream)
			if err != nil {
				t.Fatalf("turn %d: %v", i, err)
			}
			if i > 0 {
				checkState(t, g, i)
			}
			said = turn{text: "Really?"}
			if len(r.Calls) > 0 {
				said = turn{}
			}
			for _, c := range r.Calls {
				said.results = append(said.results, result{c.ID, c.Name, "yes"})
			}
			if want := loop()[i].Text; r.Text != want || len(r.Calls) != len(loop()[i].ToolCalls) {
				t.Fatalf("turn %d: got %+v", i, r)
			}
			if got, want := r.Reasoning, loop()[i].Reasoning; got != want && !strings.Contains(g.seen.head("X-Gateway-Lossy"), "reasoning") {
				t.Errorf("turn %d: reasoning %q, want %q; nothing says that it was lost", i, got, want)
			}
		}
	})
}

// checkState looks whether the call of turn i brought back what the upstream gave out
// with the answer before it.
func checkState(t *testing.T, g *pairRig, i int) {
	t.Helper()
	sent := string(g.sent(t).Body)
	form := stateForm[g.to]
	if form == nil {
		return
	}
	given := form.FindStringSubmatch(g.seen.answer(i - 1))
	if given == nil {
		return // nothing was thought, or nothing asked for
	}
	back := strings.Contains(sent, given[1])
	inLoop := i < 3 // later turns may do without
	switch {
	case g.keepsState() && inLoop && !back:
		t.Errorf("turn %d: the state %s… did not come back in %s", i, given[1][:16], sent)
	case !g.keepsState() && back:
		t.Errorf("turn %d: state came back through a protocol that has no place for it: %s", i, sent)
	}
}

func TestPairCarriesRedactedThinking(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, p pair, stream bool) {
		if p.to != fakeprovider.Anthropic {
			return // nobody else has it
		}
		g := newPairRig(t, p)
		g.provider.Script(fakeprovider.Match{},
			fakeprovider.Step{RedactedThinking: true, ToolCalls: []fakeprovider.ToolCall{{Name: "now"}}},
			fakeprovider.Step{Text: "Noon."})
		d := g.talk(t, manner{tools: toolOffers(), think: true, limit: 8000})
		r, err := d.say(t.Context(), turn{text: "What time is it?"}, stream)
		if err != nil {
			t.Fatal(err)
		}
		if r, err = d.say(t.Context(), turn{results: []result{{r.Calls[0].ID, "now", "12:00"}}}, stream); err != nil || r.Text != "Noon." {
			t.Fatalf("got %+v (%v)", r, err)
		}
		if sent := string(g.sent(t).Body); p.keepsState() != strings.Contains(sent, `"type":"redacted_thinking"`) {
			t.Errorf("sent %s", sent)
		}
	})
}

// A conversation that moves to an upstream of another protocol, the caller's own
// included, takes what was said along, and no state that the new one did not give out.
func TestConvR03R04_PairLeavesForeignStateBehind(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, p pair, stream bool) {
		for _, next := range allProtocols() {
			if next != p.to {
				moves(t, p, next, stream)
			}
		}
	})
}

// moves begins a loop of tools with one upstream and ends it with one of another
// protocol.
func moves(t *testing.T, p pair, next fakeprovider.Protocol, stream bool) {
	t.Helper()
	g, other := newPairRig(t, p, thinkingModelOf(p.to)), newPairRig(t, pair{p.from, next}, thinkingModelOf(next))
	g.provider.Script(fakeprovider.Match{}, loop()[:1]...)
	other.provider.Script(fakeprovider.Match{}, loop()[1:]...)
	d := g.talk(t, manner{tools: toolOffers(), think: true, limit: 8000})
	r, err := d.say(t.Context(), turn{text: "Is it open?"}, stream)
	if err != nil {
		t.Fatal(err)
	}
	address, err := url.Parse(other.url)
	if err != nil {
		t.Fatal(err)
	}
	g.seen.next = movedTo(address.Host)
	said := turn{}
	for _, c := range r.Calls {
		said.results = append(said.results, result{c.ID, c.Name, "yes"})
	}
	if r, err = d.say(t.Context(), said, stream); err != nil {
		t.Errorf("moved to %s: %v", next, err)
		return
	}
	if r.Text != "One more." || len(r.Calls) != 1 {
		t.Errorf("moved to %s: got %+v", next, r)
	}
	if given := stateForm[p.to]; given != nil {
		if m := given.FindStringSubmatch(g.seen.answer(0)); m != nil && strings.Contains(string(other.sent(t).Body), m[1]) {
			t.Errorf("moved to %s: state of %s went along: %s", next, p.to, other.sent(t).Body)
		}
	}
}

// movedTo sends every request to another host.
type movedTo string

// RoundTrip implements http.RoundTripper.
func (e movedTo) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Host, r.Host = string(e), string(e)
	return http.DefaultTransport.RoundTrip(r)
}

func TestPairAsksForNoReasoningWhereNoneIsWanted(t *testing.T) {
	t.Parallel()
	pairs(t, func(t *testing.T, p pair) {
		g := newPairRig(t, p)
		if _, err := g.talk(t, manner{noThought: true}).say(t.Context(), turn{text: "Hello."}, false); err != nil {
			t.Fatal(err)
		}
		want := map[fakeprovider.Protocol]string{
			fakeprovider.Chat: `"reasoning_effort":"none"`, fakeprovider.Responses: `"effort":"none"`,
			fakeprovider.Anthropic: `"thinking":{"type":"disabled"}`, fakeprovider.Gemini: `"thinkingLevel":"MINIMAL"`, // the least it has
		}[p.to]
		if p.from == p.to && p.to == fakeprovider.Gemini {
			want = `"thinkingBudget":0`
		}
		if sent := string(g.sent(t).Body); !strings.Contains(sent, want) {
			t.Errorf("%s is not in %s", want, sent)
		}
	})
}
