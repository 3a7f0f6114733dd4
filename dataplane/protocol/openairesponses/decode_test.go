package openairesponses_test

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

func text(s string) llm.Part { return llm.Part{Kind: llm.PartText, Text: s} }

func call(id, name, arguments string) llm.Part {
	return llm.Part{Kind: llm.PartCall, Call: &llm.Call{ID: id, Name: name, Arguments: arguments}}
}

func result(id string, parts ...llm.Part) llm.Part {
	return llm.Part{Kind: llm.PartResult, Result: &llm.Result{CallID: id, Parts: parts}}
}

func media(m llm.Media) llm.Part { return llm.Part{Kind: llm.PartMedia, Media: &m} }

func says(r llm.Role, parts ...llm.Part) llm.Message { return llm.Message{Role: r, Parts: parts} }

func decodeFails(t *testing.T, body, param, says string) {
	t.Helper()
	r, f := codec.DecodeRequest([]byte(body), protocol.Target{})
	if f == nil || f.Class != fault.InvalidRequest || f.Param != param || !strings.Contains(f.Public, says) {
		t.Errorf("%s: got %+v, %v (param %q, %q), want param %q and %q", body, r, f, f.Param, f.Text(), param, says)
	}
}

func TestItemsBecomeMessages(t *testing.T) {
	t.Parallel()
	user, sys, made, tool := llm.RoleUser, llm.RoleSystem, llm.RoleAssistant, llm.RoleTool
	for name, tc := range map[string]struct {
		input string
		want  []llm.Message
	}{
		"a string":                    {`"hi"`, []llm.Message{says(user, text("hi"))}},
		"no type":                     {`[{"role":"user","content":"hi"}]`, []llm.Message{says(user, text("hi"))}},
		"a part as a string":          {`[{"role":"user","content":["hi"]}]`, []llm.Message{says(user, text("hi"))}},
		"a part of type text":         {`[{"role":"user","content":[{"type":"text","text":"hi"}]}]`, []llm.Message{says(user, text("hi"))}},
		"developer":                   {`[{"role":"developer","content":"hi"}]`, []llm.Message{{Role: sys, Developer: true, Parts: []llm.Part{text("hi")}}}},
		"empty text":                  {`[{"role":"user","content":[{"type":"input_text","text":""}]}]`, []llm.Message{{Role: user}}},
		"an answer":                   {`[{"type":"message","id":"msg_1","status":"completed","role":"assistant","phase":"final_answer","content":[{"type":"output_text","text":"a","annotations":[],"logprobs":[]}]}]`, []llm.Message{{Role: made, Phase: "final_answer", Parts: []llm.Part{text("a")}}}},
		"a refusal":                   {`[{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]}]`, []llm.Message{says(made, llm.Part{Kind: llm.PartRefusal, Text: "no"})}},
		"a call":                      {`[{"type":"function_call","call_id":"c","name":"f","arguments":"{\"a\":12345678901234567890, \"b\":1.0}"}]`, []llm.Message{says(made, call("c", "f", `{"a":12345678901234567890, "b":1.0}`))}},
		"arguments as an object":      {`[{"type":"function_call","call_id":"c","name":"f","arguments":{"b":1.0,"a":2}}]`, []llm.Message{says(made, call("c", "f", `{"b":1.0,"a":2}`))}},
		"a call by the item's id":     {`[{"type":"function_call","id":"fc_1","name":"f","arguments":""}]`, []llm.Message{says(made, call("fc_1", "f", ""))}},
		"a namespace":                 {`[{"type":"function_call","call_id":"c","namespace":"n","name":"f","arguments":"{}"}]`, []llm.Message{says(made, llm.Part{Kind: llm.PartCall, Call: &llm.Call{ID: "c", Namespace: "n", Name: "f", Arguments: "{}"}})}},
		"a custom call":               {`[{"type":"custom_tool_call","call_id":"c","name":"f","input":"x"}]`, []llm.Message{says(made, llm.Part{Kind: llm.PartCall, Call: &llm.Call{ID: "c", Name: "f", Arguments: "x", Custom: true}})}},
		"a result":                    {`[{"type":"function_call_output","call_id":"c","output":"x"}]`, []llm.Message{says(tool, result("c", text("x")))}},
		"a result of parts":           {`[{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"x"},{"type":"input_image","image_url":"data:image/png;base64,AAAA"}]}]`, []llm.Message{says(tool, result("c", text("x"), media(llm.Media{Kind: llm.Image, MIME: "image/png", Data: "AAAA"})))}},
		"a result that is a value":    {`[{"type":"function_call_output","call_id":"c","output":{"a":1.0}}]`, []llm.Message{says(tool, llm.Part{Kind: llm.PartResult, Result: &llm.Result{CallID: "c", Raw: `{"a":1.0}`}})}},
		"a result without an id":      {`[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","name":"f","output":"x"}]`, []llm.Message{says(made, call("c", "f", "{}")), says(tool, llm.Part{Kind: llm.PartResult, Result: &llm.Result{CallID: "c", Name: "f", Parts: []llm.Part{text("x")}}})}},
		"two results, one with an id": {`[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call","call_id":"d","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"x"},{"type":"function_call_output","output":"y"}]`, []llm.Message{says(made, call("c", "f", "{}")), says(made, call("d", "f", "{}")), says(tool, result("c", text("x"))), says(tool, result("d", text("y")))}},
		"reasoning":                   {`[{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"a"},{"type":"summary_text","text":"b"}],"encrypted_content":"g"}]`, []llm.Message{says(made, llm.Part{Kind: llm.PartReasoning, Text: "a\n\nb", State: &llm.State{Kind: llm.OpenAIEncrypted, Data: "g", ID: "rs_1"}})}},
		"reasoning in the open":       {`[{"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"a"}]}]`, []llm.Message{says(made, llm.Part{Kind: llm.PartReasoning, Text: "a"})}},
		"reasoning that is stored":    {`[{"type":"reasoning","id":"rs_1","summary":[]}]`, []llm.Message{says(made, llm.Part{Kind: llm.PartReasoning, State: &llm.State{Kind: llm.OpenAIEncrypted, ID: "rs_1", Foreign: true}})}},
		"an image of the model":       {`[{"type":"image_generation_call","id":"ig_1","status":"completed","result":"iVBORw0KGgo="}]`, []llm.Message{says(made, media(llm.Media{Kind: llm.Image, MIME: "image/png", Data: "iVBORw0KGgo="}))}},
		"local shell":                 {`[{"type":"local_shell_call","id":"l","action":{"x":[1]},"status":5}]`, []llm.Message{says(made, llm.Part{Kind: llm.PartNative, Native: &llm.Native{Type: "local_shell_call", Raw: []byte(`{"type":"local_shell_call","id":"l","action":{"x":[1]},"status":5}`)}})}},
		"its output":                  {`[{"type":"local_shell_call_output","id":"l","output":"a"}]`, []llm.Message{says(user, llm.Part{Kind: llm.PartNative, Native: &llm.Native{Type: "local_shell_call_output", Raw: []byte(`{"type":"local_shell_call_output","id":"l","output":"a"}`)}})}},
		"members of other types":      {`[{"type":"tool_search_call","arguments":["a"],"name":7,"content":true}]`, []llm.Message{says(made, llm.Part{Kind: llm.PartNative, Native: &llm.Native{Type: "tool_search_call", Raw: []byte(`{"type":"tool_search_call","arguments":["a"],"name":7,"content":true}`)}})}},
		"a plain file":                {`[{"role":"user","content":[{"type":"input_file","file_data":"JVBERi0xLjQ=","filename":"a"}]}]`, []llm.Message{says(user, media(llm.Media{Kind: llm.Document, MIME: "application/pdf", Data: "JVBERi0xLjQ=", Name: "a"}))}},
		"audio":                       {`[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"UklGRg==","format":"wav"}}]}]`, []llm.Message{says(user, media(llm.Media{Kind: llm.Audio, MIME: "audio/wav", Data: "UklGRg=="}))}},
		"image_url as an object":      {`[{"role":"user","content":[{"type":"input_image","image_url":{"url":"https://a.example/","detail":"low"}}]}]`, []llm.Message{says(user, media(llm.Media{Kind: llm.Image, URL: "https://a.example/", Detail: "low"}))}},
		"an unknown part":             {`[{"role":"user","content":[{"type":"input_video","x":{"y":1}}]}]`, []llm.Message{says(user, llm.Part{Kind: llm.PartNative, Native: &llm.Native{Type: "input_video", Raw: []byte(`{"type":"input_video","x":{"y":1}}`)}})}},
	} {
		r := decode(t, `{"model":"m","input":`+tc.input+`}`)
		sameRequest(t, &llm.Request{Messages: r.Messages}, &llm.Request{Messages: tc.want})
		if t.Failed() {
			t.Fatalf("that was %s", name)
		}
		if len(r.Unknown) > 0 {
			t.Errorf("%s: not known: %q", name, r.Unknown)
		}
	}
}

func TestInstructionsStandFirst(t *testing.T) {
	t.Parallel()
	r := decode(t, `{"input":[{"role":"developer","content":"b"},{"role":"user","content":"c"}],"instructions":"a","model":"m"}`)
	want := []llm.Message{says(llm.RoleSystem, text("a")), {Role: llm.RoleSystem, Developer: true, Parts: []llm.Part{text("b")}}, says(llm.RoleUser, text("c"))}
	sameRequest(t, &llm.Request{Messages: r.Messages}, &llm.Request{Messages: want})
}

// What the vendor's agent sends is understood whole.
func TestCodingAgentIsUnderstood(t *testing.T) {
	t.Parallel()
	r := decode(t, string(read(t, "testdata/requests/coding_agent.json")))
	if len(r.Unknown) > 0 {
		t.Errorf("not known: %q", r.Unknown)
	}
	var tools []string
	for _, x := range r.Tools {
		tools = append(tools, strings.Trim(x.Namespace+"/"+x.Name+"/"+x.Server+"/"+strconv.FormatBool(x.Custom), "/"))
	}
	if got := strings.Join(tools, " "); got != "exec_command//false apply_patch//true mcp__docs/search//false mcp__docs/open//false web_search/false local_shell/false" {
		t.Errorf("tools are %s", got)
	}
	if !r.WantState || !r.Stream || r.CacheKey != "0199-thread" || r.Reasoning != (llm.Reasoning{Effort: llm.EffortMedium, Show: true, Summary: "auto"}) {
		t.Errorf("got %+v", r)
	}
	for _, f := range []llm.Feature{llm.FeatureClientMetadata, llm.FeatureStore, llm.FeatureServiceTier, llm.FeatureVerbosity, llm.FeaturePhase} {
		if _, ok := r.Extra(f); !ok {
			t.Errorf("no extra %s", f)
		}
	}
	if call := r.Messages[6].Parts[0].Call; call.Namespace != "mcp__docs" || call.Name != "search" {
		t.Errorf("got %+v", call)
	}
	if r.Messages[3].Parts[0].State.Data != "gAAAAABo_1-Q==" {
		t.Errorf("got %+v", r.Messages[3])
	}
}

// Values that are handed on keep their bytes, and are those of the body.
func TestRawValuesKeepTheirBytes(t *testing.T) {
	t.Parallel()
	const schema = `{ "b":1.0,"a" : 12345678901234567890, "type":"object" }`
	body := []byte(`{"input":"hi","tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f","parameters":` + schema + `}]}],"text":{"format":{"type":"json_schema","name":"x","schema":` + schema + `}}}`)
	r, f := codec.DecodeRequest(body, protocol.Target{})
	if f != nil {
		t.Fatal(f)
	}
	for _, got := range [][]byte{r.Tools[0].Schema, r.Format.Schema} {
		if string(got) != schema {
			t.Errorf("got %s", got)
		}
	}
	at := bytes.Index(body, []byte(schema))
	if body[at] = '['; r.Tools[0].Schema[0] != '[' {
		t.Error("the schema is a copy")
	}
}

// Saying what is so anyway is saying nothing.
func TestDefaultsSayNothing(t *testing.T) {
	t.Parallel()
	r := decode(t, `{"model":"m","input":"hi","background":false,"truncation":"disabled","service_tier":"auto","parallel_tool_calls":true,"top_logprobs":0,"metadata":{},
		"reasoning":{"mode":"standard","context":"auto","effort":null,"summary":"none"},"text":{"format":{"type":"text"}},"prompt_cache_options":{"mode":"implicit","ttl":"30m","prewarm":false},
		"previous_response_id":null,"conversation":null,"prompt":null,"include":null,"tools":null,"tool_choice":null,"max_output_tokens":null,"store":null,"user":null,"instructions":null}`)
	sameRequest(t, r, &llm.Request{Model: "m", Messages: []llm.Message{says(llm.RoleUser, text("hi"))}})
}

func TestUnknownFieldsAreNamed(t *testing.T) {
	t.Parallel()
	r := decode(t, `{"model":"m","n":2,"input":[{"role":"user","x":1,"content":[{"type":"input_text","text":"a","y":{"z":1}}]}],"tools":[{"type":"function","name":"f","w":1}],"reasoning":{"v":1}}`)
	want := "input[0].content[0].y input[0].x n reasoning.v tools[0].w"
	got := slices.Sorted(slices.Values(r.Unknown))
	if strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWrongTypesAreRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ body, param, says string }{
		{`[]`, "", "JSON object"},
		{`{}`, "input", "at least one item"},
		{`{"input":[]}`, "input", "at least one item"},
		{`{"input":7}`, "input", "a string or a list"},
		{`{"input":[7]}`, "input[0]", "an object"},
		{`{"input":[{"x":1}]}`, "input[0]", "has no type"},
		{`{"input":[{"role":"tool","content":"a"}]}`, "input[0].role", "one of user, assistant"},
		{`{"input":[{"type":"message","content":"a"}]}`, "input[0].role", "is missing"},
		{`{"input":["a",{"role":"user","content":{"a":1}}]}`, "input[0]", "an object"},
		{`{"input":[{"role":"user","content":{"a":1}}]}`, "input[0].content", "a string or a list of parts"},
		{`{"input":[{"role":"user","content":[{"text":"a"},{"type":"input_text"}]}]}`, "input[0].content[1].text", "is missing"},
		{`{"input":[{"role":"user","content":[{"type":"input_image"}]}]}`, "input[0].content[0]", "image_url or file_id"},
		{`{"input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png,abc"}]}]}`, "input[0].content[0].image_url", "base64"},
		{`{"input":[{"role":"user","content":[{"type":"input_file","file_id":"a","file_url":"b"}]}]}`, "input[0].content[0]", "exactly one"},
		{`{"input":[{"type":"function_call","call_id":"c"}]}`, "input[0].name", "is missing"},
		{`{"input":[{"type":"function_call_output","output":"a"}]}`, "input[0].call_id", "is missing"},
		{`{"input":[{"type":"function_call_output","call_id":"c"}]}`, "input[0].output", "is missing"},
		{`{"input":"a","tools":[{"name":"f"}]}`, "tools[0].type", "is missing"},
		{`{"input":"a","tools":[{"type":"function"}]}`, "tools[0].name", "is missing"},
		{`{"input":"a","tools":[{"type":"function","name":"f","parameters":[]}]}`, "tools[0].parameters", "an object"},
		{`{"input":"a","tools":[{"type":"namespace","name":"n","tools":[{"type":"x","name":"f"}]}]}`, "tools[0].tools[0].type", "one of function, custom"},
		{`{"input":"a","tool_choice":"maybe"}`, "tool_choice", "one of"},
		{`{"input":"a","tool_choice":{"type":"function"}}`, "tool_choice.name", "is missing"},
		{`{"input":"a","max_output_tokens":"7"}`, "max_output_tokens", "a positive integer"},
		{`{"input":"a","temperature":"warm"}`, "temperature", "a number"},
		{`{"input":"a","store":"no"}`, "store", "true or false"},
		{`{"input":"a","stream":"no"}`, "stream", "true or false"},
		{`{"input":"a","reasoning":{"effort":"huge"}}`, "reasoning.effort", "one of none, minimal"},
		{`{"input":"a","text":{"format":{"type":"json_schema","name":"a"}}}`, "text.format.schema", "is missing"},
		{`{"input":"a","text":{"format":{"type":"xml"}}}`, "text.format.type", "one of text"},
		{`{"input":"a","instructions":["a"]}`, "instructions", "a string"},
		{`{"input":"a","conversation":7}`, "conversation", "a string or an object"},
	} {
		decodeFails(t, tc.body, tc.param, tc.says)
	}
	long := `{"input":"a","tools":[` + strings.Repeat(`{"type":"local_shell"},`, 1025) + `{"type":"x"}]}`
	decodeFails(t, long, "tools", "more than 1024")
	one := `{"type":"function","name":"f"},`
	spaced := `{"type":"namespace","name":"n","tools":[` + strings.Repeat(one, 600) + `{"type":"function","name":"f"}]},`
	decodeFails(t, `{"input":"a","tools":[`+spaced+spaced+`{"type":"x"}]}`, "tools", "1024")
}

// What the provider stores cannot be had elsewhere; the caller is told what to do.
func TestStoredStateIsRefusedWithAHint(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"input":[{"type":"item_reference","id":"msg_1"},{"role":"user","content":"a"}]}`,
		`{"input":[{"id":"msg_1"},{"role":"user","content":"a"}]}`,
		`{"input":"a","previous_response_id":"resp_1"}`,
		`{"previous_response_id":"resp_1"}`,
		`{"input":"a","conversation":{"id":"conv_1"}}`,
	} {
		r := decode(t, body)
		c := conversion(protocol.OpenAIResponses)
		c.To = protocol.Anthropic
		f := c.Extras(r, func(llm.Extra) *fault.Error { return nil })
		if f == nil || f.Class != fault.RequestNotSupported || !strings.Contains(f.Public, "store set to false") || f.Param == "" {
			t.Errorf("%s: got %v (%q)", body, f, f.Text())
		}
	}
}
