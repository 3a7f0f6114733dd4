package openaichat_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

// Other protocols always enforce a schema: so does Chat then, where the schema is one
// that it can enforce.
func TestSchemaOfAnotherProtocolIsEnforcedWhereItCanBe(t *testing.T) {
	t.Parallel()
	const closed = `{"type":"object","properties":{"a":{"type":"array","items":{"anyOf":[{"type":"string"},{"$ref":"#/$defs/d"}]}}},"required":["a"],"additionalProperties":false,
		"$defs":{"d":{"type":["object","null"],"properties":{"b":{"type":"number"}},"required":["b"],"additionalProperties":false}}}`
	for name, tc := range map[string]struct {
		schema string
		strict any
	}{
		"closed":              {closed, true},
		"optional property":   {strings.Replace(closed, `"required":["a"]`, `"required":[]`, 1), nil},
		"open object":         {strings.Replace(closed, `,"additionalProperties":false,`, `,`, 1), nil},
		"open inner object":   {strings.Replace(closed, `"required":["b"],"additionalProperties":false`, `"required":["b"]`, 1), nil},
		"word it lacks":       {strings.Replace(closed, "anyOf", "oneOf", 1), nil},
		"choice at the root":  {`{"type":"object","properties":{},"required":[],"additionalProperties":false,"anyOf":[]}`, nil},
		"no object":           {`{"type":"string"}`, nil},
		"another is required": {strings.Replace(closed, `"required":["a"]`, `"required":["c"]`, 1), nil},
		"anything goes":       {strings.Replace(closed, `{"type":"number"}`, `true`, 1), nil},
	} {
		r := asked()
		r.Format = llm.Format{Kind: llm.FormatSchema, Schema: []byte(tc.schema)}
		yes := true
		r.Tools = []llm.Tool{{Name: "f", Schema: []byte(tc.schema), Strict: &yes}}
		c := conversion(protocol.Anthropic)
		body := encode(t, r, c)
		if got := member(t, body, "response_format", "json_schema", "strict"); got != tc.strict {
			t.Errorf("%s: strict %v, want %v", name, got, tc.strict)
		}
		if got := member(t, body, "tools", 0, "function", "strict"); got != tc.strict {
			t.Errorf("%s: strict of the tool %v, want %v", name, got, tc.strict)
		}
		if tc.strict == nil {
			wantLost(t, c, "schema_strict=drop", "tool_strict=drop")
		} else {
			wantLost(t, c)
		}
		if !strings.Contains(body, tc.schema) {
			t.Errorf("%s: the schema was changed: %s", name, body)
		}
		if name != "no object" {
			accepted(t, body)
		}
	}
}

func TestLimitIsAtMostTheModelsOwn(t *testing.T) {
	t.Parallel()
	r := asked()
	r.MaxOutputTokens = 32000
	c := conversion(protocol.Anthropic)
	c.MaxOutput = 16384
	if got := fmt.Sprint(member(t, encode(t, r, c), "max_completion_tokens")); got != "16384" {
		t.Errorf("limit %s", got)
	}
	wantLost(t, c, "max_tokens=substitute")
}

// A long name of the end user is refused by the vendor; its hash tells users apart as well.
func TestLongUserIsHashed(t *testing.T) {
	t.Parallel()
	r := asked()
	r.User = strings.Repeat("u", 150)
	c := conversion(protocol.Anthropic)
	first := member(t, encode(t, r, c), "user").(string)
	if len(first) != 64 || first == r.User[:64] {
		t.Errorf("user %q", first)
	}
	wantLost(t, c, "user=substitute")
	c = conversion(protocol.Anthropic)
	c.Options = protocol.Options{"anthropic_messages.user": protocol.Drop}
	if got := member(t, encode(t, r, c), "user"); got != nil {
		t.Errorf("user %q, though it was to be dropped", got)
	}
}

// The upstream takes short ids of calls alone; call and result keep the same one.
func TestLongCallIDsAreShortenedAlike(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("x", 41)
	r := asked(says(llm.RoleUser, text("hi")), says(llm.RoleAssistant, call(id, "f", "{}"), call(id+"y", "f", "{}")),
		says(llm.RoleTool, result(id, text("1")), result(id+"y", text("2"))))
	body := encode(t, r, conversion(protocol.Anthropic))
	sent := member(t, body, "messages", 1, "tool_calls", 0, "id").(string)
	if len(sent) > 40 || sent != member(t, body, "messages", 2, "tool_call_id") || sent == member(t, body, "messages", 1, "tool_calls", 1, "id") {
		t.Errorf("got %s", body)
	}
	accepted(t, body)
}

// Names that Chat does not take are rewritten for the upstream and found again.
func TestToolOfANamespaceFindsBack(t *testing.T) {
	t.Parallel()
	r := asked(says(llm.RoleUser, text("hi")), says(llm.RoleAssistant, llm.Part{Kind: llm.PartCall, Call: &llm.Call{ID: "c", Namespace: "mcp__files__", Name: "read", Arguments: "{}"}}),
		says(llm.RoleTool, result("c", text("1"))))
	r.Tools = []llm.Tool{{Namespace: "mcp__files__", Name: "read"}, {Name: "server.search"}}
	r.ToolChoice = llm.ToolChoice{Mode: llm.ChoiceTool, Names: []string{"server.search"}}
	c := conversion(protocol.OpenAIResponses)
	body := encode(t, r, c)
	accepted(t, body)
	wantLost(t, c, "tool_namespace=substitute")
	dotted := member(t, body, "tools", 1, "function", "name").(string)
	if got := member(t, body, "messages", 1, "tool_calls", 0, "function", "name"); got != "mcp__files__read" {
		t.Errorf("the history calls %v", got)
	}
	if got := member(t, body, "tool_choice", "function", "name"); got != dotted {
		t.Errorf("the choice names %v, the tool is %v", got, dotted)
	}
	a, f := codec.DecodeAnswer([]byte(`{"choices":[{"message":{"tool_calls":[{"id":"1","function":{"name":"mcp__files__read","arguments":"{}"}},{"id":"2","function":{"name":"`+dotted+`","arguments":"{}"}}]}}]}`), c)
	if f != nil {
		t.Fatal(f)
	}
	if one, two := a.Parts[0].Call, a.Parts[1].Call; one.Namespace != "mcp__files__" || one.Name != "read" || two.Name != "server.search" || two.Namespace != "" {
		t.Errorf("the model calls %+v and %+v", one, two)
	}
}

// Breakpoints of the prompt cache are carried where Chat has a place for them.
func TestCacheMarksBecomeBreakpoints(t *testing.T) {
	t.Parallel()
	marked := func(c llm.Cache) *llm.Request {
		system, answer := text("long"), result("c", text("r"))
		system.Cache, answer.Cache = c, c
		return asked(says(llm.RoleSystem, text("first"), system), says(llm.RoleUser, text("hi")), says(llm.RoleAssistant, call("c", "f", "{}")), says(llm.RoleTool, answer))
	}
	const want = `{"model":"upstream","messages":[{"role":"system","content":[{"type":"text","text":"first"},{"type":"text","text":"long","prompt_cache_breakpoint":{"mode":"explicit"}}]},{"role":"user","content":"hi"},
		{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"r","prompt_cache_breakpoint":{"mode":"explicit"}}]}]}`
	c := conversion(protocol.Anthropic)
	body := encode(t, marked(llm.Cache5m), c)
	same(t, body, want)
	accepted(t, body)
	wantLost(t, c)

	refused(t, marked(llm.Cache1h), conversion(protocol.Anthropic), fault.RequestNotSupported, "cache_ttl")
	c.Options = protocol.Options{"anthropic_messages.cache_ttl": protocol.Substitute}
	same(t, encode(t, marked(llm.Cache1h), c), want)
	wantLost(t, c, "cache_ttl=substitute")

	c = conversion(protocol.Anthropic)
	c.Options = protocol.Options{"anthropic_messages.cache_control": protocol.Drop}
	if got := encode(t, marked(llm.Cache5m), c); strings.Contains(got, "breakpoint") {
		t.Errorf("marks were to be left out: %s", got)
	}
	wantLost(t, c, "cache_control=drop")

	r := asked()
	r.Tools = []llm.Tool{{Name: "f", Cache: llm.CacheDefault}}
	c = conversion(protocol.Anthropic)
	accepted(t, encode(t, r, c))
	wantLost(t, c, "cache_control=drop")
}

// What Chat cannot express of another protocol's content is refused by its name, and
// left out if the caller declares so.
func TestContentWithoutAPlace(t *testing.T) {
	t.Parallel()
	native := func(kind string) llm.Part {
		return llm.Part{Kind: llm.PartNative, Native: &llm.Native{Type: kind, Raw: []byte("{}")}}
	}
	for name, tc := range map[string]struct {
		role    llm.Role
		part    llm.Part
		feature string
	}{
		"video":              {llm.RoleUser, media(llm.Media{Kind: llm.Video, MIME: "video/mp4", Data: "AAAA"}), "video_input"},
		"flac":               {llm.RoleUser, media(llm.Media{Kind: llm.Audio, MIME: "audio/flac", Data: "AAAA"}), "audio_input"},
		"cloud image":        {llm.RoleUser, media(llm.Media{Kind: llm.Image, URL: "gs://b/a.png"}), "image_url"},
		"file of another":    {llm.RoleUser, media(llm.Media{Kind: llm.Document, FileID: "file_1"}), "file_id"},
		"image by id":        {llm.RoleUser, media(llm.Media{Kind: llm.Image, FileID: "file_1"}), "file_id"},
		"document by URL":    {llm.RoleUser, media(llm.Media{Kind: llm.Document, URL: "https://a.example/a.pdf"}), "document_url"},
		"cited document":     {llm.RoleUser, media(llm.Media{Kind: llm.Document, Text: "a", Cite: true}), "citations"},
		"search result":      {llm.RoleUser, native("search_result"), "search_result"},
		"server tool":        {llm.RoleAssistant, native("server_tool_use"), "server_tool"},
		"MCP":                {llm.RoleAssistant, native("mcp_tool_use"), "mcp"},
		"image of the model": {llm.RoleAssistant, media(png), "image"},
		"image of system":    {llm.RoleSystem, media(png), "image"},
	} {
		r := asked(says(llm.RoleUser, text("hi")), says(tc.role, tc.part), says(llm.RoleUser, text("go")))
		refused(t, r, conversion(protocol.Anthropic), fault.RequestNotSupported, tc.feature)
		c := conversion(protocol.Anthropic)
		c.Options = protocol.Options{"anthropic_messages." + tc.feature: protocol.Drop}
		body := encode(t, r, c)
		accepted(t, body)
		if len(c.Losses) != 1 || string(c.Losses[0].Feature) != tc.feature {
			t.Errorf("%s: lost %v", name, c.Losses)
		}
	}
}

// Documents come as files, or as text if that is what they are.
func TestDocumentsOfOtherProtocols(t *testing.T) {
	t.Parallel()
	r := asked(says(llm.RoleUser, media(llm.Media{Kind: llm.Document, MIME: "application/pdf", Data: "JVBERi0=", Name: "Report"}),
		media(llm.Media{Kind: llm.Document, MIME: "application/pdf", Data: "JVBERi0="}),
		media(llm.Media{Kind: llm.Document, MIME: "text/plain", Text: "Once.", Name: `A "b"`, Context: "a tale"}), text("sum up")))
	c := conversion(protocol.Anthropic)
	body := encode(t, r, c)
	same(t, body, `{"model":"upstream","messages":[{"role":"user","content":[
		{"type":"file","file":{"file_data":"data:application/pdf;base64,JVBERi0=","filename":"Report"}},
		{"type":"file","file":{"file_data":"data:application/pdf;base64,JVBERi0=","filename":"document.pdf"}},
		{"type":"text","text":"<document title=\"A &quot;b&quot;\">\n<context>a tale</context>\nOnce.\n</document>"},{"type":"text","text":"sum up"}]}]}`)
	wantLost(t, c)
	accepted(t, body)
}

// Options of other protocols that say what Chat does anyway lose nothing; those that
// it cannot do are refused or dropped as the table says.
func TestOptionsOfOtherProtocols(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		from    protocol.Name
		extra   llm.Extra
		member  string // that is written; empty for none
		written string
		lost    string
		refused bool
	}{
		{from: protocol.Gemini, extra: llm.Extra{Feature: llm.FeatureSeed, Field: "generationConfig.seed", Raw: []byte("7")}, member: "seed", written: "7"},
		{from: protocol.Gemini, extra: llm.Extra{Feature: llm.FeaturePenalty, Field: "generationConfig.frequencyPenalty", Raw: []byte("0.5")}, member: "frequency_penalty", written: "0.5"},
		{from: protocol.Gemini, extra: llm.Extra{Feature: llm.FeaturePenalty, Field: "generationConfig.presencePenalty", Raw: []byte("0.5")}, member: "presence_penalty", written: "0.5"},
		{from: protocol.OpenAIResponses, extra: llm.Extra{Feature: llm.FeatureVerbosity, Field: "text.verbosity", Raw: []byte(`"low"`)}, member: "verbosity", written: "low"},
		{from: protocol.OpenAIResponses, extra: llm.Extra{Feature: llm.FeatureStore, Field: "store", Raw: []byte("false")}, member: "store", written: "false"},
		{from: protocol.OpenAIResponses, extra: llm.Extra{Feature: llm.FeatureStore, Field: "store", Raw: []byte("true")}, refused: true},
		{from: protocol.OpenAIResponses, extra: llm.Extra{Feature: llm.FeatureServiceTier, Field: "service_tier", Raw: []byte(`"flex"`)}, member: "service_tier", written: "flex"},
		{from: protocol.OpenAIResponses, extra: llm.Extra{Feature: llm.FeatureServiceTier, Field: "service_tier", Raw: []byte(`"ultrafast"`)}, refused: true},
		{from: protocol.Anthropic, extra: llm.Extra{Feature: llm.FeatureServiceTier, Field: "service_tier", Raw: []byte(`"standard_only"`)}, member: "service_tier", written: "default"},
		{from: protocol.Anthropic, extra: llm.Extra{Feature: llm.FeatureServiceTier, Field: "service_tier", Raw: []byte(`"auto"`)}},
		{from: protocol.Gemini, extra: llm.Extra{Feature: llm.FeatureServiceTier, Field: "serviceTier", Raw: []byte(`"FLEX"`)}, member: "service_tier", written: "flex"},
		{from: protocol.OpenAIResponses, extra: llm.Extra{Feature: llm.FeatureCacheLifetime, Field: "prompt_cache_retention", Raw: []byte(`"24h"`)}, member: "prompt_cache_retention", written: "24h"},
		{from: protocol.OpenAIResponses, extra: llm.Extra{Feature: llm.FeatureTruncation, Field: "truncation", Raw: []byte(`"disabled"`)}},
		{from: protocol.OpenAIResponses, extra: llm.Extra{Feature: llm.FeatureTruncation, Field: "truncation", Raw: []byte(`"auto"`)}, refused: true},
		{from: protocol.OpenAIResponses, extra: llm.Extra{Feature: llm.FeatureBackground, Field: "background", Raw: []byte(`false`)}},
		{from: protocol.OpenAIResponses, extra: llm.Extra{Feature: llm.FeatureBackground, Field: "background", Raw: []byte(`true`)}, refused: true},
		{from: protocol.OpenAIResponses, extra: llm.Extra{Feature: llm.FeatureStoredState, Field: "previous_response_id", Raw: []byte(`"resp_1"`)}, refused: true},
		{from: protocol.OpenAIResponses, extra: llm.Extra{Feature: llm.FeatureInclude, Field: "include", Raw: []byte(`[]`)}, lost: "include=drop"},
		{from: protocol.OpenAIResponses, extra: llm.Extra{Feature: llm.FeatureMetadata, Field: "metadata", Raw: []byte(`{"a":"b"}`)}, lost: "metadata=drop"},
		{from: protocol.Anthropic, extra: llm.Extra{Feature: llm.FeatureSpeed, Field: "speed", Raw: []byte(`"standard"`)}},
		{from: protocol.Anthropic, extra: llm.Extra{Feature: llm.FeatureCacheMark, Field: "cache_control", Raw: []byte(`{"type":"ephemeral"}`)}},
		{from: protocol.Anthropic, extra: llm.Extra{Feature: llm.FeatureCacheMark, Field: "cache_control", Raw: []byte(`{"type":"ephemeral","ttl":"1h"}`)}, refused: true},
		{from: protocol.Anthropic, extra: llm.Extra{Feature: llm.FeatureImageDetail, Field: "messages[0].content[0].transformations", Raw: []byte(`{}`)}, lost: "image_detail=drop"},
		{from: protocol.Anthropic, extra: llm.Extra{Feature: llm.FeatureSpeed, Field: "speed", Raw: []byte(`"fast"`)}, refused: true},
		{from: protocol.Anthropic, extra: llm.Extra{Feature: llm.FeatureResidency, Field: "inference_geo", Raw: []byte(`"us"`)}, refused: true},
		{from: protocol.Anthropic, extra: llm.Extra{Feature: llm.FeatureContextEdit, Field: "context_management", Raw: []byte(`{}`)}, lost: "context_management=drop"},
		{from: protocol.Gemini, extra: llm.Extra{Feature: llm.FeatureSafety, Field: "safetySettings", Raw: []byte(`[{"category":"A","threshold":"BLOCK_NONE"},{"category":"B","threshold":"OFF"}]`)}},
		{from: protocol.Gemini, extra: llm.Extra{Feature: llm.FeatureSafety, Field: "safetySettings", Raw: []byte(`[{"category":"A","threshold":"BLOCK_NONE"},{"category":"B","threshold":"BLOCK_LOW_AND_ABOVE"}]`)}, refused: true},
		{from: protocol.Gemini, extra: llm.Extra{Feature: llm.FeatureMediaResolution, Field: "generationConfig.mediaResolution", Raw: []byte(`"LOW"`)}, lost: "media_resolution=drop"},
		{from: protocol.Gemini, extra: llm.Extra{Feature: llm.FeatureCachedContent, Field: "cachedContent", Raw: []byte(`"cachedContents/a"`)}, refused: true},
	} {
		name := fmt.Sprintf("%s %s", tc.extra.Field, tc.extra.Raw)
		r := asked()
		r.Extras = []llm.Extra{tc.extra}
		c := conversion(tc.from)
		if tc.refused {
			refused(t, r, c, fault.RequestNotSupported, tc.extra.Field)
			continue
		}
		body := encode(t, r, c)
		accepted(t, body)
		if tc.member != "" {
			if got := fmt.Sprint(member(t, body, tc.member)); got != tc.written {
				t.Errorf("%s: %s is %s, want %s", name, tc.member, got, tc.written)
			}
		} else {
			same(t, body, `{"model":"upstream","messages":[{"role":"user","content":"hi"}]}`)
		}
		if tc.lost != "" {
			wantLost(t, c, tc.lost)
		} else {
			wantLost(t, c)
		}
	}
}

// A choice of tools without tools is refused by the vendor, and says nothing.
func TestChoiceWithoutToolsIsLeftOut(t *testing.T) {
	t.Parallel()
	r := asked()
	r.ToolChoice.Mode, r.OneCall = llm.ChoiceAuto, true
	body := encode(t, r, conversion(protocol.Anthropic))
	same(t, body, `{"model":"upstream","messages":[{"role":"user","content":"hi"}]}`)
}

func TestToolChoices(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]llm.ToolChoice{
		`"none"`:     {Mode: llm.ChoiceNone},
		`"auto"`:     {Mode: llm.ChoiceAuto},
		`"required"`: {Mode: llm.ChoiceAny},
		`{"type":"function","function":{"name":"f"}}`: {Mode: llm.ChoiceTool, Names: []string{"f"}},
		`{"type":"custom","custom":{"name":"run"}}`:   {Mode: llm.ChoiceTool, Names: []string{"run"}},
		`{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"f"}}]}}`: {Mode: llm.ChoiceAny, Names: []string{"f"}},
	} {
		r := asked()
		r.Tools = []llm.Tool{{Name: "f"}, {Name: "run", Custom: true, Grammar: []byte(`{"type":"grammar","syntax":"regex","definition":"a+"}`)}}
		r.ToolChoice = c
		body := encode(t, r, conversion(protocol.OpenAIResponses))
		if !strings.Contains(body, `"tool_choice":`+want) {
			t.Errorf("got %s, want the choice %s", body, want)
		}
		if !strings.Contains(body, `"format":{"type":"grammar","grammar":{"syntax":"regex","definition":"a+"}}`) {
			t.Errorf("the grammar of Responses is not in Chat's form: %s", body)
		}
		accepted(t, body)
	}
}

func TestProvidersToolsAreRefused(t *testing.T) {
	t.Parallel()
	for server, feature := range map[string]string{"web_search_20260101": "web_search", "googleSearch": "web_search", "mcp": "mcp", "code_execution_20250825": "server_tool"} {
		r := asked()
		r.Tools = []llm.Tool{{Server: server, Native: []byte(`{}`)}}
		refused(t, r, conversion(protocol.Anthropic), fault.RequestNotSupported, feature)
	}
}

// The conversation of the turns before has the same bytes in every request, so that
// the upstream's prompt cache finds it.
func TestHistoryKeepsItsBytesAsItGrows(t *testing.T) {
	t.Parallel()
	turns := []llm.Message{
		says(llm.RoleSystem, text("be brief")), says(llm.RoleUser, text("hi"), media(png)),
		says(llm.RoleAssistant, text("so"), call("a", "f", "{}"), call("b", "f", `{"x":1}`)), says(llm.RoleTool, result("a", media(png)), result("b", text("2"))),
		says(llm.RoleAssistant, text("done")), says(llm.RoleUser, text("more")),
	}
	before := ""
	for _, n := range []int{2, 4, 5, 6} {
		got := encode(t, asked(turns[:n]...), conversion(protocol.Anthropic))
		got = strings.TrimSuffix(got, "]}")
		if !strings.HasPrefix(got, before) {
			t.Errorf("after %d messages\n%s\nbegan as\n%s", n, got, before)
		}
		before = got
	}
}
