package anthropic_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/anthropic"
)

func TestResultsAreToldApartFromWhatTheUserSays(t *testing.T) {
	t.Parallel()
	r := decode(t, `{"max_tokens":9,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"gwx_Zm46MA","is_error":true,"content":"no"},
		{"type":"text","text":"go"},{"type":"tool_result","tool_use_id":"b"}]}]}`)
	want := []llm.Message{
		{Role: llm.RoleTool, Parts: []llm.Part{{Kind: llm.PartResult, Result: &llm.Result{CallID: "fn:0", Error: true, Parts: []llm.Part{{Text: "no"}}}}}},
		{Role: llm.RoleUser, Parts: []llm.Part{{Text: "go"}}},
		{Role: llm.RoleTool, Parts: []llm.Part{{Kind: llm.PartResult, Result: &llm.Result{CallID: "b"}}}},
	}
	if diff := cmp.Diff(want, r.Messages); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestSystemPromptStandsFirstWhereverItIsWritten(t *testing.T) {
	t.Parallel()
	r := decode(t, `{"messages":[{"role":"user","content":"hi"},{"role":"system","content":"late"}],"max_tokens":1,"system":"first"}`)
	var got []string
	for _, m := range r.Messages {
		got = append(got, m.Role.String()+" "+m.Parts[0].Text)
	}
	if want := []string{"system first", "user hi", "system late"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestThinkingIsUnderstood(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]llm.Reasoning{
		`"thinking":{"type":"adaptive","display":"summarized"}`:                                 {On: true, Show: true},
		`"thinking":{"type":"enabled","budget_tokens":2000}`:                                    {Budget: 2000},
		`"thinking":{"type":"disabled"},"output_config":{"effort":"low"}`:                       {Off: true, Effort: llm.EffortLow},
		`"thinking":{"type":"between_tools"}`:                                                   {On: true},
		`"thinking":null`:                                                                       {},
		`"output_config":{"effort":"xhigh"},"thinking":{"type":"adaptive","display":"omitted"}`: {On: true, Hide: true, Effort: llm.EffortXHigh},
	} {
		if r := decode(t, `{"max_tokens":9,"messages":[],`+body+`}`); r.Reasoning != want {
			t.Errorf("%s: got %+v, want %+v", body, r.Reasoning, want)
		}
	}
}

// A request that only fills the cache must not become one for an answer.
func TestNoTokensAtAllIsNoLimit(t *testing.T) {
	t.Parallel()
	r := decode(t, `{"max_tokens":0,"messages":[{"role":"user","content":"hi"}]}`)
	if e, ok := r.Extra(llm.FeatureCachedContent); !ok || e.Field != "max_tokens" || string(e.Raw) != "0" {
		t.Errorf("extras %+v", r.Extras)
	}
}

func TestUnknownFieldsAreNamed(t *testing.T) {
	t.Parallel()
	r := decode(t, `{"max_tokens":9,"foo":1,"metadata":{"user_id":"u","bar":2},"messages":[{"role":"user","x":1,"content":[{"type":"text","text":"hi","y":{}}]}],
		"tools":[{"name":"f","input_schema":{"type":"object","anything":1},"z":1},{"type":"web_search_20250305","name":"web_search","of_its_own":1}]}`)
	slices.Sort(r.Unknown)
	want := []string{"foo", "messages[].content[].y", "messages[].x", "metadata.bar", "tools[].z"}
	if !slices.Equal(r.Unknown, want) {
		t.Errorf("got %q, want %q", r.Unknown, want)
	}
	c := conversion(protocol.OpenAIChat)
	c.Options = protocol.Options{"*": protocol.Drop}
	encode(t, r, c)
	if !strings.Contains(c.LossyHeader(), "unknown_field=drop") {
		t.Errorf("lost %q", c.LossyHeader())
	}
}

func TestWrongTypesSayWhereAndWhat(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ body, param, says string }{
		{`[]`, "", "JSON object"},
		{`{"max_tokens":"9"}`, "max_tokens", "whole number"},
		{`{"max_tokens":-1}`, "max_tokens", "whole number"},
		{`{"temperature":"hot"}`, "temperature", "a number"},
		{`{"stream":1}`, "stream", "true or false"},
		{`{"messages":{}}`, "messages", "a list"},
		{`{"messages":[1]}`, "messages[0]", "an object"},
		{`{"messages":[{"role":"user","content":"a"},{"role":"tool","content":"a"}]}`, "messages[1].role", `"user", "assistant" or "system"`},
		{`{"messages":[{"role":"user"}]}`, "messages[0].content", "missing"},
		{`{"messages":[{"role":"user","content":1}]}`, "messages[0].content", "a string or a list"},
		{`{"messages":[{"role":"user","content":[{"text":"a"}]}]}`, "messages[0].content[0].type", "missing"},
		{`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":1}]}]}`, "messages[0].content[1].text", "a string"},
		{`{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png"}}]}]}`, "messages[0].content[0].source.data", "missing"},
		{`{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"ftp"}}]}]}`, "messages[0].content[0].source.type", `"base64"`},
		{`{"messages":[{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"forever"}}]}]}`, "messages[0].content[0].cache_control.type", `"ephemeral"`},
		{`{"messages":[{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral","ttl":"2h"}}]}]}`, "messages[0].content[0].cache_control.ttl", `"1h"`},
		{`{"messages":[{"role":"assistant","content":[{"type":"tool_use","name":"f","input":{}}]}]}`, "messages[0].content[0].id", "missing"},
		{`{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":"{}"}]}]}`, "messages[0].content[0].input", "an object"},
		{`{"messages":[{"role":"user","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]}]}`, "messages[0].content", "assistant"},
		{`{"messages":[{"role":"assistant","content":[{"type":"tool_result","tool_use_id":"a"}]}]}`, "messages[0].content", "user"},
		{`{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"x"},{"type":"image","source":1}]}]}]}`, "messages[0].content[0].content[1].source", "an object"},
		{`{"system":[{"type":"image","source":{"type":"url","url":"https://a.example"}}]}`, "system", "text"},
		{`{"tools":[{"name":"f"}]}`, "tools[0].input_schema", "missing"},
		{`{"tools":[{"name":"f","input_schema":[]}]}`, "tools[0].input_schema", "an object"},
		{`{"tool_choice":{"type":"some"}}`, "tool_choice.type", `"auto"`},
		{`{"tool_choice":{"type":"tool"}}`, "tool_choice.name", "missing"},
		{`{"thinking":{"type":"enabled"}}`, "thinking.budget_tokens", "stated"},
		{`{"thinking":{"type":"deep"}}`, "thinking.type", `"adaptive"`},
		{`{"output_config":{"format":{"type":"json_schema"}}}`, "output_config.format.schema", "missing"},
		{`{"stop_sequences":["a",1]}`, "stop_sequences[1]", "a string"},
		{`{"tools":[` + strings.Repeat(`{},`, 1024) + `{}]}`, "tools[0].name", "missing"},
		{`{"stop_sequences":[` + strings.Repeat(`"a",`, 1024) + `"a"]}`, "stop_sequences", "more than 1024"},
	} {
		_, f := anthropic.New().DecodeRequest([]byte(tc.body), protocol.Target{})
		if f == nil {
			t.Errorf("understood: %.200s", tc.body)
			continue
		}
		if f.Class != fault.InvalidRequest || f.Param != tc.param || !strings.Contains(f.Public, tc.says) {
			t.Errorf("%.200s: %v at %q: %q, want it at %q and to say %q", tc.body, f.Class, f.Param, f.Public, tc.param, tc.says)
		}
	}
}

// Blocks that only this protocol has are lost by their own features, and kept for an
// upstream of this protocol.
func TestBlocksOfTheVendorsOwnAreKeptWhole(t *testing.T) {
	t.Parallel()
	const body = `{"max_tokens":9,"messages":[{"role":"user","content":[{"type":"search_result","source":"s","title":7, "content":[]},{"type":"text","text":"hi"}]}]}`
	r := decode(t, body)
	p := r.Messages[0].Parts[0]
	if p.Kind != llm.PartNative || p.Native.Type != "search_result" || string(p.Native.Raw) != `{"type":"search_result","source":"s","title":7, "content":[]}` {
		t.Errorf("got %+v", p.Native)
	}
	c := conversion(protocol.OpenAIChat)
	if f := refused(t, r, c); !strings.Contains(f.Public, "search_result") {
		t.Error(f.Public)
	}
}
