package dataplane

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

// exact are arguments that only survive as bytes: an integer above 2^53, a number with
// a zero behind the point, and members that are not in the order of the alphabet.
const exact = `{"zone":"äöü","id":12345678901234567891,"ratio":1.0,"at":{"y":1,"x":[true,null]}}`

// toolOffers are a tool with arguments and one without.
func toolOffers() []offer {
	return []offer{
		{"look_up", `{"type":"object","properties":{"zone":{"type":"string"},"id":{"type":"integer"},"ratio":{"type":"number"},"at":{"type":"object","properties":{"y":{"type":"integer"}}}},"required":["zone"]}`},
		{"now", ""},
	}
}

// carriesExact reports whether JSON text holds the arguments, as an object or as a
// string of JSON.
func carriesExact(body string) bool {
	quoted, err := json.Marshal(exact)
	if err != nil {
		panic(err)
	}
	return strings.Contains(body, exact) || strings.Contains(body, string(quoted))
}

func TestField_F90_ToolsRunInTwoTurnsForEveryPair(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, p pair, stream bool) {
		g := newPairRig(t, p)
		g.provider.Script(fakeprovider.Match{},
			fakeprovider.Step{ToolCalls: []fakeprovider.ToolCall{{Name: "look_up", Arguments: exact}}},
			fakeprovider.Step{Text: "It is open."},
		)
		d := g.talk(t, manner{tools: toolOffers()})
		r, err := d.say(t.Context(), turn{text: "Is it open?"}, stream)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Calls) != 1 || r.Calls[0].Name != "look_up" || r.Stop != words(p.from)[fakeprovider.StopTools] {
			t.Fatalf("got %+v", r)
		}
		// Gemini's SDK reads arguments into maps of float64, so there the wire is looked at.
		if p.from != fakeprovider.Gemini && r.Calls[0].Args != exact || p.from == fakeprovider.Gemini && !carriesExact(g.seen.body()) {
			t.Errorf("arguments came as %s, want %s\n%s", r.Calls[0].Args, exact, g.seen.body())
		}
		r, err = d.say(t.Context(), turn{results: []result{{r.Calls[0].ID, r.Calls[0].Name, "until six"}}}, stream)
		if err != nil {
			t.Fatal(err)
		}
		if r.Text != "It is open." || r.Stop != words(p.from)[fakeprovider.StopEnd] {
			t.Errorf("got %+v", r)
		}
		sent := string(g.sent(t).Body)
		if p.from != fakeprovider.Gemini && !carriesExact(sent) {
			t.Errorf("the call went back upstream with other arguments: %s", sent)
		}
		if !strings.Contains(sent, "until six") {
			t.Errorf("the result is not in %s", sent)
		}
	})
}

func TestPairCallsAToolWithoutArguments(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, p pair, stream bool) {
		g := newPairRig(t, p)
		g.provider.Script(fakeprovider.Match{},
			fakeprovider.Step{Text: "Let me see.", ToolCalls: []fakeprovider.ToolCall{{Name: "now"}}},
			fakeprovider.Step{Text: "Noon."},
		)
		d := g.talk(t, manner{tools: toolOffers()})
		r, err := d.say(t.Context(), turn{text: "What time is it?"}, stream)
		if err != nil {
			t.Fatal(err)
		}
		var args map[string]any
		if len(r.Calls) != 1 || r.Text != "Let me see." {
			t.Fatalf("got %+v", r)
		}
		if a := r.Calls[0].Args; a != "null" && (json.Unmarshal([]byte(a), &args) != nil || len(args) > 0) {
			t.Errorf("arguments %q, want an object without members", a)
		}
		r, err = d.say(t.Context(), turn{results: []result{{r.Calls[0].ID, "now", "12:00"}}}, stream)
		if err != nil {
			t.Fatal(err)
		}
		if r.Text != "Noon." {
			t.Errorf("got %+v", r)
		}
	})
}

func TestPairTakesResultsOfParallelCallsInAnyOrder(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, p pair, stream bool) {
		g := newPairRig(t, p)
		calls := []fakeprovider.ToolCall{
			{Name: "look_up", Arguments: `{"zone":"a"}`}, {Name: "now"}, {Name: "look_up", Arguments: `{"zone":"b"}`},
		}
		g.provider.Script(fakeprovider.Match{},
			fakeprovider.Step{ToolCalls: calls, Interleave: p.to == fakeprovider.Chat},
			fakeprovider.Step{Text: "All known."},
		)
		d := g.talk(t, manner{tools: toolOffers()})
		r, err := d.say(t.Context(), turn{text: "What is where?"}, stream)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Calls) != 3 || r.Calls[0].Name != "look_up" || r.Calls[1].Name != "now" || !strings.Contains(r.Calls[2].Args, `"b"`) {
			t.Fatalf("got %+v", r)
		}
		said := turn{}
		// Without ids nothing but the order tells results of one tool apart.
		named := r.Calls[0].ID != ""
		for i, c := range r.Calls {
			if named && slices.ContainsFunc(r.Calls[:i], func(o vendorCall) bool { return o.ID == c.ID }) {
				t.Errorf("two calls have the id %q", c.ID)
			}
			said.results = append(said.results, result{c.ID, c.Name, "result number " + string(rune('0'+i))})
		}
		if named {
			slices.Reverse(said.results)
		}
		r, err = d.say(t.Context(), said, stream)
		if err != nil {
			t.Fatal(err)
		}
		if r.Text != "All known." {
			t.Errorf("got %+v", r)
		}
		checkPairing(t, g.sent(t))
	})
}

func TestPairForcesAToolAndHoldsItToOneCall(t *testing.T) {
	t.Parallel()
	pairs(t, func(t *testing.T, p pair) {
		g := newPairRig(t, p)
		r, err := g.talk(t, manner{tools: toolOffers(), forced: true}).say(t.Context(), turn{text: "Anything."}, false)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Calls) != 1 {
			t.Errorf("got %+v, want a call: it was demanded", r)
		}
		if p.from == fakeprovider.Gemini { // which has no word for one call at a time
			return
		}
		_, err = g.talk(t, manner{tools: toolOffers(), oneCall: true}).say(t.Context(), turn{text: "Anything."}, false)
		if p.to == fakeprovider.Gemini {
			if err == nil || !strings.Contains(g.seen.body(), "parallel_tool_calls") {
				t.Errorf("%v: %s; want a refusal that names the feature", err, g.seen.body())
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		want := map[fakeprovider.Protocol]string{
			fakeprovider.Chat: `"parallel_tool_calls":false`, fakeprovider.Responses: `"parallel_tool_calls":false`, fakeprovider.Anthropic: `"disable_parallel_tool_use":true`,
		}[p.to]
		if sent := string(g.sent(t).Body); !strings.Contains(sent, want) {
			t.Errorf("%s is not in %s", want, sent)
		}
	})
}
