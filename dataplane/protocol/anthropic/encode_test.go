package anthropic_test

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/anthropic"
)

func asked(m ...llm.Message) *llm.Request { return &llm.Request{MaxOutputTokens: 2048, Messages: m} }

var lookTool = llm.Tool{Name: "look", Schema: []byte(`{"type":"object","properties":{}}`)}

func TestConvT05_CallIDsBecomeOnesTheVendorTakes(t *testing.T) {
	t.Parallel()
	body := encode(t, asked(user(text("hi")), assistant(call("functions.Bash:0", "f", "{}"), call("toolu_ok-1", "f", "{}")),
		result("functions.Bash:0", text("a")), result("toolu_ok-1", text("b"))), conversion(protocol.OpenAIChat))
	id, _ := member(t, body, "messages", 1, "content", 0, "id").(string)
	if !regexp.MustCompile(`^[a-zA-Z0-9_-]+$`).MatchString(id) {
		t.Errorf("the id is sent as %q", id)
	}
	if got := member(t, body, "messages", 2, "content", 0, "tool_use_id"); got != id {
		t.Errorf("the result is of %v, the call is %v", got, id)
	}
	wants(t, body, `"toolu_ok-1"`, "messages", 1, "content", 1, "id")
	accepted(t, body)
}

func TestConvT06_CallIDsMapOneToOneAndBack(t *testing.T) {
	t.Parallel()
	valid := regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	some := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-zA-Z0-9_-]{1,70}`), rapid.StringMatching(`gwx_[a-zA-Z0-9_-]{0,9}`), rapid.StringMatching(`(call|fc)_1[.:]?`))
	rapid.Check(t, func(t *rapid.T) {
		a, b := some.Draw(t, "a"), some.Draw(t, "b")
		safe := anthropic.SafeID(a)
		switch {
		case !valid.MatchString(safe):
			t.Fatalf("%q is sent as %q", a, safe)
		case anthropic.PlainID(safe) != a:
			t.Fatalf("%q is sent as %q, which is read as %q", a, safe, anthropic.PlainID(safe))
		case a != b && safe == anthropic.SafeID(b):
			t.Fatalf("%q and %q are both sent as %q", a, b, safe)
		case valid.MatchString(a) && !strings.HasPrefix(a, "gwx_") && safe != a:
			t.Fatalf("%q is sent as %q, though it could stay", a, safe)
		case valid.MatchString(a) && anthropic.SafeID(anthropic.PlainID(a)) != a && strings.HasPrefix(a, "gwx_") && anthropic.PlainID(a) != a:
			t.Fatalf("%q is read as %q, which is sent otherwise", a, anthropic.PlainID(a))
		}
	})
}

// An id that only looks like a mapped one was made by somebody else.
func TestCallIDsOfOthersAreNotTakenForMapped(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"gwx_YWJj", "gwx_", "gwx_a", "gwx_YWJ", "gwx_é", "toolu_1"} {
		if got := anthropic.PlainID(id); got != id && id != "gwx_" {
			t.Errorf("%q is read as %q", id, got)
		}
		if got := anthropic.PlainID(anthropic.SafeID(id)); got != id {
			t.Errorf("%q comes back as %q", id, got)
		}
	}
}

// Small models call every first call of a turn call_0; the vendor wants each id once.
func TestCallIDsAreSentOnce(t *testing.T) {
	t.Parallel()
	body := encode(t, asked(user(text("hi")), assistant(call("call_0", "f", "{}")), result("call_0", text("a")),
		assistant(call("call_0", "f", "{}")), result("call_0", text("b"))), conversion(protocol.OpenAIChat))
	wants(t, body, `"call_0_2"`, "messages", 3, "content", 0, "id")
	wants(t, body, `"call_0_2"`, "messages", 4, "content", 0, "tool_use_id")
	wants(t, body, `"b"`, "messages", 4, "content", 0, "content", 0, "text")
	accepted(t, body)
}

func TestConvT12_ResultsOfOneTurnAreOneMessage(t *testing.T) {
	t.Parallel()
	body := encode(t, asked(user(text("hi")), assistant(call("a", "f", "{}"), call("b", "f", "{}")), result("b", text("2")), result("a", text("1"))),
		conversion(protocol.OpenAIChat))
	wants(t, body, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"1"}]},
		{"type":"tool_result","tool_use_id":"b","content":[{"type":"text","text":"2"}]}]}`, "messages", 2)
	wants(t, body, "", "messages", 3)
	accepted(t, body)
}

func TestConvT13_ResultsStandBeforeWhatTheUserSays(t *testing.T) {
	t.Parallel()
	body := encode(t, asked(user(text("hi")), assistant(call("a", "f", "{}")), result("a", text("1")), user(text("and?"))), conversion(protocol.OpenAIChat))
	wants(t, body, `[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"1"}]},{"type":"text","text":"and?"}]`, "messages", 2, "content")
	accepted(t, body)
}

func TestUnpairedCallsAreRefused(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]*llm.Request{
		"a call without a result": asked(user(text("hi")), assistant(call("a", "f", "{}")), user(text("go"))),
		"a result without a call": asked(user(text("hi")), result("a", text("1"))),
	} {
		if f := refused(t, r, conversion(protocol.OpenAIChat)); f.Class != fault.InvalidRequest || !strings.Contains(f.Public, `"a"`) {
			t.Errorf("%s: %v %q", name, f.Class, f.Public)
		}
	}
}

func TestConvT17_OneCallAtATimeWritesTheChoiceOut(t *testing.T) {
	t.Parallel()
	r := asked(user(text("hi")))
	r.OneCall, r.Tools = true, []llm.Tool{lookTool}
	body := encode(t, r, conversion(protocol.OpenAIChat))
	wants(t, body, `{"type":"auto","disable_parallel_tool_use":true}`, "tool_choice")
	accepted(t, body)
	r.Tools = nil
	wants(t, encode(t, r, conversion(protocol.OpenAIChat)), "", "tool_choice")
}

func TestConvT18_SchemasOfToolsAreObjects(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, schema, want, lost string }{
		{"none", ``, `{"type":"object","properties":{}}`, ""},
		{"empty", `{}`, `{"type":"object","properties":{}}`, ""},
		{"without a type", `{"properties":{"z":{"type":"string"},"a":{}},"required":["z"]}`, `{"type":"object","properties":{"z":{"type":"string"},"a":{}},"required":["z"]}`, ""},
		{"kept", `{"description":"d","type":"object","$defs":{"x":{"anyOf":[]}}}`, `{"description":"d","type":"object","$defs":{"x":{"anyOf":[]}}}`, ""},
		{"a choice at the top", `{"type":"object","anyOf":[{"required":["a"]}],"properties":{"a":{}}}`, `{"type":"object","properties":{"a":{}}}`, "tool_schema=substitute"},
		{"a list of types", `{"type":["object","null"],"properties":{}}`, `{"type":"object","properties":{}}`, "tool_schema=substitute"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := asked(user(text("hi")))
			r.Tools = []llm.Tool{{Name: "f", Schema: []byte(tc.schema)}}
			c := conversion(protocol.OpenAIChat)
			body := encode(t, r, c)
			if !strings.Contains(body, `"input_schema":`+tc.want) {
				t.Errorf("got %s, want the schema %s", body, tc.want)
			}
			if c.LossyHeader() != tc.lost {
				t.Errorf("lost %q, want %q", c.LossyHeader(), tc.lost)
			}
			accepted(t, body)
		})
	}
}

func TestConvP03_NoEmptyTextBesideCalls(t *testing.T) {
	t.Parallel()
	body := encode(t, asked(user(text("hi")), assistant(text(""), text(" \n"), call("a", "f", "")), result("a")), conversion(protocol.OpenAIChat))
	wants(t, body, `[{"type":"tool_use","id":"a","name":"f","input":{}}]`, "messages", 1, "content")
	wants(t, body, `[{"type":"tool_result","tool_use_id":"a"}]`, "messages", 2, "content")
	accepted(t, body)
}

func TestConvR03_ReasoningOfOthersNeverReachesTheVendor(t *testing.T) {
	t.Parallel()
	theirs := llm.Part{Kind: llm.PartReasoning, Text: "hm", State: &llm.State{Kind: llm.OpenAIEncrypted, Data: "x"}}
	foreign := signed("hm")
	foreign.State.Foreign = true
	redacted := llm.Part{Kind: llm.PartRedacted, State: &llm.State{Kind: llm.OpenAIEncrypted, Data: "x"}}
	for _, p := range []llm.Part{theirs, foreign, redacted} {
		c := conversion(protocol.OpenAIResponses)
		body := encode(t, asked(user(text("hi")), assistant(p, text("ok")), user(text("go"))), c)
		wants(t, body, `[{"type":"text","text":"ok"}]`, "messages", 1, "content")
		wantLost(t, c, "reasoning_state=drop")
		accepted(t, body)
	}
}

func TestConvR04_ReasoningWithoutASignatureStaysOut(t *testing.T) {
	t.Parallel()
	c := conversion(protocol.Gemini)
	body := encode(t, asked(user(text("hi")), assistant(llm.Part{Kind: llm.PartReasoning, Text: "hm"}, text("ok")), user(text("go"))), c)
	wants(t, body, `[{"type":"text","text":"ok"}]`, "messages", 1, "content")
	wantLost(t, c, "reasoning_text=drop")
}

func TestConvR05_ThinkingThatIsNotShownIsKept(t *testing.T) {
	t.Parallel()
	body := encode(t, asked(user(text("hi")), assistant(signed(""), text("ok")), user(text("go"))), conversion(protocol.OpenAIChat))
	wants(t, body, `{"type":"thinking","thinking":"","signature":"c2ln"}`, "messages", 1, "content", 0)
}

func TestConvR06_BudgetIsBelowTheLimit(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name                 string
		budget, limit, most  int64
		wantBudget, wantMost string
		lost                 string
	}{
		{"fits", 2048, 4096, 64000, "2048", "4096", ""},
		{"limit is raised", 8192, 4096, 64000, "8192", "12288", "max_tokens=substitute"},
		{"up to the model's", 8192, 4096, 9000, "8192", "9000", "max_tokens=substitute"},
		{"model's limit unknown", 8192, 4096, 0, "8192", "12288", "max_tokens=substitute"},
		{"smaller than any", 100, 4096, 64000, "1024", "4096", "reasoning_budget=substitute"},
		{"no limit stated", 8192, 0, 64000, "8192", "64000", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := asked(user(text("hi")))
			r.MaxOutputTokens, r.Reasoning.Budget = tc.limit, tc.budget
			c := conversion(protocol.Gemini)
			c.MaxOutput = tc.most
			body := encode(t, r, c)
			wants(t, body, tc.wantBudget, "thinking", "budget_tokens")
			wants(t, body, tc.wantMost, "max_tokens")
			if c.LossyHeader() != tc.lost {
				t.Errorf("lost %q, want %q", c.LossyHeader(), tc.lost)
			}
			accepted(t, body)
		})
	}
	r := asked(user(text("hi")))
	r.Reasoning.Budget = 8192
	c := conversion(protocol.Gemini)
	c.MaxOutput = 8192
	f := refused(t, r, c)
	if f.Class != fault.InvalidRequest || f.Param != "generationConfig.thinkingConfig.thinkingBudget" || !strings.Contains(f.Public, "8192") {
		t.Errorf("%v at %s: %s", f.Class, f.Param, f.Public)
	}
}

// A budget that only stands for an effort gives way to the limit that the caller set.
func TestConvR06_BudgetOfAnEffortKeepsTheCallersLimit(t *testing.T) {
	t.Parallel()
	r := asked(user(text("hi")))
	r.MaxOutputTokens, r.Reasoning.Effort = 4096, llm.EffortHigh
	c := conversion(protocol.OpenAIChat)
	c.Compat = &configv1.Compat{NoAdaptiveThinking: true}
	body := encode(t, r, c)
	wants(t, body, `{"type":"enabled","budget_tokens":2048}`, "thinking")
	wants(t, body, "4096", "max_tokens")
	wants(t, body, "", "output_config")
	accepted(t, body)
}

func TestConvR07_TemperatureIsNotSentWithThinking(t *testing.T) {
	t.Parallel()
	r := asked(user(text("hi")))
	r.Reasoning.Effort, r.Temperature, r.TopP, r.TopK = llm.EffortHigh, "0", "0.5", "3"
	c := conversion(protocol.OpenAIChat)
	body := encode(t, r, c)
	for _, name := range []string{"temperature", "top_p", "top_k"} {
		wants(t, body, "", name)
	}
	wantLost(t, c, "temperature=drop", "top_p=drop", "top_k=drop")
	accepted(t, body)

	c = conversion(protocol.OpenAIChat)
	c.Options = protocol.Options{"openai_chat.temperature": protocol.Reject}
	if f := refused(t, r, c); f.Class != fault.RequestNotSupported || f.Param != "temperature" {
		t.Errorf("%v at %s", f.Class, f.Param)
	}
}

func TestSamplingFollowsTheVendorsRules(t *testing.T) {
	t.Parallel()
	sampling := func(temperature, p, k llm.Number) *llm.Request {
		r := asked(user(text("hi")))
		r.Temperature, r.TopP, r.TopK = temperature, p, k
		return r
	}
	t.Run("as it is written", func(t *testing.T) {
		t.Parallel()
		c := conversion(protocol.Gemini)
		body := encode(t, sampling("1.0", "0.95", "64"), c)
		if !strings.Contains(body, `"temperature":1.0,"top_p":0.95,"top_k":64`) {
			t.Error(body)
		}
		wantLost(t, c)
		accepted(t, body)
	})
	t.Run("defaults are no loss", func(t *testing.T) {
		t.Parallel()
		c := conversion(protocol.Gemini)
		c.Compat = &configv1.Compat{NoSampling: true}
		wants(t, encode(t, sampling("1", "1", ""), c), "", "temperature")
		wantLost(t, c)
	})
	t.Run("no_sampling", func(t *testing.T) {
		t.Parallel()
		c := conversion(protocol.Anthropic)
		c.Compat = &configv1.Compat{NoSampling: true}
		wants(t, encode(t, sampling("0.2", "0.9", "3"), c), "", "temperature")
		wantLost(t, c, "temperature=drop", "top_p=drop", "top_k=drop")
	})
	t.Run("above 1", func(t *testing.T) {
		t.Parallel()
		c := conversion(protocol.OpenAIChat)
		f := refused(t, sampling("1.3", "", ""), c)
		if f.Class != fault.RequestNotSupported || f.Param != "temperature" || !strings.Contains(f.Public, "1.3") {
			t.Errorf("%v at %s: %s", f.Class, f.Param, f.Public)
		}
		c.Options = protocol.Options{"openai_chat.temperature": protocol.Substitute}
		wants(t, encode(t, sampling("1.3", "", ""), c), "1", "temperature")
		wantLost(t, c, "temperature=substitute")
		c = conversion(protocol.OpenAIChat)
		c.Options = protocol.Options{"openai_chat.temperature": protocol.Drop}
		wants(t, encode(t, sampling("1.3", "", ""), c), "", "temperature")
	})
}

func TestConvR02_EffortIsAskedFor(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		effort   llm.Effort
		thinking string
		config   string
		lost     string
	}{
		{llm.EffortHigh, `{"type":"adaptive"}`, `{"effort":"high"}`, ""},
		{llm.EffortXHigh, `{"type":"adaptive"}`, `{"effort":"xhigh"}`, ""},
		{llm.EffortMinimal, `{"type":"adaptive"}`, `{"effort":"low"}`, "reasoning=substitute"},
		{llm.EffortNone, `{"type":"disabled"}`, "", ""},
		{"", "", "", ""},
	} {
		r := asked(user(text("hi")))
		r.Reasoning.Effort = tc.effort
		c := conversion(protocol.OpenAIResponses)
		body := encode(t, r, c)
		wants(t, body, tc.thinking, "thinking")
		wants(t, body, tc.config, "output_config")
		if c.LossyHeader() != tc.lost {
			t.Errorf("%s: lost %q, want %q", tc.effort, c.LossyHeader(), tc.lost)
		}
		accepted(t, body)
	}
}

// In a loop of tools the vendor wants a turn with a budget of thinking to begin with
// its own thinking. Adaptive thinking takes any turn.
func TestThinkingIsLeftOutWhereTheVendorWouldRefuseIt(t *testing.T) {
	t.Parallel()
	loop := func(first ...llm.Part) []llm.Message {
		return []llm.Message{user(text("hi")), assistant(append(first, call("a", "look", "{}"))...), result("a", text("1"))}
	}
	foreign := llm.Part{Kind: llm.PartReasoning, State: &llm.State{Kind: llm.GeminiSignature, Data: "x"}}
	for _, tc := range []struct {
		name     string
		messages []llm.Message
		want     llm.Reasoning
		choice   llm.ToolChoice
		kept     bool
	}{
		{"budget, no thinking in the turn", loop(), llm.Reasoning{Budget: 2000}, llm.ToolChoice{}, false},
		{"budget, thinking of another vendor", loop(foreign), llm.Reasoning{Budget: 2000}, llm.ToolChoice{}, false},
		{"budget, thinking after the text", loop(text("a"), signed("b")), llm.Reasoning{Budget: 2000}, llm.ToolChoice{}, false},
		{"budget, signed thinking", loop(signed("b")), llm.Reasoning{Budget: 2000}, llm.ToolChoice{}, true},
		{"budget, signed thinking behind another's", loop(foreign, signed("b")), llm.Reasoning{Budget: 2000}, llm.ToolChoice{}, true},
		{"budget, no loop", []llm.Message{user(text("hi"))}, llm.Reasoning{Budget: 2000}, llm.ToolChoice{}, true},
		{"adaptive, no thinking in the turn", loop(), llm.Reasoning{Effort: llm.EffortHigh}, llm.ToolChoice{}, true},
		{"a tool must be called", []llm.Message{user(text("hi"))}, llm.Reasoning{Effort: llm.EffortHigh}, llm.ToolChoice{Mode: llm.ChoiceAny}, false},
		{"the answer is begun", []llm.Message{user(text("hi")), assistant(text("So"))}, llm.Reasoning{Effort: llm.EffortHigh}, llm.ToolChoice{}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := asked(tc.messages...)
			r.MaxOutputTokens, r.Reasoning, r.ToolChoice, r.Tools = 8192, tc.want, tc.choice, []llm.Tool{lookTool}
			c := conversion(protocol.OpenAIResponses)
			body := encode(t, r, c)
			if got := member(t, body, "thinking") != nil; got != tc.kept {
				t.Errorf("thinking is asked for: %v, want %v", got, tc.kept)
			}
			if got := strings.Contains(c.LossyHeader(), "reasoning=substitute"); got == tc.kept {
				t.Errorf("lost %q", c.LossyHeader())
			}
			if !strings.Contains(tc.name, "signed") && !strings.Contains(tc.name, "after the text") { // whose signatures are none
				accepted(t, body)
			}
		})
	}
}

func TestOutputLimitIsAlwaysStated(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		stated, most int64
		want, lost   string
	}{
		{100, 64000, "100", ""},
		{0, 64000, "64000", ""},
		{0, 0, "4096", "max_tokens=substitute"},
		{100000, 64000, "64000", "max_tokens=substitute"},
		{100000, 0, "100000", ""},
	} {
		r := asked(user(text("hi")))
		r.MaxOutputTokens = tc.stated
		c := conversion(protocol.OpenAIChat)
		c.MaxOutput = tc.most
		wants(t, encode(t, r, c), tc.want, "max_tokens")
		if c.LossyHeader() != tc.lost {
			t.Errorf("%d of %d: lost %q, want %q", tc.stated, tc.most, c.LossyHeader(), tc.lost)
		}
	}
}

func TestLateSystemMessagesAreWordsOfTheUser(t *testing.T) {
	t.Parallel()
	system := func(s string) llm.Message { return llm.Message{Role: llm.RoleSystem, Parts: []llm.Part{text(s)}} }
	r := asked(system("A"), user(text("hi")), assistant(call("a", "f", "{}")), system("B"), result("a", text("1")), user(text("go")))
	c := conversion(protocol.OpenAIResponses)
	body := encode(t, r, c)
	wants(t, body, `[{"type":"text","text":"A"}]`, "system")
	wants(t, body, `[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"1"}]},
		{"type":"text","text":"<system>\nB\n</system>"},{"type":"text","text":"go"}]`, "messages", 2, "content")
	wantLost(t, c, "system_position=substitute")
	accepted(t, body)

	c = conversion(protocol.OpenAIResponses)
	c.Options = protocol.Options{"openai_responses.system_position": protocol.Drop}
	if body := encode(t, r, c); strings.Contains(body, `"B"`) || strings.Contains(body, "<system>") {
		t.Errorf("sent in spite of drop: %s", body)
	}

	// The callers of this protocol keep theirs where they are, and need the beta for it.
	c = conversion(protocol.Anthropic)
	wants(t, encode(t, r, c), `{"role":"system","content":[{"type":"text","text":"B"}]}`, "messages", 2)
	wantLost(t, c)
	if _, h := anthropic.New().UpstreamTarget(r, c); h["Anthropic-Beta"] != "mid-conversation-system-2026-04-07" {
		t.Errorf("headers %v", h)
	}
}

func TestUserHasTheFirstTurn(t *testing.T) {
	t.Parallel()
	body := encode(t, asked(assistant(text("Hello!")), user(text("hi"))), conversion(protocol.OpenAIChat))
	wants(t, body, `"user"`, "messages", 0, "role")
	wants(t, body, `[{"type":"text","text":"Hello!"}]`, "messages", 1, "content")
	accepted(t, body)

	c := conversion(protocol.OpenAIChat)
	body = encode(t, asked(llm.Message{Role: llm.RoleSystem, Parts: []llm.Part{text("Say hi.")}}), c)
	wants(t, body, `[{"role":"user","content":[{"type":"text","text":"Say hi."}]}]`, "messages")
	wantLost(t, c, "system_position=substitute")
	accepted(t, body)

	if f := refused(t, asked(user(text(" "))), conversion(protocol.OpenAIChat)); f.Class != fault.InvalidRequest {
		t.Error(f)
	}
}

// Where nothing of a turn is left, its neighbours are one message.
func TestNeighboursOfATurnThatIsLeftOutAreOneMessage(t *testing.T) {
	t.Parallel()
	body := encode(t, asked(user(text("hi")), assistant(llm.Part{Kind: llm.PartReasoning, Text: "hm"}), user(text("go"))), conversion(protocol.OpenAIChat))
	wants(t, body, `[{"role":"user","content":[{"type":"text","text":"hi"},{"type":"text","text":"go"}]}]`, "messages")
	accepted(t, body)

	c := conversion(protocol.OpenAIChat)
	c.Options = protocol.Options{"*": protocol.Drop}
	body = encode(t, asked(user(text("hi")), assistant(llm.Part{Kind: llm.PartReasoning, Text: "hm"}),
		user(llm.Part{Kind: llm.PartMedia, Media: &llm.Media{MIME: "image/bmp", Data: "Qk0="}})), c)
	wants(t, body, `[{"role":"user","content":[{"type":"text","text":"hi"}]}]`, "messages")
}

// The vendor refuses an answer that is begun with space at its end.
func TestBegunAnswerHasNoSpaceAtItsEnd(t *testing.T) {
	t.Parallel()
	body := encode(t, asked(user(text("hi")), assistant(text("So: \n"))), conversion(protocol.OpenAIChat))
	wants(t, body, `[{"type":"text","text":"So:"}]`, "messages", 1, "content")
	accepted(t, body)
}

func TestAtMostFourMarksOfTheCacheAreKept(t *testing.T) {
	t.Parallel()
	mark := func(s string, c llm.Cache) llm.Part { return llm.Part{Text: s, Cache: c} }
	res := result("a", text("1"))
	res.Parts[0].Cache = llm.CacheDefault
	r := asked(llm.Message{Role: llm.RoleSystem, Parts: []llm.Part{mark("S", llm.Cache1h)}}, user(mark("hi", llm.Cache5m)),
		assistant(call("a", "look", "{}")), res, user(mark("x", llm.CacheDefault), mark("y", llm.CacheDefault)))
	r.Tools = []llm.Tool{lookTool}
	c := conversion(protocol.OpenAIChat)
	body := encode(t, r, c)
	if n := strings.Count(body, "cache_control"); n != 4 {
		t.Errorf("%d marks in %s", n, body)
	}
	wants(t, body, "", "system", 0, "cache_control")
	wants(t, body, `{"type":"ephemeral","ttl":"5m"}`, "messages", 0, "content", 0, "cache_control")
	wants(t, body, `{"type":"ephemeral"}`, "messages", 2, "content", 0, "cache_control")
	wantLost(t, c, "cache_control=drop")
	accepted(t, body)
}

func TestMediaThatTheVendorTakes(t *testing.T) {
	t.Parallel()
	media := func(m llm.Media) llm.Part { return llm.Part{Kind: llm.PartMedia, Media: &m} }
	for _, tc := range []struct {
		name  string
		media llm.Media
		want  string // the block, or what is refused
	}{
		{"png", llm.Media{MIME: "image/png", Data: "iVBORw0KGgo="}, `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}`},
		{"jpg", llm.Media{MIME: "image/jpg", Data: "/9j/"}, `{"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":"/9j/"}}`},
		{"type found", llm.Media{Data: "R0lGODlh"}, `{"type":"image","source":{"type":"base64","media_type":"image/gif","data":"R0lGODlh"}}`},
		{"url", llm.Media{URL: "https://a.example/x.png"}, `{"type":"image","source":{"type":"url","url":"https://a.example/x.png"}}`},
		{"gs url", llm.Media{URL: "gs://a/x.png"}, "image_url"},
		{"bmp", llm.Media{MIME: "image/bmp", Data: "Qk0="}, "image"},
		{"file", llm.Media{FileID: "file-1"}, "file_id"},
		{"pdf", llm.Media{Kind: llm.Document, MIME: "application/pdf", Data: "JVBERi0=", Name: "a.pdf"}, `{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0="},"title":"a.pdf"}`},
		{"text", llm.Media{Kind: llm.Document, MIME: "text/csv", Data: "YSxi"}, `{"type":"document","source":{"type":"text","media_type":"text/plain","data":"a,b"}}`},
		{"plain", llm.Media{Kind: llm.Document, Text: "a", Context: "c", Cite: true}, `{"type":"document","source":{"type":"text","media_type":"text/plain","data":"a"},"context":"c","citations":{"enabled":true}}`},
		{"docx", llm.Media{Kind: llm.Document, MIME: "application/msword", Data: "YSxi"}, "document"},
		{"audio", llm.Media{Kind: llm.Audio, MIME: "audio/wav", Data: "YSxi"}, "audio_input"},
		{"video", llm.Media{Kind: llm.Video, URL: "https://a.example/v"}, "video_input"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := asked(user(media(tc.media), text("?")))
			if !strings.HasPrefix(tc.want, "{") {
				f := refused(t, r, conversion(protocol.OpenAIChat))
				if f.Class != fault.RequestNotSupported || !strings.Contains(f.Public, "."+tc.want+"=drop") {
					t.Errorf("%v: %s", f.Class, f.Public)
				}
				return
			}
			body := encode(t, r, conversion(protocol.OpenAIChat))
			wants(t, body, tc.want, "messages", 0, "content", 0)
			accepted(t, body)

			r = asked(user(text("hi")), assistant(call("a", "f", "{}")), result("a", media(tc.media)))
			body = encode(t, r, conversion(protocol.OpenAIChat))
			wants(t, body, tc.want, "messages", 2, "content", 0, "content", 0)
			accepted(t, body)
		})
	}
}

func TestToolsHaveNamesThatTheVendorTakes(t *testing.T) {
	t.Parallel()
	r := asked(user(text("hi")), assistant(llm.Part{Kind: llm.PartCall, Call: &llm.Call{ID: "a", Namespace: "mcp__files__", Name: "read.all"}}), result("a", text("1")))
	r.Tools = []llm.Tool{{Namespace: "mcp__files__", Name: "read.all"}}
	r.ToolChoice = llm.ToolChoice{Mode: llm.ChoiceTool, Names: []string{"read.all"}}
	c := conversion(protocol.OpenAIResponses)
	body := encode(t, r, c)
	name := member(t, body, "tools", 0, "name")
	if got := member(t, body, "messages", 1, "content", 0, "name"); got != name {
		t.Errorf("the call is of %v, the tool is %v", got, name)
	}
	if got := member(t, body, "tool_choice", "name"); got != name {
		t.Errorf("the choice is %v, the tool is %v", got, name)
	}
	accepted(t, body)

	a, f := anthropic.New().DecodeAnswer([]byte(`{"content":[{"type":"tool_use","id":"x","name":"`+name.(string)+`","input":{}}],"stop_reason":"tool_use"}`), c)
	if f != nil || a.Parts[0].Call.Namespace != "mcp__files__" || a.Parts[0].Call.Name != "read.all" {
		t.Errorf("the answer calls %+v (%v)", a.Parts[0].Call, f)
	}
}

func TestAllowedToolsAloneAreOffered(t *testing.T) {
	t.Parallel()
	r := asked(user(text("hi")))
	r.Tools = []llm.Tool{{Name: "a"}, {Name: "b"}}
	r.ToolChoice = llm.ToolChoice{Mode: llm.ChoiceAny, Names: []string{"b"}}
	c := conversion(protocol.OpenAIChat)
	body := encode(t, r, c)
	wants(t, body, `"b"`, "tools", 0, "name")
	wants(t, body, "", "tools", 1)
	wants(t, body, `{"type":"any"}`, "tool_choice")
	wantLost(t, c, "allowed_tools=substitute")
	accepted(t, body)
}

func TestFieldsOfOthersFollowTheTable(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		feature llm.Feature
		raw     string
		reject  bool
		lost    string
		at      string // member that is written
		want    string
	}{
		{llm.FeatureStore, "false", false, "", "", ""},
		{llm.FeatureStore, "true", true, "", "", ""},
		{llm.FeatureServiceTier, `"auto"`, false, "", "service_tier", `"auto"`},
		{llm.FeatureServiceTier, `"default"`, false, "", "service_tier", `"standard_only"`},
		{llm.FeatureServiceTier, `"flex"`, true, "", "", ""},
		{llm.FeatureTruncation, `"disabled"`, false, "", "", ""},
		{llm.FeatureTruncation, `"auto"`, true, "", "", ""},
		{llm.FeatureChoices, "2", true, "", "", ""},
		{llm.FeatureSeed, "7", false, "seed=drop", "", ""},
		{llm.FeaturePenalty, "0.5", false, "penalty=drop", "", ""},
		{llm.FeatureLogitBias, `{"1":2}`, false, "logit_bias=drop", "", ""},
		{llm.FeatureLogprobs, "true", true, "", "", ""},
		{llm.FeatureSafety, "[]", true, "", "", ""},
		{llm.FeatureStoredState, `"resp_1"`, true, "", "", ""},
		{llm.FeatureLegacyFunctions, `[]`, false, "functions=substitute", "", ""},
	} {
		r := asked(user(text("hi")))
		r.Extras = []llm.Extra{{Feature: tc.feature, Field: "the_field", Raw: []byte(tc.raw)}}
		c := conversion(protocol.OpenAIChat)
		if tc.reject {
			if f := refused(t, r, c); f.Class != fault.RequestNotSupported || f.Param != "the_field" {
				t.Errorf("%s %s: %v at %s", tc.feature, tc.raw, f.Class, f.Param)
			}
			continue
		}
		body := encode(t, r, c)
		if tc.at != "" {
			wants(t, body, tc.want, tc.at)
		}
		if c.LossyHeader() != tc.lost {
			t.Errorf("%s %s: lost %q, want %q", tc.feature, tc.raw, c.LossyHeader(), tc.lost)
		}
		accepted(t, body)
	}
}

func TestFormsOfAnswers(t *testing.T) {
	t.Parallel()
	no := false
	r := asked(user(text("hi")))
	r.Format = llm.Format{Kind: llm.FormatSchema, Name: "n", Schema: []byte(`{"type":"object","properties":{}}`), Strict: &no}
	c := conversion(protocol.OpenAIChat)
	wants(t, encode(t, r, c), `{"format":{"type":"json_schema","schema":{"type":"object","properties":{}}}}`, "output_config")
	wantLost(t, c, "schema_strict=drop")

	r.Format = llm.Format{Kind: llm.FormatJSON}
	if f := refused(t, r, conversion(protocol.OpenAIChat)); f.Param != "response_format" {
		t.Errorf("at %s: %s", f.Param, f.Public)
	}
	c = conversion(protocol.OpenAIChat)
	c.Options = protocol.Options{"openai_chat.json_object": protocol.Substitute}
	if got := member(t, encode(t, r, c), "system", 0, "text"); !strings.Contains(got.(string), "JSON") {
		t.Errorf("the instruction is %v", got)
	}
}

func TestArgumentsThatAreNoObjectAreRefused(t *testing.T) {
	t.Parallel()
	for _, args := range []string{`{"a":`, `[1]`, `"x"`, `{} {}`} {
		r := asked(user(text("hi")), assistant(call("a", "look", args)), result("a", text("1")))
		if f := refused(t, r, conversion(protocol.OpenAIChat)); f.Class != fault.InvalidRequest || !strings.Contains(f.Public, "look") {
			t.Errorf("%s: %v %s", args, f.Class, f.Public)
		}
	}
	body := encode(t, asked(user(text("hi")), assistant(call("a", "f", ` {"z":1.0,"a":12345678901234567890} `)), result("a", text("1"))), conversion(protocol.OpenAIChat))
	if !strings.Contains(body, `"input":{"z":1.0,"a":12345678901234567890}`) {
		t.Errorf("numbers or order changed: %s", body)
	}
}

func TestServersOfToolsNeedADeclaredSubstitute(t *testing.T) {
	t.Parallel()
	r := asked(user(text("hi")))
	r.Tools = []llm.Tool{{Server: "web_search", Native: []byte(`{"type":"web_search"}`)}}
	if f := refused(t, r, conversion(protocol.OpenAIResponses)); f.Class != fault.RequestNotSupported {
		t.Error(f)
	}
	c := conversion(protocol.OpenAIResponses)
	c.Options = protocol.Options{"openai_responses.web_search": protocol.Substitute}
	body := encode(t, r, c)
	wants(t, body, `[{"type":"web_search_20250305","name":"web_search"}]`, "tools")
	accepted(t, body)
}

func TestVersionFitsWhatIsSent(t *testing.T) {
	t.Parallel()
	codec := anthropic.New()
	for _, tc := range []struct {
		from         protocol.Name
		caller, most string
		want         string
	}{
		{protocol.OpenAIChat, "", "", "2023-06-01"},
		{protocol.Anthropic, "2026-10-21", "", "2026-10-21"},
		{protocol.Anthropic, "2026-10-21", "2023-06-01", "2023-06-01"},
		{protocol.Anthropic, "", "", "2023-06-01"},
	} {
		c := conversion(tc.from)
		c.Version, c.Stream, c.Compat = tc.caller, true, &configv1.Compat{MaxAnthropicVersion: tc.most}
		target, h := codec.UpstreamTarget(asked(user(text("hi"))), c)
		if h["Anthropic-Version"] != tc.want || h["Anthropic-Beta"] != "" {
			t.Errorf("%+v: headers %v", tc, h)
		}
		if path, _ := codec.UpstreamURL(target, "m"); path != "/v1/messages" || !target.Stream || target.Op != protocol.OpGenerate {
			t.Errorf("target %+v", target)
		}
	}
}
