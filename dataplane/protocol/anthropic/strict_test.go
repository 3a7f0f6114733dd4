package anthropic_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/anthropic"
)

// conversations are what callers of other protocols send: calls are answered, if not at
// once, and all else is as it comes.
var conversations = rapid.Custom(func(t *rapid.T) []llm.Message {
	words := rapid.OneOf(rapid.SampledFrom([]string{"", " ", "hi", "a\nb ", "\u00a0"}), rapid.StringN(0, 12, -1))
	state := rapid.SampledFrom([]*llm.State{nil, {Kind: llm.OpenAIEncrypted, Data: "x"}, {Kind: llm.AnthropicSignature, Data: "x", Foreign: true}})
	mark := rapid.SampledFrom([]llm.Cache{llm.NoCache, llm.NoCache, llm.CacheDefault, llm.Cache1h})
	ids := rapid.SampledFrom([]string{"a", "call_0", "functions.f:0", "", "é"})
	say := func(name string) llm.Part { return llm.Part{Text: words.Draw(t, name), Cache: mark.Draw(t, "mark")} }
	var list []llm.Message
	for range rapid.IntRange(1, 7).Draw(t, "messages") {
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			list = append(list, llm.Message{Role: llm.RoleSystem, Parts: []llm.Part{say("system")}})
		case 1:
			list = append(list, user(say("user"), say("more")))
		case 2:
			list = append(list, assistant(llm.Part{Kind: llm.PartReasoning, Text: words.Draw(t, "thought"), State: state.Draw(t, "state")}, say("answer"), say("more")))
		case 3:
			turn, results := assistant(say("before")), llm.Message{Role: llm.RoleTool}
			for _, id := range rapid.SliceOfNDistinct(ids, 1, 3, rapid.ID).Draw(t, "ids") {
				turn.Parts = append(turn.Parts, call(id, rapid.SampledFrom([]string{"look", "files.read"}).Draw(t, "tool"), rapid.SampledFrom([]string{"", "{}", `{"a":1}`}).Draw(t, "args")))
				results.Parts = append(results.Parts, llm.Part{
					Kind: llm.PartResult, Cache: mark.Draw(t, "mark"),
					Result: &llm.Result{CallID: id, Parts: []llm.Part{say("result")}, Error: rapid.Bool().Draw(t, "failed")},
				})
			}
			list = append(list, turn)
			if rapid.Bool().Draw(t, "between") {
				list = append(list, llm.Message{Role: llm.RoleSystem, Parts: []llm.Part{say("between")}})
			}
			list = append(list, results)
		}
	}
	return list
})

// What a converter sends is never refused by a vendor who refuses what the real one does.
func TestNothingThatIsSentIsRefused(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		r := &llm.Request{Messages: conversations.Draw(rt, "conversation")}
		r.MaxOutputTokens = rapid.SampledFrom([]int64{0, 1, 1000, 5000, 100000}).Draw(rt, "limit")
		r.Temperature = rapid.SampledFrom([]llm.Number{"", "0", "1", "0.7"}).Draw(rt, "temperature")
		r.TopP = rapid.SampledFrom([]llm.Number{"", "0.5", "0.99", "1"}).Draw(rt, "top_p")
		r.TopK = rapid.SampledFrom([]llm.Number{"", "40"}).Draw(rt, "top_k")
		r.Stop = rapid.SliceOfN(rapid.SampledFrom([]string{"", "\n", "END"}), 0, 2).Draw(rt, "stop")
		r.Reasoning.Effort = rapid.SampledFrom([]llm.Effort{"", llm.EffortNone, llm.EffortMinimal, llm.EffortHigh, llm.EffortMax}).Draw(rt, "effort")
		r.Reasoning.Budget = rapid.SampledFrom([]int64{0, 0, -1, 1, 2000, 30000}).Draw(rt, "budget")
		r.Reasoning.Show = rapid.Bool().Draw(rt, "show")
		r.OneCall = rapid.Bool().Draw(rt, "one")
		r.Tools = rapid.SampledFrom([][]llm.Tool{nil, {lookTool}, {lookTool, {Name: "files.read", Schema: []byte(`{"anyOf":[{"type":"object"}]}`), Cache: llm.Cache1h}}}).Draw(rt, "tools")
		r.ToolChoice = rapid.SampledFrom([]llm.ToolChoice{{}, {Mode: llm.ChoiceAny}, {Mode: llm.ChoiceNone}, {Mode: llm.ChoiceTool, Names: []string{"look"}}, {Mode: llm.ChoiceAuto, Names: []string{"look"}}}).Draw(rt, "choice")
		from := rapid.SampledFrom([]protocol.Name{protocol.OpenAIChat, protocol.OpenAIResponses, protocol.Gemini}).Draw(rt, "from")
		c := conversion(from)
		c.MaxOutput = rapid.SampledFrom([]int64{0, 64000, 32001}).Draw(rt, "most")
		c.Options = protocol.Options{"*": protocol.Drop}
		out, f := anthropic.New().EncodeRequest(r, c)
		if f != nil {
			rt.Skip(f.Public)
		}
		accepted(rt, string(out))
	})
}
