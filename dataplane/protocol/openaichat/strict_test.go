package openaichat_test

import (
	"testing"

	"pgregory.net/rapid"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

// drawn are conversations as other protocols tell them: calls one by one or together,
// results in any order, words of the system anywhere.
var drawn = rapid.Custom(func(t *rapid.T) *llm.Request {
	r := &llm.Request{Model: "public"}
	say := func(m llm.Message) { r.Messages = append(r.Messages, m) }
	words := rapid.SampledFrom([]string{"hi", "", " ", "é\n\"x\"", "as JSON"})
	marks := rapid.SampledFrom([]llm.Cache{llm.NoCache, llm.NoCache, llm.CacheDefault, llm.Cache5m})
	part := func() llm.Part {
		p := text(words.Draw(t, "text"))
		if rapid.IntRange(0, 3).Draw(t, "media") == 0 {
			p = media(rapid.SampledFrom([]llm.Media{
				png,
				{Kind: llm.Image, URL: "https://a.example/a.png", Detail: "low"},
				{Kind: llm.Document, MIME: "application/pdf", Data: "JVBERi0="},
				{Kind: llm.Document, Text: "once"},
				{Kind: llm.Audio, MIME: "audio/mpeg", Data: "SUQz"},
				{Kind: llm.Video, MIME: "video/mp4", Data: "AAAA"},
			}).Draw(t, "what"))
		}
		p.Cache = marks.Draw(t, "mark")
		return p
	}
	parts := func() (all []llm.Part) {
		for range rapid.IntRange(0, 3).Draw(t, "parts") {
			all = append(all, part())
		}
		return all
	}
	ids := 0
	for range rapid.IntRange(1, 6).Draw(t, "turns") {
		switch rapid.IntRange(0, 3).Draw(t, "turn") {
		case 0:
			say(llm.Message{Role: llm.RoleSystem, Developer: rapid.Bool().Draw(t, "developer"), Parts: []llm.Part{text(words.Draw(t, "system"))}})
		case 1:
			say(says(llm.RoleUser, parts()...))
		case 2:
			say(says(llm.RoleAssistant, text(words.Draw(t, "answer")), llm.Part{Kind: llm.PartReasoning, Text: "hm"}))
		case 3:
			var calls []string
			together := rapid.Bool().Draw(t, "together")
			m := says(llm.RoleAssistant)
			for range rapid.IntRange(1, 3).Draw(t, "calls") {
				ids++
				id := rapid.StringMatching(`[a-z:.]{1,50}`).Draw(t, "id") + string(rune('0'+ids%10)) + string(rune('0'+ids/10))
				calls = append(calls, id)
				m.Parts = append(m.Parts, call(id, rapid.SampledFrom([]string{"f", "a.b", "ünder"}).Draw(t, "name"), rapid.SampledFrom([]string{"", "{}", `{"x":`}).Draw(t, "arguments")))
				if !together {
					say(m)
					m = says(llm.RoleAssistant)
				}
			}
			if together {
				say(m)
			}
			if rapid.Bool().Draw(t, "note") {
				say(says(llm.RoleSystem, text("note")))
			}
			for _, id := range rapid.Permutation(calls).Draw(t, "order") {
				p := result(id, parts()...)
				p.Result.Error, p.Cache = rapid.Bool().Draw(t, "failed"), marks.Draw(t, "mark of a result")
				say(says(llm.RoleTool, p))
			}
		}
	}
	if rapid.Bool().Draw(t, "tools") {
		yes := true
		r.Tools = []llm.Tool{{Name: "f", Description: "d", Schema: []byte(`{"type":"object","properties":{"a":{"type":"string"}}}`), Strict: &yes}, {Name: "a.b", Cache: llm.CacheDefault}, {Name: "ünder", Namespace: "ns"}}
	}
	r.ToolChoice = rapid.SampledFrom([]llm.ToolChoice{{}, {Mode: llm.ChoiceAuto}, {Mode: llm.ChoiceNone}, {Mode: llm.ChoiceAny}, {Mode: llm.ChoiceTool, Names: []string{"a.b"}}, {Mode: llm.ChoiceAny, Names: []string{"f", "ünder"}}}).Draw(t, "choice")
	r.OneCall = rapid.Bool().Draw(t, "one")
	r.Temperature = rapid.SampledFrom([]llm.Number{"", "0", "1.0"}).Draw(t, "temperature")
	r.TopK = rapid.SampledFrom([]llm.Number{"", "40"}).Draw(t, "top k")
	r.MaxOutputTokens = rapid.Int64Range(0, 100000).Draw(t, "limit")
	r.Stop = rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b"}), 0, 6).Draw(t, "stop")
	r.Reasoning = rapid.SampledFrom([]llm.Reasoning{{}, {Off: true}, {On: true, Show: true}, {Budget: 5000}, {Effort: llm.EffortMax}}).Draw(t, "reasoning")
	r.Format = rapid.SampledFrom([]llm.Format{{}, {Kind: llm.FormatJSON}, {Kind: llm.FormatSchema, Schema: []byte(`{"type":"object","properties":{}}`)}}).Draw(t, "format")
	r.User = rapid.SampledFrom([]string{"", "u", "a very long name of an end user that has more than sixty-four bytes"}).Draw(t, "user")
	return r
})

// Nothing that is sent is refused for its form, whatever another protocol's caller said.
func TestStrictUpstreamTakesWhatIsSent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		r := drawn.Draw(rt, "request")
		c := conversion(rapid.SampledFrom([]protocol.Name{protocol.Anthropic, protocol.Gemini, protocol.OpenAIResponses}).Draw(rt, "from"))
		if c.From == protocol.OpenAIResponses { // whose strict schemas are Chat's, so that a wrong one is the caller's fault
			for i := range r.Tools {
				r.Tools[i].Strict = nil
			}
		}
		c.Options = protocol.Options{"*": rapid.SampledFrom([]protocol.Action{protocol.Drop, protocol.Substitute}).Draw(rt, "action")}
		if c.Options["*"] == protocol.Substitute {
			c.Options = protocol.Options{"*": protocol.Drop, string(c.From) + ".cache_ttl": protocol.Substitute}
		}
		c.MaxOutput, c.Stream = 50000, rapid.Bool().Draw(rt, "stream")
		c.Compat = rapid.SampledFrom([]*configv1.Compat{nil, {NoStrict: true, NoJsonSchema: true, NoSampling: true, NoDeveloperRole: true}}).Draw(rt, "compat")
		accepted(rt, encode(rt, r, c))
	})
}
