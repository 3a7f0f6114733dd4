package gemini_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/gemini"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/stateid"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

func TestThePathSaysModelAndStream(t *testing.T) {
	t.Parallel()
	r, f := gemini.New().DecodeRequest([]byte(`{"contents":[{"parts":[{"text":"Hi"}]}]}`), protocol.Target{Model: "m", Stream: true})
	if f != nil || r.Model != "m" || !r.Stream {
		t.Errorf("model %q, stream %v, %v; want m, true", r.Model, r.Stream, f)
	}
}

// The role may stand after the parts, as the vendor's Go SDK writes it, and names may be
// those of the .proto files.
func TestConversationsBecomeMessages(t *testing.T) {
	t.Parallel()
	r := decode(t, `{
		"contents":[
			{"parts":[{"text":"Look"},{"inline_data":{"mime_type":"image/png","data":"QUJD"}}],"role":"user"},
			{"parts":[{"thought":true,"text":"Hm","thoughtSignature":"c2ln"},{"text":"Well"},{"functionCall":{"name":"f","args":{"b":1,"a":2.0}}}],"role":"model"},
			{"parts":[{"functionResponse":{"name":"f","response":{"n":9007199254740993}}},{"text":"And?"}],"role":"function"}],
		"systemInstruction":{"role":"user","parts":[{"text":"Short"},{"text":""}]}}`)
	want := []llm.Message{
		{Role: llm.RoleSystem, Parts: []llm.Part{{Text: "Short"}}},
		{Role: llm.RoleUser, Parts: []llm.Part{{Text: "Look"}, {Kind: llm.PartMedia, Media: &llm.Media{Kind: llm.Image, MIME: "image/png", Data: "QUJD"}}}},
		{Role: llm.RoleAssistant, Parts: []llm.Part{
			{Kind: llm.PartReasoning, Text: "Hm", State: &llm.State{Kind: llm.GeminiSignature, Data: "c2ln"}},
			{Text: "Well"},
			call("gwc_1", "f", `{"b":1,"a":2.0}`),
		}},
		{Role: llm.RoleTool, Parts: []llm.Part{{Kind: llm.PartResult, Result: &llm.Result{CallID: "gwc_1", Name: "f", Raw: `{"n":9007199254740993}`}}}},
		{Role: llm.RoleUser, Parts: []llm.Part{{Text: "And?"}}},
	}
	if diff := cmp.Diff(want, r.Messages); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Results find their calls by id, else by name and order. Ids are made by position, so
// that they stay the same while the conversation grows.
func TestConvT10_CallsWithoutIDsAreToldApart(t *testing.T) {
	t.Parallel()
	turn := func(calls, results string) string {
		return `{"role":"model","parts":[` + calls + `]},{"role":"user","parts":[` + results + `]}`
	}
	f, g := `{"functionCall":{"name":"f"}}`, `{"functionCall":{"name":"g"}}`
	rf, rg := `{"functionResponse":{"name":"f","response":{"output":"1"}}}`, `{"functionResponse":{"name":"g","response":{"output":"2"}}}`
	ids := func(r *llm.Request) (calls, results []string) {
		for _, m := range r.Messages {
			for _, p := range m.Parts {
				switch p.Kind {
				case llm.PartCall:
					calls = append(calls, p.Call.ID)
				case llm.PartResult:
					results = append(results, p.Result.CallID)
				}
			}
		}
		return calls, results
	}
	for name, tc := range map[string]struct {
		turns          string
		calls, results string
	}{
		"same function, two turns":         {turn(f, rf) + "," + turn(f, rf), "gwc_1 gwc_2", "gwc_1 gwc_2"},
		"same function twice":              {turn(f+","+f, rf+","+rf), "gwc_1 gwc_2", "gwc_1 gwc_2"},
		"other order":                      {turn(f+","+g, rg+","+rf), "gwc_1 gwc_2", "gwc_2 gwc_1"},
		"ids beside none":                  {turn(`{"functionCall":{"id":"x","name":"f"}},`+f, `{"functionResponse":{"id":"x","name":"f","response":{}}},`+rf), "x gwc_1", "x gwc_1"},
		"an id that the call did not have": {turn(f, `{"functionResponse":{"id":"y","name":"f","response":{}}}`), "gwc_1", "gwc_1"},
		"a result without the call's id":   {turn(`{"functionCall":{"id":"x","name":"f"}}`, rf), "x", "x"},
		"an id of no call":                 {turn(`{"functionCall":{"id":"x","name":"f"}}`, `{"functionResponse":{"id":"y","name":"f","response":{}}}`), "x", "y"},
		"no call of the name":              {turn(f, rg), "gwc_1", "g"},
	} {
		r := decode(t, `{"contents":[{"role":"user","parts":[{"text":"Hi"}]},`+tc.turns+`]}`)
		calls, results := ids(r)
		if got := strings.Join(calls, " "); got != tc.calls {
			t.Errorf("%s: calls %s, want %s", name, got, tc.calls)
		}
		if got := strings.Join(results, " "); got != tc.results {
			t.Errorf("%s: results %s, want %s", name, got, tc.results)
		}
	}
}

func TestResultsAreTextsWhereTheVendorSaysSo(t *testing.T) {
	t.Parallel()
	image := `,"parts":[{"inlineData":{"mimeType":"image/png","data":"QUJD"}}]`
	media := llm.Part{Kind: llm.PartMedia, Media: &llm.Media{Kind: llm.Image, MIME: "image/png", Data: "QUJD"}}
	for name, tc := range map[string]struct {
		result string
		want   llm.Result
	}{
		"output":             {`"response":{"output":"yes"}`, llm.Result{Parts: []llm.Part{{Text: "yes"}}}},
		"error":              {`"response":{"error":"no"}`, llm.Result{Parts: []llm.Part{{Text: "no"}}, Error: true}},
		"output is no text":  {`"response":{"output":[1]}`, llm.Result{Raw: `{"output":[1]}`}},
		"error is no text":   {`"response":{"error":{"code":1}}`, llm.Result{Raw: `{"error":{"code":1}}`}},
		"more than output":   {`"response":{"output":"a","b":1}`, llm.Result{Raw: `{"output":"a","b":1}`}},
		"another name":       {`"response":{"result":"a"}`, llm.Result{Raw: `{"result":"a"}`}},
		"nothing":            {`"response":{}`, llm.Result{Raw: `{}`}},
		"no response":        {`"response":null`, llm.Result{Raw: `{}`}},
		"text and image":     {`"response":{"output":"yes"}` + image, llm.Result{Parts: []llm.Part{{Text: "yes"}, media}}},
		"image alone":        {`"response":{}` + image, llm.Result{Parts: []llm.Part{media}}},
		"value and an image": {`"response":{"a":1}` + image, llm.Result{Parts: []llm.Part{{Text: `{"a":1}`}, media}}},
	} {
		r := decode(t, `{"contents":[{"role":"user","parts":[{"text":"Hi"}]},{"role":"model","parts":[{"functionCall":{"name":"f"}}]},
			{"role":"user","parts":[{"functionResponse":{"name":"f",`+tc.result+`}}]}]}`)
		tc.want.CallID, tc.want.Name = "gwc_1", "f"
		if diff := cmp.Diff(&tc.want, r.Messages[2].Parts[0].Result); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestSettingsHaveTheirPlaces(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		members string
		want    llm.Request
	}{
		"sampling": {
			`"generationConfig":{"temperature":1.0,"topP":0.9,"topK":40.0,"maxOutputTokens":9,"stopSequences":["a",""]}`,
			llm.Request{Temperature: "1.0", TopP: "0.9", TopK: "40.0", MaxOutputTokens: 9, Stop: []string{"a"}},
		},
		"json":        {`"generationConfig":{"responseMimeType":"application/json"}`, llm.Request{Format: llm.Format{Kind: llm.FormatJSON}}},
		"plain":       {`"generationConfig":{"responseMimeType":"text/plain"}`, llm.Request{}},
		"schema":      {`"generationConfig":{"responseJsonSchema":{"type":"object"}}`, llm.Request{Format: llm.Format{Kind: llm.FormatSchema, Schema: []byte(`{"type":"object"}`)}}},
		"openapi":     {`"generationConfig":{"responseSchema":{"type":"STRING"}}`, llm.Request{Format: llm.Format{Kind: llm.FormatSchema, Schema: []byte(`{"type":"string"}`)}}},
		"level":       {`"generationConfig":{"thinkingConfig":{"thinkingLevel":"HIGH","includeThoughts":true}}`, llm.Request{Reasoning: llm.Reasoning{Effort: llm.EffortHigh, Show: true}}},
		"budget":      {`"generationConfig":{"thinkingConfig":{"thinkingBudget":2048,"includeThoughts":false}}`, llm.Request{Reasoning: llm.Reasoning{Budget: 2048, Hide: true}}},
		"off":         {`"generationConfig":{"thinkingConfig":{"thinkingBudget":0}}`, llm.Request{Reasoning: llm.Reasoning{Off: true}}},
		"its choice":  {`"generationConfig":{"thinkingConfig":{"thinkingBudget":-1}}`, llm.Request{Reasoning: llm.Reasoning{Budget: -1}}},
		"auto":        {`"toolConfig":{"functionCallingConfig":{"mode":"AUTO"}}`, llm.Request{ToolChoice: llm.ToolChoice{Mode: llm.ChoiceAuto}}},
		"none":        {`"toolConfig":{"functionCallingConfig":{"mode":"NONE"}}`, llm.Request{ToolChoice: llm.ToolChoice{Mode: llm.ChoiceNone}}},
		"any":         {`"toolConfig":{"functionCallingConfig":{"mode":"any"}}`, llm.Request{ToolChoice: llm.ToolChoice{Mode: llm.ChoiceAny}}},
		"one":         {`"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f"]}}`, llm.Request{ToolChoice: llm.ToolChoice{Mode: llm.ChoiceTool, Names: []string{"f"}}}},
		"some":        {`"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f","g"]}}`, llm.Request{ToolChoice: llm.ToolChoice{Mode: llm.ChoiceAny, Names: []string{"f", "g"}}}},
		"unspecified": {`"toolConfig":{"functionCallingConfig":{"mode":"MODE_UNSPECIFIED"}}`, llm.Request{}},
		"server tools": {
			`"tools":[{"googleSearch":{},"functionDeclarations":[{"name":"f","description":"d","parametersJsonSchema":{ "type" : "object" }}]},{"code_execution":{}}]`,
			llm.Request{Tools: []llm.Tool{
				{Server: "googleSearch", Native: []byte(`{}`)},
				{Name: "f", Description: "d", Schema: []byte(`{ "type" : "object" }`)},
				{Server: "codeExecution", Native: []byte(`{}`)},
			}},
		},
		"unknown": {`"foo":1,"bar":null,"generationConfig":{"baz":{}}`, llm.Request{Unknown: []string{"foo", "generationConfig.baz"}}},
	} {
		r := decode(t, `{"contents":[{"parts":[{"text":"Hi"}]}],`+tc.members+`}`)
		tc.want.Model, tc.want.Messages = "public-model", []llm.Message{user("Hi")}
		if diff := cmp.Diff(&tc.want, r); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestWhatCannotBeUnderstoodNamesTheField(t *testing.T) {
	t.Parallel()
	with := func(members string) string { return `{"contents":[{"parts":[{"text":"Hi"}]}],` + members + `}` }
	part := func(p string) string {
		return `{"contents":[{"parts":[{"text":"Hi"}]},{"parts":[{"text":"a"},` + p + `]}]}`
	}
	for _, tc := range []struct{ body, param, text string }{
		{`[]`, "", "JSON object"},
		{`{}`, "contents", "at least one content"},
		{`{"contents":[]}`, "contents", "at least one content"},
		{`{"contents":5}`, "contents", "a list"},
		{`{"contents":[5]}`, "contents[0]", "an object"},
		{`{"contents":[{"role":"system","parts":[{"text":"Hi"}]}]}`, "contents[0].role", `"user" or "model"`},
		{part(`5`), "contents[1].parts[1]", "an object"},
		{part(`{"text":5}`), "contents[1].parts[1].text", "a string"},
		{part(`{"text":"a","inlineData":{"data":"QQ=="}}`), "contents[1].parts[1]", "not several"},
		{part(`{"inlineData":{"mimeType":"image/png"}}`), "contents[1].parts[1].inlineData.data", "base64"},
		{part(`{"fileData":{}}`), "contents[1].parts[1].fileData.fileUri", "URI"},
		{part(`{"functionCall":{"name":"f"}}`), "contents[1].parts[1].functionCall", "role model"},
		{`{"contents":[{"role":"model","parts":[{"functionResponse":{"name":"f","response":{}}}]}]}`, "contents[0].parts[0].functionResponse", "role user"},
		{`{"contents":[{"role":"model","parts":[{"functionCall":{"args":{}}}]}]}`, "contents[0].parts[0].functionCall.name", "name"},
		{`{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f","args":[]}}]}]}`, "contents[0].parts[0].functionCall.args", "an object"},
		{part(`{"videoMetadata":[]}`), "contents[1].parts[1].videoMetadata", "an object"},
		{with(`"systemInstruction":"Hi"`), "systemInstruction", "an object"},
		{with(`"systemInstruction":{"parts":[{"functionCall":{"name":"f"}}]}`), "systemInstruction.parts", "tool call"},
		{with(`"generationConfig":{"temperature":"1"}`), "generationConfig.temperature", "a number"},
		{with(`"generationConfig":{"maxOutputTokens":-1}`), "generationConfig.maxOutputTokens", "an integer of at least 0"},
		{with(`"generationConfig":{"maxOutputTokens":1.5}`), "generationConfig.maxOutputTokens", "an integer"},
		{with(`"generationConfig":{"stopSequences":"a"}`), "generationConfig.stopSequences", "a list"},
		{with(`"generationConfig":{"stopSequences":["a",2]}`), "generationConfig.stopSequences[1]", "a string"},
		{with(`"generationConfig":{"seed":"a"}`), "generationConfig.seed", "a number"},
		{with(`"generationConfig":{"thinkingConfig":{"thinkingLevel":"HUGE"}}`), "generationConfig.thinkingConfig.thinkingLevel", "MINIMAL, LOW"},
		{with(`"generationConfig":{"thinkingConfig":{"thinkingBudget":-2}}`), "generationConfig.thinkingConfig.thinkingBudget", "at least -1"},
		{with(`"generationConfig":{"responseSchema":[]}`), "generationConfig.responseSchema", "an object"},
		{with(`"toolConfig":{"functionCallingConfig":{"mode":"MAYBE"}}`), "toolConfig.functionCallingConfig.mode", "AUTO, ANY, NONE, VALIDATED"},
		{with(`"tools":[{"functionDeclarations":[{"description":"d"}]}]`), "tools[0].functionDeclarations[0].name", "name"},
		{with(`"tools":[{"googleSearch":true}]`), "tools[0].googleSearch", "an object"},
		{with(`"safetySettings":"off"`), "safetySettings", "a list"},
		{with(`"store":"no"`), "store", "true or false"},
	} {
		f := refused(t, tc.body)
		if f.Class != fault.InvalidRequest || f.Param != tc.param || !strings.Contains(f.Public, tc.text) {
			t.Errorf("%s\ngives %s, param %q, %q\nwant param %q and %q in the text", tc.body, f.Class, f.Param, f.Public, tc.param, tc.text)
		}
	}
}

func TestListsAreBounded(t *testing.T) {
	t.Parallel()
	many := func(n int, element string) string { return strings.TrimSuffix(strings.Repeat(element+",", n), ",") }
	for _, tc := range []struct{ body, param string }{
		{`{"contents":[` + many(100_001, `{}`) + `]}`, "contents"},
		{`{"contents":[{"parts":[` + many(10_001, `{"text":"a"}`) + `]}]}`, "contents[0].parts"},
		{`{"contents":[{"parts":[{"text":"a"}]}],"tools":[` + many(1025, `{"googleSearch":{}}`) + `]}`, "tools"},
		{`{"contents":[{"parts":[{"text":"a"}]}],"tools":[{"functionDeclarations":[` + many(600, `{"name":"a"}`) + `]},{"functionDeclarations":[` + many(600, `{"name":"a"}`) + `]}]}`, "tools"},
		{`{"contents":[{"parts":[{"text":"a"}]}],"generationConfig":{"stopSequences":[` + many(65, `"a"`) + `]}}`, "generationConfig.stopSequences"},
	} {
		if f := refused(t, tc.body); f.Param != tc.param {
			t.Errorf("param %q, want %q", f.Param, tc.param)
		}
	}
}

// A token is a text in the place of bytes. SDKs decode the place as base64 and send it
// back in either alphabet.
func TestTokensTravelAsSignatures(t *testing.T) {
	t.Parallel()
	key, err := stateid.NewKey(secret.FromBytes([]byte(strings.Repeat("k", stateid.KeySize))))
	if err != nil {
		t.Fatal(err)
	}
	token := key.Seal(stateid.AnthropicSignature, "scope", strings.Repeat("state?>~", 20))
	a := &llm.Answer{Parts: []llm.Part{
		{Kind: llm.PartReasoning, Text: "Hm", State: &llm.State{Kind: llm.GeminiSignature, Data: token}},
		{Text: "Hello", State: &llm.State{Kind: llm.GeminiSignature, Data: "EqQBCqEB"}},
	}, Stop: llm.Stop{Reason: llm.StopEnd}}
	body, f := gemini.New().EncodeAnswer(a, own())
	if f != nil {
		t.Fatal(f)
	}
	parts := at(t, value(t, body), "candidates", 0, "content", "parts")
	sent, _ := at(t, parts, 0, "thoughtSignature").(string)
	raw, err := base64.StdEncoding.DecodeString(sent)
	if err != nil {
		t.Fatalf("an SDK cannot read the signature %q: %v", sent, err)
	}
	if got := at(t, parts, 1, "thoughtSignature"); got != "EqQBCqEB" {
		t.Errorf("the provider's own signature became %v", got)
	}
	for _, back := range []string{sent, base64.URLEncoding.EncodeToString(raw), base64.RawURLEncoding.EncodeToString(raw)} {
		r := decode(t, `{"contents":[{"role":"user","parts":[{"text":"Hi"}]},{"role":"model","parts":[{"text":"Hm","thought":true,"thoughtSignature":"`+back+`"}]}]}`)
		if got := r.Messages[1].Parts[0].State; got == nil || got.Data != token {
			t.Errorf("%q comes back as %+v, want the token", back, got)
		}
	}
}

func TestSchemasOfOpenAPIBecomeJSONSchema(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ schema, want string }{
		"types":              {`{"type":"OBJECT","properties":{"a":{"type":"Array","items":{"type":"INTEGER"}}}}`, `{"type":"object","properties":{"a":{"items":{"type":"integer"},"type":"array"}}}`},
		"untouched":          {`{ "type":"object", "properties":{"a":{"type":["string","null"]}}, "additionalProperties":false, "$defs":{"x":{"type":"string"}} }`, `{ "type":"object", "properties":{"a":{"type":["string","null"]}}, "additionalProperties":false, "$defs":{"x":{"type":"string"}} }`},
		"nullable":           {`{"type":"STRING","nullable":true}`, `{"type":["string","null"]}`},
		"not nullable":       {`{"type":"STRING","nullable":false}`, `{"type":"string"}`},
		"nullable enum":      {`{"type":"STRING","format":"enum","enum":["A","B"],"nullable":true}`, `{"type":["string","null"],"enum":["A","B",null]}`},
		"nullable choice":    {`{"anyOf":[{"type":"STRING"},{"type":"NUMBER"}],"nullable":true}`, `{"anyOf":[{"type":"string"},{"type":"number"},{"type":"null"}]}`},
		"unspecified":        {`{"type":"TYPE_UNSPECIFIED","description":"TYPE"}`, `{"description":"TYPE"}`},
		"values are values":  {`{"type":"STRING","default":"STRING","enum":["STRING","OBJECT"],"example":{"type":"STRING"}}`, `{"type":"string","default":"STRING","enum":["STRING","OBJECT"],"examples":[{"type":"STRING"}]}`},
		"64 bits as strings": {`{"type":"ARRAY","minItems":"1","maxItems":9}`, `{"minItems":1,"maxItems":9,"type":"array"}`},
		"names of members":   {`{"type":"OBJECT","properties":{"any_of":{"type":"STRING"},"type":{"type":"STRING"},"nullable":{"type":"BOOLEAN"}},"required":["any_of"]}`, `{"required":["any_of"],"type":"object","properties":{"any_of":{"type":"string"},"type":{"type":"string"},"nullable":{"type":"boolean"}}}`},
		"names of fields":    {`{"any_of":[{"type":"STRING"}],"min_length":2}`, `{"minLength":2,"anyOf":[{"type":"string"}]}`},
		"order":              {`{"type":"OBJECT","propertyOrdering":["c","a","x"],"properties":{"a":{},"b":{},"c":{}}}`, `{"type":"object","properties":{"c":{},"a":{},"b":{}}}`},
		"deep":               {`{"type":"object","properties":{"a":{"additionalProperties":{"oneOf":[{"not":{"type":"NULL"}}]}}}}`, `{"type":"object","properties":{"a":{"additionalProperties":{"oneOf":[{"not":{"type":"null"}}]}}}}`},
	} {
		r := decode(t, `{"contents":[{"parts":[{"text":"Hi"}]}],"tools":[{"functionDeclarations":[{"name":"f","parameters":`+tc.schema+`}]}]}`)
		got := r.Tools[0].Schema
		if name == "untouched" && string(got) != tc.schema {
			t.Errorf("%s: got %s", name, got)
		}
		if diff := cmp.Diff(value(t, []byte(tc.want)), value(t, got)); diff != "" {
			t.Errorf("%s: got %s (-want +got):\n%s", name, got, diff)
		}
		if name == "order" && !strings.Contains(string(got), `{"c":{},"a":{},"b":{}}`) {
			t.Errorf("the properties are in the order %s", got)
		}
	}
}
