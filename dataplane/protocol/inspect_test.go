package protocol_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

var geminiTarget = protocol.Target{Protocol: protocol.Gemini, Op: protocol.OpGenerate, Model: "m", Version: "v1beta"}

// target is a fitting target for a codec's Inspect.
func target(c protocol.Codec) protocol.Target {
	if c.Name() == protocol.Gemini {
		return geminiTarget
	}
	return protocol.Target{Protocol: c.Name(), Op: protocol.OpGenerate}
}

func TestInspectFindsWhatARequestNeeds(t *testing.T) {
	t.Parallel()
	data := strings.Repeat("A", 400)
	for _, tc := range []struct {
		name  string
		codec protocol.Name
		body  string
		want  protocol.Shape
	}{
		{
			"chat", protocol.OpenAIChat,
			`{"model":"gpt-x","stream":true,"stream_options":{"include_usage":true},"n":2,"max_tokens":9,"max_completion_tokens":50,
			"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"t"},{"type":"image_url","image_url":{"url":"data:image/png;base64,` + data + `"}},
			{"type":"image_url","image_url":{"url":"https://x"}},{"type":"input_audio","input_audio":{"data":"` + data + `","format":"wav"}},{"type":"file","file":{"file_data":"data:x,` + data + `"}}]}],
			"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"mcp"}}},{"type":"custom","custom":{}}],"response_format":{"type":"json_schema"},
			"reasoning_effort":"high","modalities":["text","audio"],"prompt_cache_key":"k","user":"old","safety_identifier":"new","store":true,"web_search_options":{}}`,
			protocol.Shape{
				Model: "gpt-x", Stream: true, IncludeUsage: true, Choices: 2, MaxOutputTokens: 50, Messages: 2, Images: 2, Audio: 1, Documents: 1, FunctionTools: 2,
				ServerTools: protocol.ToolWebSearch, StructuredOutput: true, Reasoning: true, AudioOutput: true, SessionKey: "k", User: "new", Store: true, StoreStated: true,
				MediaBytes: 400 + 22 + 400 + 7 + 400,
			},
		},
		{
			"responses", protocol.OpenAIResponses,
			`{"model":"gpt-x","stream":false,"max_output_tokens":70,"instructions":"i","input":[{"role":"user","content":[{"type":"input_image","image_url":"data:,` + data + `"},{"type":"input_file","file_data":"` + data + `"}]},
			{"type":"item_reference","id":"x"},{"type":"function_call_output","output":[{"type":"input_image","image_url":"https://x"}]}],
			"tools":[{"type":"function"},{"type":"namespace"},{"type":"web_search"},{"type":"mcp"},{"type":"code_interpreter"},{"type":"image_generation"}],
			"text":{"format":{"type":"json_object"}},"reasoning":{"effort":"low"},"previous_response_id":"resp_1","conversation":{"id":"conv_1"},"background":true,"client_metadata":{"a":1}}`,
			protocol.Shape{
				Model: "gpt-x", Choices: 1, MaxOutputTokens: 70, Messages: 3, Images: 2, Documents: 1, StoredItems: 1, FunctionTools: 2,
				ServerTools:      protocol.ToolWebSearch | protocol.ToolMCP | protocol.ToolCodeExecution | protocol.ToolOther,
				StructuredOutput: true, Reasoning: true, ImageOutput: true, PreviousResponse: "resp_1", Conversation: "conv_1", Background: true, Store: true,
				MediaBytes: 406 + 400,
			},
		},
		{"responses text", protocol.OpenAIResponses, `{"model":"m","input":"hello","store":false}`, protocol.Shape{Model: "m", Choices: 1, Messages: 1, StoreStated: true}},
		{
			"anthropic", protocol.Anthropic,
			`{"model":"claude","max_tokens":32000,"stream":true,"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],
			"messages":[{"role":"user","content":"hi"},{"role":"system","content":"mid"},{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + data + `"}},
			{"type":"document","source":{"type":"file","file_id":"f"}},{"type":"tool_result","tool_use_id":"t","content":[{"type":"image","source":{"type":"url","url":"u"}}]},
			{"type":"tool_use","id":"t","name":"n","input":{"type":"image","data":"no image"}}]}],
			"tools":[{"name":"f","input_schema":{"type":"object"}},{"type":"bash_20250124","name":"bash"},{"type":"web_search_20250305","name":"w"},{"type":"computer_20250124","name":"c"}],
			"mcp_servers":[{"type":"url"}],"thinking":{"type":"adaptive"},"output_config":{"effort":"low","format":{"type":"json_schema"}},"metadata":{"user_id":"user_1_session_abc"},"container":"c1"}`,
			protocol.Shape{
				Model: "claude", Stream: true, Choices: 1, MaxOutputTokens: 32000, Messages: 3, Images: 2, Documents: 1, StoredItems: 2, FunctionTools: 2,
				ServerTools: protocol.ToolWebSearch | protocol.ToolComputerUse | protocol.ToolMCP, StructuredOutput: true, Reasoning: true,
				SessionKey: "abc", User: "user_1_session_abc", MediaBytes: 400,
			},
		},
		{
			"gemini", protocol.Gemini,
			`{"contents":[{"role":"user","parts":[{"text":"t"},{"inlineData":{"mimeType":"image/png","data":"` + data + `"}},{"fileData":{"mimeType":"video/mp4","fileUri":"u"}},{"inline_data":{"mime_type":"application/pdf","data":"` + data + `"}}]}],
			"system_instruction":{"parts":{"text":"s"}},"tools":[{"functionDeclarations":[{"name":"a"},{"name":"b"}]},{"googleSearch":{}},{"codeExecution":{}}],
			"generationConfig":{"maxOutputTokens":99,"candidateCount":2,"responseMimeType":"application/json","thinkingConfig":{"includeThoughts":true},"responseModalities":["IMAGE"]},"cachedContent":"cachedContents/1"}`,
			protocol.Shape{
				Model: "m", Choices: 2, MaxOutputTokens: 99, Messages: 1, Images: 1, Video: 1, Documents: 1, FunctionTools: 2,
				ServerTools: protocol.ToolWebSearch | protocol.ToolCodeExecution, StructuredOutput: true, Reasoning: true, ImageOutput: true,
				CachedContent: "cachedContents/1", MediaBytes: 800,
			},
		},
	} {
		c := codec(tc.codec)
		got, f := c.Inspect([]byte(tc.body), target(c))
		if f != nil {
			t.Errorf("%s: %v", tc.name, f)
			continue
		}
		ignore := cmpopts.IgnoreFields(protocol.Shape{}, "ModelSpan", "Open", "StreamOptions", "UsageSpan", "Members", "PromptBytes")
		if diff := cmp.Diff(&tc.want, got, ignore); diff != "" {
			t.Errorf("%s differs (-want +got):\n%s", tc.name, diff)
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal([]byte(tc.body), &members); err != nil {
			t.Fatal(err)
		}
		prompt := int64(0)
		for _, m := range got.Members {
			if v := m.Value.Of([]byte(tc.body)); !bytes.Equal(v, members[m.Name]) {
				t.Errorf("%s: member %s has the range of %q, want %q", tc.name, m.Name, v, members[m.Name])
			}
			switch m.Name {
			case "messages", "input", "contents", "system", "system_instruction", "instructions", "tools", "response_format", "text":
				prompt += int64(m.Value.Len())
			}
		}
		if len(got.Members) != len(members) || got.PromptBytes != prompt-got.MediaBytes {
			t.Errorf("%s: %d members and %d prompt bytes, want %d and %d", tc.name, len(got.Members), got.PromptBytes, len(members), prompt-got.MediaBytes)
		}
	}
}

// What two parsers could read differently, and what cannot be a request, is a 400
// with a text that says what and where.
func TestInspectRefusesWhatCannotBeJudged(t *testing.T) {
	t.Parallel()
	for _, c := range codecs() {
		rest := `"messages":[],"input":[],"contents":[]}`
		for name, tc := range map[string]struct{ body, text string }{
			"empty":               {``, "ends before"},
			"array":               {`[]`, "must be a JSON object"},
			"text":                {`"x"`, "must be a JSON object"},
			"garbage":             {`model=x`, "not valid JSON at byte"},
			"cut":                 {`{"model":"m","stream":`, "ends before"},
			"duplicate model":     {`{"model":"m","model":"n",` + rest, `member "model" twice`},
			"duplicate, escaped":  {`{"model":"m","\u006dodel":"n",` + rest, `member "model" twice`},
			"duplicate deep":      {`{"model":"m","x":{"a":1,"a":2},` + rest, `member "a" twice`},
			"other case":          {`{"model":"m","Model":"n",` + rest, "by case alone"},
			"trailing data":       {`{"model":"m",` + rest + `{}`, "after its JSON object"},
			"bad UTF-8":           {"{\"model\":\"m\",\"x\":\"\xff\"," + rest, "UTF-8"},
			"depth":               {`{"model":"m","x":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "," + rest, "more than 100 levels"},
			"depth of a million":  {`{"model":"m","x":` + strings.Repeat("[", 1_000_000), "more than 100 levels"},
			"model is a number":   {`{"model":1,` + rest, "must be a string"},
			"model is null":       {`{"model":null,` + rest, "must be a string"},
			"model is empty":      {`{"model":"",` + rest, "empty"},
			"model is too long":   {`{"model":"` + strings.Repeat("m", 513) + `",` + rest, "longer than 512"},
			"model, control char": {`{"model":"m\nx",` + rest, "control"},
			"model, path":         {`{"model":"../m",` + rest, `".."`},
			"too many members":    {`{"model":"m"` + manyMembers(300) + "," + rest, "more than 256"},
		} {
			_, f := c.Inspect([]byte(tc.body), target(c))
			if f == nil || f.Status() != 400 || !strings.Contains(f.Public, tc.text) {
				t.Errorf("%s, %s: got %v, want a 400 that says %q", c.Name(), name, f, tc.text)
			}
		}
		if c.Name() == protocol.Gemini {
			continue
		}
		if _, f := c.Inspect([]byte(`{`+rest), target(c)); f == nil || f.Param != "model" || !strings.Contains(f.Public, "missing") {
			t.Errorf("%s: a body without model gave %v", c.Name(), f)
		}
		if _, f := c.Inspect([]byte(`{"model":"m","stream":"yes",`+rest), target(c)); f == nil || f.Param != "stream" {
			t.Errorf("%s: stream as a text gave %v", c.Name(), f)
		}
	}
	for body, text := range map[string]string{
		`{"contents":[],"model":"other"}`:                                  "another model",
		`{"cachedContent":"a","cached_content":"b"}`:                       "the same member",
		`{"generationConfig":{},"generation_config":{"candidateCount":1}}`: "the same member",
	} {
		if _, f := codec(protocol.Gemini).Inspect([]byte(body), geminiTarget); f == nil || !strings.Contains(f.Public, text) {
			t.Errorf("gemini %s: got %v, want a 400 that says %q", body, f, text)
		}
	}
}

func manyMembers(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`,"x` + itoa(int64(i)) + `":0`)
	}
	return b.String()
}

func join(parts [][]byte) string { return string(bytes.Join(parts, nil)) }

// The upstream's body is the caller's, byte for byte, but for the model.
func TestOutgoingChangesTheModelAlone(t *testing.T) {
	t.Parallel()
	for _, c := range codecs() {
		if c.Name() == protocol.Gemini {
			continue
		}
		for _, form := range []string{
			`{"model":MODEL,"a":1.0,"z":"é"}`, "{ \"a\" : 9007199254740993 ,\n \"model\" :\tMODEL }\n", `{"metadata":{"model":"inner"},"model":MODEL}`,
		} {
			for _, old := range []string{`"public"`, `"pub\u006cic"`} {
				body := strings.ReplaceAll(form, "MODEL", old)
				s, f := c.Inspect([]byte(body), target(c))
				if f != nil {
					t.Fatalf("%s %s: %v", c.Name(), body, f)
				}
				want := strings.ReplaceAll(form, "MODEL", `"up/\"stream\""`)
				if got := join(c.Outgoing([]byte(body), s, `up/"stream"`, protocol.Outgoing{})); got != want {
					t.Errorf("%s sent %s, want %s", c.Name(), got, want)
				}
				if got := join(c.Outgoing([]byte(body), s, "public", protocol.Outgoing{IncludeUsage: true})); got != body {
					t.Errorf("%s, same model, sent %s, want the caller's bytes %s", c.Name(), got, body)
				}
			}
		}
	}
	c, body := codec(protocol.Gemini), []byte(`{"model":"models/m","contents":[]}`)
	s, f := c.Inspect(body, geminiTarget)
	if f != nil {
		t.Fatal(f)
	}
	if got, want := join(c.Outgoing(body, s, "up", protocol.Outgoing{})), `{"model":"models/up","contents":[]}`; got != want {
		t.Errorf("gemini sent %s, want %s", got, want)
	}
}

func TestChatStreamsAskForUsageWhateverTheCallerWrote(t *testing.T) {
	t.Parallel()
	c := codec(protocol.OpenAIChat)
	for _, tc := range []struct{ body, want string }{
		{`{"model":"m","stream":true}`, `{"stream_options":{"include_usage":true},"model":"m","stream":true}`},
		{`{"model":"m","stream":true,"stream_options":null}`, `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`},
		{`{"model":"m","stream":true,"stream_options":{ }}`, `{"model":"m","stream":true,"stream_options":{"include_usage":true }}`},
		{`{"model":"m","stream":true,"stream_options":{"x":1}}`, `{"model":"m","stream":true,"stream_options":{"include_usage":true,"x":1}}`},
		{`{"stream_options":{"include_usage":false},"model":"m","stream":true}`, `{"stream_options":{"include_usage":true},"model":"m","stream":true}`},
		{`{"stream_options":{"include_usage":null},"model":"m","stream":true}`, `{"stream_options":{"include_usage":true},"model":"m","stream":true}`},
		{`{"model":"m","stream":true,"stream_options":{"include_usage":true}}`, `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`},
		{`{"model":"m","stream":false}`, `{"model":"m","stream":false}`},
	} {
		s, f := c.Inspect([]byte(tc.body), target(c))
		if f != nil {
			t.Fatalf("%s: %v", tc.body, f)
		}
		got := join(c.Outgoing([]byte(tc.body), s, "m", protocol.Outgoing{IncludeUsage: true}))
		if got != tc.want {
			t.Errorf("%s became %s, want %s", tc.body, got, tc.want)
		}
	}
}

// Splicing equals cutting and pasting.
func TestSpliceEqualsReplacing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.SliceOfN(rapid.Byte(), 0, 60).Draw(t, "body")
		cuts := rapid.SliceOfNDistinct(rapid.IntRange(0, len(body)), 0, 8, rapid.ID).Draw(t, "cuts")
		var edits []protocol.Edit
		want, at := "", 0
		order := map[int]bool{}
		for _, c := range cuts {
			order[c] = true
		}
		var pending *protocol.Edit
		for i := range len(body) + 1 {
			if !order[i] {
				continue
			}
			if pending == nil {
				pending = &protocol.Edit{At: protocol.Span{From: i}, Text: []byte(rapid.StringN(0, 5, 20).Draw(t, "text"))}
				continue
			}
			pending.At.To = i
			want += string(body[at:pending.At.From]) + string(pending.Text)
			at = i
			edits = append([]protocol.Edit{*pending}, edits...) // any order
			pending = nil
		}
		want += string(body[at:])
		if got := join(protocol.Splice(body, edits)); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

// Members that the gateway does not know are the upstream's business.
func TestInspectLetsUnknownMembersPass(t *testing.T) {
	t.Parallel()
	for _, c := range codecs() {
		body := []byte(`{"model":"m","client_metadata":{"x":[1]},"stream":false,"messages":7,"input":7,"contents":7,"tools":"odd","max_tokens":"many","thinking":4,"generationConfig":[1]}`)
		if _, f := c.Inspect(body, target(c)); f != nil {
			t.Errorf("%s: %v, want odd members left to the upstream", c.Name(), f)
		}
	}
}

// Inspect accepts nothing that the standard library does not, and finds the same
// model.
func FuzzInspect(f *testing.F) {
	f.Add([]byte(`{"model":"m","stream":true,"messages":[{"content":[{"type":"text"}]}]}`))
	f.Add([]byte(`{"contents":[{"parts":[{"inlineData":{"mimeType":"image/png","data":"QQ=="}}]}],"model":"m"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, c := range codecs() {
			s, fl := c.Inspect(body, target(c))
			if fl != nil {
				if fl.Class != fault.InvalidRequest {
					t.Errorf("%s: class %s, want invalid_request", c.Name(), fl.Class)
				}
				continue
			}
			var got map[string]json.RawMessage
			if err := json.Unmarshal(body, &got); err != nil {
				t.Fatalf("%s accepted invalid JSON %q: %v", c.Name(), body, err)
			}
			out := join(c.Outgoing(body, s, "other", protocol.Outgoing{IncludeUsage: true}))
			var sent map[string]json.RawMessage
			if err := json.Unmarshal([]byte(out), &sent); err != nil {
				t.Fatalf("%s sent invalid JSON %q: %v", c.Name(), out, err)
			}
			if c.Name() != protocol.Gemini && string(sent["model"]) != `"other"` {
				t.Errorf("%s sent model %s", c.Name(), sent["model"])
			}
		}
	})
}
