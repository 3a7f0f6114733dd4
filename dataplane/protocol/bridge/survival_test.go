package bridge_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

// rows runs f for each field with an example, of each protocol, with each other target.
func rows(t *testing.T, f func(t *testing.T, p pair, field protocol.Field, s protocol.Support)) {
	t.Helper()
	others(t, func(t *testing.T, p pair) {
		for _, field := range codec(p.from).Fields() {
			if field.Example == "" {
				continue
			}
			t.Run(field.Path, func(t *testing.T) { f(t, p, field, codec(p.to).Support(field.Feature)) })
		}
	})
}

// try converts the example of a field.
func try(t *testing.T, p pair, example string, o protocol.Options) (*exchange, *fault.Error) {
	t.Helper()
	settings := []setting{options(o)}
	if strings.Contains(example, `"stream_options"`) {
		settings = append(settings, streaming)
	}
	x := prepare(t, p, example, settings...)
	var f *fault.Error
	x.conv, f = x.call.Convert(x.target)
	return x, f
}

// lost is what was done with a feature; 0 if it was not lost.
func lost(x *exchange, f llm.Feature) protocol.Action {
	for entry := range strings.SplitSeq(x.conv.Lossy(), ", ") {
		if name, action, _ := strings.Cut(entry, "="); name == string(f) {
			a, _ := protocol.ParseAction(action)
			return a
		}
	}
	return 0
}

func feature(p protocol.Name, f llm.Feature) string { return string(p) + "." + string(f) }

// partOf are features that are lost with another one, and then not told beside it.
var partOf = map[llm.Feature]llm.Feature{
	llm.FeatureCacheLifetime: llm.FeatureCacheMark,   // of a mark
	llm.FeatureCitations:     llm.FeatureResultMedia, // of a document
}

// What the table says to be without an equal meets the table's own action unless
// another one was declared: refused it is named, left out or replaced it is told.
func TestField_F92_FieldWithoutAnEqualMeetsTheActionOfTheTable(t *testing.T) {
	t.Parallel()
	rows(t, func(t *testing.T, p pair, field protocol.Field, s protocol.Support) {
		if s.Fate != protocol.Inexpressible {
			return
		}
		if x, f := try(t, p, field.Example, protocol.Options{"*": protocol.Drop}); f == nil && lost(x, partOf[field.Feature]) != 0 {
			return // it is lost with what it is a part of
		}
		// What else the example has is left out, so that the field at hand decides.
		rest := protocol.Options{"*": protocol.Drop}
		with := func(a protocol.Action) protocol.Options {
			o := protocol.Options{"*": protocol.Drop}
			o[feature(p.from, field.Feature)] = a
			return o
		}
		x, f := try(t, p, field.Example, with(s.Default))
		switch {
		case s.Default == protocol.Reject && (f == nil || f.Class != fault.RequestNotSupported || !strings.Contains(f.Public, string(field.Feature)) || !strings.Contains(f.Public, string(p.to))):
			t.Errorf("the table says reject; got %v", f)
		case s.Default != protocol.Reject && f != nil && f.Class == fault.InvalidRequest:
			return // nothing else was said
		case s.Default != protocol.Reject && f != nil:
			t.Errorf("the table says %s; got %v (%s)", s.Default, f, f.Public)
		case s.Default != protocol.Reject && lost(x, field.Feature) != s.Default:
			t.Errorf("the table says %s; told is %q\nsent %s", s.Default, x.conv.Lossy(), x.conv.Body)
		}

		if _, f = try(t, p, field.Example, with(protocol.Reject)); f == nil {
			t.Error("reject was declared, and the call passed")
		}
		if x, f = try(t, p, field.Example, rest); f != nil {
			if f.Class == fault.InvalidRequest {
				return // nothing else was said
			}
			t.Fatalf("drop was declared; got %v (%s)", f, f.Public)
		}
		if lost(x, field.Feature) != protocol.Drop {
			t.Errorf("drop was declared; told is %q", x.conv.Lossy())
		}
		accept(t, x, field)
	})
}

// What the table says to be carried or mapped passes, or is told as lost where the
// table's note bounds it. It is never lost in silence.
func TestField_F92_FieldWithAnEqualIsCarriedOrTold(t *testing.T) {
	t.Parallel()
	rows(t, func(t *testing.T, p pair, field protocol.Field, s protocol.Support) {
		if s.Fate == protocol.Inexpressible {
			return
		}
		o := protocol.Options{"*": protocol.Drop}
		x, f := try(t, p, field.Example, o)
		if f != nil && f.Class == fault.InvalidRequest && s.Default != 0 {
			return // it is beyond the bounds of the note, and nothing else was said
		}
		if f != nil {
			t.Fatalf("the table says that it is carried; got %v (%s)", f, f.Public)
		}
		accept(t, x, field)
		if x.conv.Lossy() != "" || strings.Contains(s.Note, "always") || anyhow(field.Path) {
			return // told, or what the target does or finds anyhow
		}
		more, less, ok := without(t, field)
		if !ok {
			return
		}
		if x, f = try(t, p, more, o); f != nil {
			t.Fatal(f)
		}
		y, f := try(t, p, less, o)
		if f != nil {
			return // the example does not do without
		}
		if string(x.conv.Body) == string(y.conv.Body) && maps.Equal(x.conv.Header, y.conv.Header) {
			t.Errorf("lost in silence: with and without it the provider gets %s\nof %s", x.conv.Body, field.Example)
		}
	})
}

// Fields that gateways were seen to lose, where each protocol has them.
func TestField_F92_LimitsAndChoicesOfToolsReachTheProvider(t *testing.T) {
	t.Parallel()
	const tools = `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}},{"type":"function","function":{"name":"g","parameters":{"type":"object","properties":{}}}}]`
	bodies := map[protocol.Name]string{
		chat: `{"model":"public","max_completion_tokens":777,"parallel_tool_calls":false,` + tools + `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"g"}}]}},"messages":[{"role":"user","content":"Hi"}]}`,
		responses: `{"model":"public","store":false,"max_output_tokens":777,"parallel_tool_calls":false,"tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{}},"strict":false},{"type":"function","name":"g","parameters":{"type":"object","properties":{}},"strict":false}],` +
			`"tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"g"}]},"input":"Hi"}`,
		messages: `{"model":"public","max_tokens":777,"tools":[{"name":"f","input_schema":{"type":"object","properties":{}}},{"name":"g","input_schema":{"type":"object","properties":{}}}],"tool_choice":{"type":"tool","name":"g","disable_parallel_tool_use":true},"messages":[{"role":"user","content":"Hi"}]}`,
		generate: `{"generationConfig":{"maxOutputTokens":777},"tools":[{"functionDeclarations":[{"name":"f","parametersJsonSchema":{"type":"object","properties":{}}},{"name":"g","parametersJsonSchema":{"type":"object","properties":{}}}]}],` +
			`"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["g"]}},"contents":[{"role":"user","parts":[{"text":"Hi"}]}]}`,
	}
	limits := map[protocol.Name][]any{
		chat: {"max_completion_tokens"}, responses: {"max_output_tokens"}, messages: {"max_tokens"}, generate: {"generationConfig", "maxOutputTokens"},
	}
	others(t, func(t *testing.T, p pair) {
		x := begin(t, p, bodies[p.from], options(protocol.Options{"*": protocol.Drop}))
		body := string(x.conv.Body)
		if limit := x.sent(t, limits[p.to]...); limit != json.Number("777") {
			t.Errorf("limit %v in %s, want 777", limit, body)
		}
		if strings.Contains(body, `"name":"f"`) && !onlyG(x, t) && lost(x, llm.FeatureAllowedTools) == 0 {
			t.Errorf("the model may call f in %s", body)
		}
		if !strings.Contains(body, `"name":"g"`) {
			t.Errorf("the model cannot call g in %s", body)
		}
		if p.from == generate {
			return // has no word for one call at a time
		}
		one := map[protocol.Name]string{chat: `"parallel_tool_calls":false`, responses: `"parallel_tool_calls":false`, messages: `"disable_parallel_tool_use":true`}[p.to]
		if one == "" && lost(x, llm.FeatureParallelTools) != protocol.Drop || one != "" && !strings.Contains(body, one) {
			t.Errorf("that one call at a time is wanted is neither sent nor told: %q with %s", x.conv.Lossy(), body)
		}
	})
}

// onlyG reports whether the choice of tools allows g and nothing else.
func onlyG(x *exchange, t testing.TB) bool {
	t.Helper()
	paths := map[protocol.Name][][]any{
		chat:      {{"tool_choice", "function", "name"}, {"tool_choice", "allowed_tools", "tools", 0, "function", "name"}},
		responses: {{"tool_choice", "name"}, {"tool_choice", "tools", 0, "name"}},
		messages:  {{"tool_choice", "name"}},
		generate:  {{"toolConfig", "functionCallingConfig", "allowedFunctionNames", 0}},
	}[x.to]
	for _, path := range paths {
		if x.sent(t, path...) == "g" {
			return true
		}
	}
	return false
}

func TestField_F91_OneStopStringStaysAList(t *testing.T) {
	t.Parallel()
	bodies := map[protocol.Name][]string{
		chat: {
			`{"model":"public","stop":["END"],"messages":[{"role":"user","content":"Hi"}]}`,
			`{"model":"public","stop":"END","messages":[{"role":"user","content":"Hi"}]}`,
		},
		messages: {`{"model":"public","max_tokens":1000,"stop_sequences":["END"],"messages":[{"role":"user","content":"Hi"}]}`},
		generate: {`{"generationConfig":{"stopSequences":["END"]},"contents":[{"role":"user","parts":[{"text":"Hi"}]}]}`},
	}
	lists := map[protocol.Name][]any{chat: {"stop"}, messages: {"stop_sequences"}, generate: {"generationConfig", "stopSequences"}}
	others(t, func(t *testing.T, p pair) {
		for _, body := range bodies[p.from] {
			if p.to == responses { // has no stop strings
				_, f := try(t, p, body, nil)
				if f == nil || f.Class != fault.RequestNotSupported || !strings.Contains(f.Public, string(llm.FeatureStop)) {
					t.Errorf("%s: got %v, want a refusal that names the feature", body, f)
				}
				continue
			}
			same(t, body, begin(t, p, body).sent(t, lists[p.to]...), `["END"]`)
		}
	})
}

// anyhow reports a field whose value in the example is what the gateway or the target
// takes it for if it is missing.
func anyhow(path string) bool {
	switch name := path[strings.LastIndexByte(path, '.')+1:]; name {
	case "type", "mode": // there is one that fits
		return true
	case "media_type": // the data shows it
		return true
	case "store", "cache_control": // beside the messages: never stored; implicit
		return path == name
	case "name", "description": // of a form, which only OpenAI's protocols name
		return strings.Contains(path, "format.") || strings.Contains(path, "json_schema.")
	}
	return false
}

// accept has a strict provider look at a call.
func accept(t *testing.T, x *exchange, field protocol.Field) {
	t.Helper()
	status, told := x.ask(t, fakeprovider.New(fakeprovider.Config{Strict: true}))
	if status == http.StatusOK {
		return
	}
	t.Errorf("the provider answers %d: %s\nto %s\nof %s", status, told, x.conv.Body, field.Example)
}
