package openairesponses_test

import (
	"strings"
	"testing"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

func TestMediaOfOtherProtocols(t *testing.T) {
	t.Parallel()
	const pdf = "JVBERi0xLjQ="
	for name, tc := range map[string]struct {
		from  protocol.Name
		media llm.Media
		want  string
		lost  []string
	}{
		"image":         {protocol.Anthropic, png, `{"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgo="}`, nil},
		"no MIME type":  {protocol.Gemini, llm.Media{Kind: llm.Image, Data: "/9j/AAAA"}, `{"type":"input_image","image_url":"data:image/jpeg;base64,/9j/AAAA"}`, nil},
		"image URL":     {protocol.Anthropic, llm.Media{Kind: llm.Image, URL: "https://a.example/b", Detail: "high"}, `{"type":"input_image","image_url":"https://a.example/b","detail":"high"}`, nil},
		"document":      {protocol.Anthropic, llm.Media{Kind: llm.Document, MIME: "application/pdf", Data: pdf}, `{"type":"input_file","file_data":"data:application/pdf;base64,JVBERi0xLjQ=","filename":"document.pdf"}`, nil},
		"title":         {protocol.Anthropic, llm.Media{Kind: llm.Document, MIME: "application/pdf", Data: pdf, Name: "a.pdf"}, `{"type":"input_file","file_data":"data:application/pdf;base64,JVBERi0xLjQ=","filename":"a.pdf"}`, nil},
		"context":       {protocol.Anthropic, llm.Media{Kind: llm.Document, MIME: "application/pdf", Data: pdf, Name: "a.pdf", Context: "old"}, `{"type":"input_file","file_data":"data:application/pdf;base64,JVBERi0xLjQ=","filename":"a.pdf"}`, []string{"document_metadata=drop"}},
		"document URL":  {protocol.Anthropic, llm.Media{Kind: llm.Document, URL: "https://a.example/b.pdf", Name: "b"}, `{"type":"input_file","file_url":"https://a.example/b.pdf"}`, nil},
		"text document": {protocol.Anthropic, llm.Media{Kind: llm.Document, Text: "abc", Name: "a"}, `{"type":"input_text","text":"<document title=\"a\">\nabc\n</document>"}`, nil},
		"file id":       {protocol.OpenAIChat, llm.Media{Kind: llm.Document, FileID: "file-1"}, `{"type":"input_file","file_id":"file-1"}`, nil},
	} {
		c := conversion(tc.from)
		body := encode(t, asked(says(llm.RoleUser, media(tc.media))), c)
		same(t, string(jsonOf(t, member(t, body, "input", 0, "content", 0))), tc.want)
		wantLost(t, c, tc.lost...)
		accepted(t, body)
		if t.Failed() {
			t.Fatalf("that was %s", name)
		}
	}
}

// Images that a model made stay what they are; other media of a model have no place.
func TestImagesOfTheModelStayInHistory(t *testing.T) {
	t.Parallel()
	c := conversion(protocol.Gemini)
	r := asked(says(llm.RoleUser, text("draw")), says(llm.RoleAssistant, text("Here."), media(png)), says(llm.RoleUser, text("more")))
	body := encode(t, r, c)
	if got := member(t, body, "input", 2, "type"); got != "image_generation_call" || member(t, body, "input", 2, "result") != png.Data {
		t.Errorf("got %s", body)
	}
	wantLost(t, c)
	accepted(t, body)
	refused(t, asked(says(llm.RoleUser, text("draw")), says(llm.RoleAssistant, media(llm.Media{Kind: llm.Audio, Data: "AA"}))), c, fault.RequestNotSupported, "audio")
}

func TestMarksOfThePromptCache(t *testing.T) {
	t.Parallel()
	marked := func(s string, c llm.Cache) llm.Part { return llm.Part{Kind: llm.PartText, Text: s, Cache: c} }
	res := result("c", text("x"))
	res.Cache = llm.Cache5m
	r := asked(says(llm.RoleSystem, marked("long", llm.Cache5m)), says(llm.RoleUser, text("hi"), marked("there", llm.CacheDefault)),
		says(llm.RoleAssistant, marked("so", llm.CacheDefault), call("c", "f", "{}")), says(llm.RoleTool, res))
	r.Tools = []llm.Tool{{Name: "f", Cache: llm.CacheDefault}}
	c := conversion(protocol.Anthropic)
	body := encode(t, r, c)
	same(t, string(jsonOf(t, member(t, body, "input"))), `[
		{"type":"message","role":"system","content":[{"type":"input_text","text":"long","prompt_cache_breakpoint":{"mode":"explicit"}}]},
		{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"},{"type":"input_text","text":"there","prompt_cache_breakpoint":{"mode":"explicit"}}]},
		{"type":"message","role":"assistant","content":[{"type":"output_text","text":"so"}]},
		{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
		{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"x","prompt_cache_breakpoint":{"mode":"explicit"}}]}]`)
	wantLost(t, c, "cache_control=drop")
	accepted(t, body)

	hour := asked(says(llm.RoleUser, marked("hi", llm.Cache1h)))
	refused(t, hour, conversion(protocol.Anthropic), fault.RequestNotSupported, "cache_ttl")
	c = conversion(protocol.Anthropic)
	c.Options = protocol.Options{"anthropic_messages.cache_ttl": protocol.Substitute}
	if got := encode(t, hour, c); !strings.Contains(got, `"prompt_cache_breakpoint":{"mode":"explicit"}`) {
		t.Errorf("got %s", got)
	}
	c = conversion(protocol.Anthropic)
	c.Options = protocol.Options{"anthropic_messages.cache_control": protocol.Drop}
	if got := encode(t, asked(says(llm.RoleUser, marked("hi", llm.Cache5m))), c); strings.Contains(got, "breakpoint") {
		t.Errorf("a mark that was to be left out: %s", got)
	}
}

func TestConvP02_CacheKeyIsForwarded(t *testing.T) {
	t.Parallel()
	r := asked()
	r.CacheKey = "key ü/1"
	if got := member(t, encode(t, r, conversion(protocol.OpenAIChat)), "prompt_cache_key"); got != r.CacheKey {
		t.Errorf("got %v", got)
	}
}

func TestToolsOfOtherProtocols(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	strict := []byte(`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`)
	loose := []byte(`{"type":"object","properties":{"a":{"type":"string"}}}`)
	r := asked()
	r.Tools = []llm.Tool{
		{Name: "plain", Description: "Plain.", Schema: loose},
		{Name: "none"},
		{Name: "strict", Schema: strict, Strict: &yes},
		{Name: "loose", Schema: loose, Strict: &yes},
		{Name: "stated", Schema: strict, Strict: &no},
		{Name: "files.read/all", Schema: loose},
	}
	r.ToolChoice = llm.ToolChoice{Mode: llm.ChoiceTool, Names: []string{"files.read/all"}}
	r.OneCall = true
	c := conversion(protocol.Anthropic)
	body := encode(t, r, c)
	sent := member(t, body, "tools", 5, "name").(string)
	same(t, string(jsonOf(t, member(t, body, "tools"))), `[
		{"type":"function","name":"plain","description":"Plain.","parameters":`+string(loose)+`,"strict":false},
		{"type":"function","name":"none","parameters":{"type":"object","properties":{}},"strict":false},
		{"type":"function","name":"strict","parameters":`+string(strict)+`,"strict":true},
		{"type":"function","name":"loose","parameters":`+string(loose)+`,"strict":false},
		{"type":"function","name":"stated","parameters":`+string(strict)+`,"strict":false},
		{"type":"function","name":"`+sent+`","parameters":`+string(loose)+`,"strict":false}]`)
	same(t, string(jsonOf(t, member(t, body, "tool_choice"))), `{"type":"function","name":"`+sent+`"}`)
	if member(t, body, "parallel_tool_calls") != false {
		t.Errorf("got %s", body)
	}
	wantLost(t, c, "tool_strict=drop")
	accepted(t, body)
	if namespace, name := c.CallerTool(sent); namespace != "" || name != "files.read/all" {
		t.Errorf("the caller gets %q %q for %s", namespace, name, sent)
	}

	// A Chat caller's custom tool has its grammar one level deeper.
	r = asked()
	r.Tools = []llm.Tool{{Name: "run", Custom: true, Grammar: []byte(`{"type":"grammar","grammar":{"syntax":"lark","definition":"start: /a/"}}`)}}
	r.ToolChoice = llm.ToolChoice{Mode: llm.ChoiceAny, Names: []string{"run"}}
	body = encode(t, r, conversion(protocol.OpenAIChat))
	same(t, string(jsonOf(t, member(t, body, "tools"))), `[{"type":"custom","name":"run","format":{"type":"grammar","syntax":"lark","definition":"start: /a/"}}]`)
	same(t, string(jsonOf(t, member(t, body, "tool_choice"))), `{"type":"allowed_tools","mode":"required","tools":[{"type":"custom","name":"run"}]}`)
	accepted(t, body)

	// Without tools there is nothing to choose from.
	r = asked()
	r.ToolChoice, r.OneCall = llm.ToolChoice{Mode: llm.ChoiceNone}, true
	if body := encode(t, r, conversion(protocol.OpenAIChat)); strings.Contains(body, "tool") {
		t.Errorf("got %s", body)
	}
}

func TestCustomCallsOfAChatCaller(t *testing.T) {
	t.Parallel()
	custom := llm.Part{Kind: llm.PartCall, Call: &llm.Call{ID: "c", Name: "run", Arguments: "ls", Custom: true}}
	body := encode(t, asked(says(llm.RoleUser, text("hi")), says(llm.RoleAssistant, custom), says(llm.RoleTool, result("c", text("a")))), conversion(protocol.OpenAIChat))
	same(t, string(jsonOf(t, member(t, body, "input"))), `[`+userHi+`,{"type":"custom_tool_call","call_id":"c","name":"run","input":"ls"},{"type":"custom_tool_call_output","call_id":"c","output":"a"}]`)
	accepted(t, body)
}

func TestFormsOfTheAnswer(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	strict := []byte(`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`)
	loose := []byte(`{"type":"object","properties":{"a":{"type":"string"}}}`)
	for name, tc := range map[string]struct {
		from   protocol.Name
		format llm.Format
		want   string
		lost   []string
	}{
		"a schema of Anthropic": {protocol.Anthropic, llm.Format{Kind: llm.FormatSchema, Schema: strict}, `{"type":"json_schema","name":"answer","schema":` + string(strict) + `,"strict":true}`, nil},
		"a loose one":           {protocol.Anthropic, llm.Format{Kind: llm.FormatSchema, Schema: loose}, `{"type":"json_schema","name":"answer","schema":` + string(loose) + `}`, []string{"schema_strict=drop"}},
		"Chat, strict":          {protocol.OpenAIChat, llm.Format{Kind: llm.FormatSchema, Name: "x", Description: "X.", Schema: strict, Strict: &yes}, `{"type":"json_schema","name":"x","description":"X.","schema":` + string(strict) + `,"strict":true}`, nil},
		"Chat, not strict":      {protocol.OpenAIChat, llm.Format{Kind: llm.FormatSchema, Name: "x", Schema: loose, Strict: &no}, `{"type":"json_schema","name":"x","schema":` + string(loose) + `,"strict":false}`, nil},
		"Chat, nothing stated":  {protocol.OpenAIChat, llm.Format{Kind: llm.FormatSchema, Name: "x", Schema: loose}, `{"type":"json_schema","name":"x","schema":` + string(loose) + `}`, nil},
		"JSON of Chat":          {protocol.OpenAIChat, llm.Format{Kind: llm.FormatJSON}, `{"type":"json_object"}`, nil},
		"JSON of Gemini":        {protocol.Gemini, llm.Format{Kind: llm.FormatJSON}, `{"type":"json_object"}`, []string{"json_object=substitute"}},
	} {
		r := asked()
		r.Format = tc.format
		c := conversion(tc.from)
		body := encode(t, r, c)
		same(t, string(jsonOf(t, member(t, body, "text", "format"))), tc.want)
		wantLost(t, c, tc.lost...)
		if name == "JSON of Gemini" {
			if got := member(t, body, "input", 0, "content", 0, "text"); got != "Answer with a JSON object." {
				t.Errorf("got %s", body)
			}
		}
		accepted(t, body)
		if t.Failed() {
			t.Fatalf("that was %s", name)
		}
	}
}

// Deviations of the upstream are kept to, and what they cost is told.
func TestDeviationsOfTheUpstream(t *testing.T) {
	t.Parallel()
	yes := true
	schema := []byte(`{"type":"object","properties":{},"required":[],"additionalProperties":false}`)
	r := asked(llm.Message{Role: llm.RoleSystem, Developer: true, Parts: []llm.Part{text("be brief")}}, says(llm.RoleUser, text("hi")))
	r.Tools = []llm.Tool{{Name: "f", Schema: schema, Strict: &yes}}
	r.Temperature, r.TopP = "0.5", "0.9"
	r.Format = llm.Format{Kind: llm.FormatSchema, Name: "x", Schema: schema, Strict: &yes}
	r.Extras = []llm.Extra{{Feature: llm.FeatureStore, Field: "store", Raw: []byte("false")}}
	c := conversion(protocol.OpenAIChat)
	c.Compat = &configv1.Compat{NoDeveloperRole: true, NoStrict: true, NoStore: true, NoSampling: true}
	c.MaxOutput, r.MaxOutputTokens = 100, 1000
	body := encode(t, r, c)
	same(t, body, `{"model":"upstream","input":[{"type":"message","role":"system","content":[{"type":"input_text","text":"be brief"}]},`+userHi+`],
		"tools":[{"type":"function","name":"f","parameters":`+string(schema)+`}],"text":{"format":{"type":"json_schema","name":"x","schema":`+string(schema)+`}},"max_output_tokens":100}`)
	wantLost(t, c, "max_tokens=substitute", "schema_strict=drop", "temperature=drop", "tool_strict=drop", "top_p=drop")

	r = asked()
	r.Format = llm.Format{Kind: llm.FormatSchema, Schema: schema}
	c = conversion(protocol.Anthropic)
	c.Compat = &configv1.Compat{NoJsonSchema: true}
	refused(t, r, c, fault.RequestNotSupported, "json_schema")
	c.Options = protocol.Options{"*": protocol.Substitute}
	body = encode(t, r, c)
	if !strings.Contains(body, `"format":{"type":"json_object"}`) || !strings.Contains(body, "follows this JSON Schema") {
		t.Errorf("got %s", body)
	}

	r = asked()
	r.Tools, r.OneCall = []llm.Tool{{Name: "f"}}, true
	c = conversion(protocol.Anthropic)
	c.Compat = &configv1.Compat{NoParallelToolCalls: true}
	refused(t, r, c, fault.RequestNotSupported, "parallel_tool_calls")
}

func TestLimitsAndNames(t *testing.T) {
	t.Parallel()
	r := asked()
	r.MaxOutputTokens, r.User = 1, strings.Repeat("u", 65)
	c := conversion(protocol.Anthropic)
	body := encode(t, r, c)
	if got := member(t, body, "max_output_tokens"); jsonString(t, got) != "16" {
		t.Errorf("limit %v, want the least that is taken", got)
	}
	if got := member(t, body, "safety_identifier").(string); len(got) != 64 || strings.Contains(got, "u") {
		t.Errorf("user %v", got)
	}
	wantLost(t, c, "max_tokens=substitute", "user=substitute")
	accepted(t, body)
}

// Chat's own words for what both protocols have.
func TestOptionsOfAChatCaller(t *testing.T) {
	t.Parallel()
	r := asked()
	r.Extras = append(r.Extras, []llm.Extra{
		{Feature: llm.FeatureVerbosity, Field: "verbosity", Raw: []byte(`"low"`)},
		{Feature: llm.FeatureMetadata, Field: "metadata", Raw: []byte(`{"a":"b"}`)},
		{Feature: llm.FeatureServiceTier, Field: "service_tier", Raw: []byte(`"flex"`)},
		{Feature: llm.FeatureUser, Field: "user", Raw: []byte(`"u"`)},
		{Feature: llm.FeatureCacheLifetime, Field: "prompt_cache_retention", Raw: []byte(`"24h"`)},
		{Feature: llm.FeatureCacheMark, Field: "prompt_cache_options.mode", Raw: []byte(`"explicit"`)},
		{Feature: llm.FeatureCacheLifetime, Field: "prompt_cache_options.ttl", Raw: []byte(`"12h"`)},
		{Feature: llm.FeatureStreamOption, Field: "stream_options.include_obfuscation", Raw: []byte(`false`)},
		{Feature: llm.FeatureLegacyFunctions, Field: "functions", Raw: []byte(`[]`)},
	}...)
	r.User = "s"
	c := conversion(protocol.OpenAIChat)
	c.Stream = true
	body := encode(t, r, c)
	same(t, body, `{"model":"upstream","input":[`+userHi+`],"text":{"verbosity":"low"},"safety_identifier":"s","prompt_cache_retention":"24h","metadata":{"a":"b"},
		"service_tier":"flex","user":"u","prompt_cache_options":{"mode":"explicit","ttl":"12h"},"store":false,"stream":true,"stream_options":{"include_obfuscation":false}}`)
	wantLost(t, c, "functions=substitute")
	accepted(t, body)
}

func TestTiersOfOtherVendors(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]any{`"standard_only"`: "default", `"auto"`: nil, `"PRIORITY"`: "priority", `"flex"`: "flex"} {
		r := asked()
		r.Extras = []llm.Extra{{Feature: llm.FeatureServiceTier, Field: "service_tier", Raw: []byte(raw)}}
		c := conversion(protocol.Gemini)
		if got := member(t, encode(t, r, c), "service_tier"); got != want {
			t.Errorf("%s: %v, want %v", raw, got, want)
		}
		wantLost(t, c)
	}
}

// What says what is so anyway is no loss.
func TestDefaultsOfOtherVendorsAreNoLoss(t *testing.T) {
	t.Parallel()
	r := asked()
	r.Extras = []llm.Extra{{Feature: llm.FeatureSpeed, Field: "speed", Raw: []byte(`"standard"`)}, {Feature: llm.FeatureOutputModality, Field: "responseModalities", Raw: []byte(`["TEXT"]`)}}
	c := conversion(protocol.Anthropic)
	same(t, encode(t, r, c), `{"model":"upstream","input":[`+userHi+`],"store":false}`)
	wantLost(t, c)
}

// A system message is never parted from its place, and one alone is no instruction.
func TestSystemMessagesKeepTheirPlace(t *testing.T) {
	t.Parallel()
	c := conversion(protocol.Anthropic)
	body := encode(t, asked(says(llm.RoleSystem, text("a"), text("b")), says(llm.RoleUser, text("hi")), says(llm.RoleSystem, text("c"))), c)
	same(t, string(jsonOf(t, member(t, body, "input"))), `[{"type":"message","role":"system","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]},`+userHi+`,
		{"type":"message","role":"system","content":[{"type":"input_text","text":"c"}]}]`)
	wantLost(t, c)
	accepted(t, body)
	body = encode(t, asked(says(llm.RoleSystem, text("a"))), conversion(protocol.OpenAIChat))
	if member(t, body, "instructions") != nil || member(t, body, "input", 0, "role") != "system" {
		t.Errorf("got %s", body)
	}
}

func TestRefusalsAndSourcesOfHistory(t *testing.T) {
	t.Parallel()
	answer := llm.Part{Kind: llm.PartText, Text: "a", Citations: []llm.Citation{{URL: "https://a.example/", Title: "A", Start: 0, End: 1}, {Text: "cited", Raw: []byte(`{"type":"char_location"}`)}}}
	c := conversion(protocol.Anthropic)
	body := encode(t, asked(says(llm.RoleUser, text("hi")), says(llm.RoleAssistant, answer, llm.Part{Kind: llm.PartRefusal, Text: "no"}), says(llm.RoleUser, text("why"))), c)
	same(t, string(jsonOf(t, member(t, body, "input", 1))), `{"type":"message","role":"assistant","content":[
		{"type":"output_text","text":"a","annotations":[{"type":"url_citation","start_index":0,"end_index":1,"url":"https://a.example/","title":"A"}]},{"type":"refusal","refusal":"no"}]}`)
	wantLost(t, c, "citation_history=drop")
	accepted(t, body)
}
