package affinity_test

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/aidy-gateway/aidy-gateway/dataplane/affinity"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

var update = flag.Bool("update", false, "write the golden files anew")

// member and object are JSON objects whose members have an order.
type (
	member struct {
		name  string
		value any // string, object, []any, or raw
	}
	object []member
	raw    string
)

// writer writes JSON as clients differ in writing it.
type writer struct {
	strings.Builder
	blank func() string       // white space between tokens
	order func(object) object // of the members of messages, tools and the body
}

func compact() *writer {
	return &writer{blank: func() string { return "" }, order: func(o object) object { return o }}
}

// put writes a value. Objects at a level in free are ordered freely.
func (w *writer) put(v any, free bool) {
	switch v := v.(type) {
	case string:
		w.WriteString(strconv.Quote(v))
	case raw:
		w.WriteString(string(v))
	case []any:
		w.list('[', ']', len(v), func(i int) { w.put(v[i], free) })
	case object:
		if free {
			v = w.order(v)
		}
		w.list('{', '}', len(v), func(i int) {
			w.put(v[i].name, false)
			w.WriteString(w.blank() + ":" + w.blank())
			w.put(v[i].value, false)
		})
	}
}

func (w *writer) list(open, end byte, n int, element func(i int)) {
	w.WriteByte(open)
	for i := range n {
		if i > 0 {
			w.WriteString(w.blank() + ",")
		}
		w.WriteString(w.blank())
		element(i)
	}
	w.WriteString(w.blank())
	w.WriteByte(end)
}

// body writes a request: its own members and those of messages and tools in free order.
func (w *writer) body(o object) string {
	w.WriteString(w.blank())
	o = w.order(o)
	w.list('{', '}', len(o), func(i int) {
		w.put(o[i].name, false)
		w.WriteString(w.blank() + ":" + w.blank())
		switch o[i].name {
		case "tools", "messages", "input", "contents":
			w.put(o[i].value, true)
		default:
			w.put(o[i].value, false)
		}
	})
	return w.String()
}

// request is a conversation in a protocol. Texts stand for a user's and the assistant's
// turns, one after the other.
func request(p protocol.Name, system string, texts ...string) object {
	var list []any
	for i, text := range texts {
		assistant := i%2 == 1
		switch p {
		case protocol.Gemini:
			role := "user"
			if assistant {
				role = "model"
			}
			list = append(list, object{{"role", role}, {"parts", []any{object{{"text", text}}}}})
		case protocol.OpenAIResponses:
			role, kind := "user", "input_text"
			if assistant {
				role, kind = "assistant", "output_text"
			}
			list = append(list, object{{"type", "message"}, {"role", role}, {"content", []any{object{{"type", kind}, {"text", text}}}}})
		default:
			role := "user"
			if assistant {
				role = "assistant"
			}
			list = append(list, object{{"role", role}, {"content", []any{object{{"type", "text"}, {"text", text}}}}})
		}
	}
	schema := object{{"type", "object"}, {"properties", object{{"b", object{{"type", "string"}}}, {"a", object{}}}}}
	switch p {
	case protocol.OpenAIResponses:
		return object{
			{"model", "m"},
			{"tools", []any{object{{"type", "function"}, {"name", "f"}, {"parameters", schema}}}},
			{"instructions", system},
			{"tool_choice", "auto"},
			{"input", list},
		}
	case protocol.Anthropic:
		return object{
			{"model", "m"},
			{"max_tokens", raw("9")},
			{"tools", []any{object{{"name", "f"}, {"input_schema", schema}}}},
			{"system", system},
			{"tool_choice", object{{"type", "auto"}}},
			{"messages", list},
		}
	case protocol.Gemini:
		return object{
			{"tools", []any{object{{"functionDeclarations", []any{object{{"name", "f"}, {"parameters", schema}}}}}}},
			{"systemInstruction", object{{"parts", []any{object{{"text", system}}}}}},
			{"toolConfig", object{{"functionCallingConfig", object{{"mode", "AUTO"}}}}},
			{"contents", list},
		}
	default:
		list = slices.Insert(list, 0, any(object{{"role", "system"}, {"content", system}}))
		return object{
			{"model", "m"},
			{"tools", []any{object{{"type", "function"}, {"function", object{{"name", "f"}, {"parameters", schema}}}}}},
			{"tool_choice", "auto"},
			{"messages", list},
		}
	}
}

// ask is the key of a conversation in a protocol.
func ask(t fatal, p protocol.Name, texts ...string) affinity.Key {
	t.Helper()
	return read(t, p, compact().body(request(p, "You are terse.", texts...)))
}

// What all nodes and releases must agree on: a change here makes every cache of a fleet
// cold while it is rolled out.
func TestGoldenKeys(t *testing.T) {
	var b strings.Builder
	for _, p := range all {
		for _, texts := range [][]string{{"What is 6*7?"}, {"What is 6*7?", "42", "And 6*8?"}, {"Wie spät ist es? ☕"}} {
			k := ask(t, p, texts...)
			fmt.Fprintf(&b, "%s %d: %s from %s, root %s, %d tokens, prior %d, head %d\n",
				p, len(texts), k.Kind, k.Source, k.Root, k.PromptTokens, k.PriorTokens, k.HeadTokens)
			for _, x := range k.Chain {
				fmt.Fprintf(&b, "  %-7s %016x%016x %d\n", x.Block, x.Hash.Hi, x.Hash.Lo, x.Tokens)
			}
		}
	}
	const file = "testdata/keys.golden"
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("keys differ from %s (-want +got):\n%s", file, diff)
	}
}

// A conversation is known again as it grows, and is told from every other one, in each of
// the protocols.
func TestField_F15_ConversationsAreToldApart(t *testing.T) {
	t.Parallel()
	for _, p := range all {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			short, long, other := ask(t, p, "a"), ask(t, p, "a", "b", "c"), ask(t, p, "x")
			if short.Root == "" || short.Root != long.Root || short.Fingerprint() != long.Fingerprint() {
				t.Errorf("root %q became %q as the conversation grew", short.Root, long.Root)
			}
			if common(short, long) != len(short.Chain) {
				t.Errorf("of %d boundaries %d were found again", len(short.Chain), common(short, long))
			}
			if short.Root == other.Root || short.Fingerprint() == other.Fingerprint() {
				t.Errorf("another conversation has the same root %q", other.Root)
			}
			if short.Head.IsZero() || short.Head != other.Head {
				t.Errorf("heads %v and %v of the same tools and system prompt", short.Head, other.Head)
			}
		})
	}
	// A client that sends its instructions as the first item is not one conversation.
	item := `{"model":"m","input":[{"role":"developer","content":"You are an agent."},{"role":"user","content":%q}]}`
	one, two := read(t, protocol.OpenAIResponses, fmt.Sprintf(item, "a")), read(t, protocol.OpenAIResponses, fmt.Sprintf(item, "b"))
	if one.Root == two.Root {
		t.Error("two conversations with the same developer item have one root")
	}
	// The input may be a text alone.
	if read(t, protocol.OpenAIResponses, `{"model":"m","input":"a"}`).Root == read(t, protocol.OpenAIResponses, `{"model":"m","input":"b"}`).Root {
		t.Error("two texts have one root")
	}
}

func TestForkIsFoundAtTheFork(t *testing.T) {
	t.Parallel()
	for _, p := range all {
		a, b := ask(t, p, "a", "b", "c", "d", "e"), ask(t, p, "a", "b", "C", "d", "e")
		if got, want := common(a, b), len(a.Chain)-3; got != want {
			t.Errorf("%s: %d boundaries in common, want %d", p, got, want)
		}
	}
}

// conversation draws the texts of one.
func conversation(t *rapid.T) (protocol.Name, string, []string) {
	p := rapid.SampledFrom(all).Draw(t, "protocol")
	text := rapid.SampledFrom([]string{"a", "", "q\"uo\\te", "{\"cache_control\":1}", "two\nlines", "[1, 2]", "ü ☕", "]}", strings.Repeat("long ", 300)})
	return p, text.Draw(t, "system"), rapid.SliceOfN(text, 1, 9).Draw(t, "texts")
}

// White space between tokens, and the order of the members of the body, of messages and of
// tools, are the client's own affair.
func TestWhiteSpaceAndOrderNeverChangeHashes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, system, texts := conversation(t)
		o := request(p, system, texts...)
		w := &writer{
			blank: func() string { return rapid.SampledFrom([]string{"", " ", "\n\t", "\r\n"}).Draw(t, "blank") },
			order: func(o object) object { return rapid.Permutation(o).Draw(t, "order") },
		}
		want, got := read(t, p, compact().body(o)), read(t, p, w.body(o))
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(affinity.Key{})); diff != "" {
			t.Fatalf("the key changed (-compact +other):\n%s", diff)
		}
	})
}

func TestDeeperOrderCounts(t *testing.T) {
	t.Parallel()
	a := read(t, protocol.Anthropic, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}]}`)
	b := read(t, protocol.Anthropic, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"text":"a","type":"text"}]}]}`)
	if common(a, b) != 0 {
		t.Error("upstreams render deeper members in their order, so they are another prompt")
	}
}

// A request whose messages are the first of another's has the first of its boundaries.
func TestBoundariesOfAPrefixAreAPrefix(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, system, texts := conversation(t)
		n := rapid.IntRange(1, len(texts)).Draw(t, "kept")
		long := read(t, p, compact().body(request(p, system, texts...)))
		short := read(t, p, compact().body(request(p, system, texts[:n]...)))
		if got, want := len(short.Chain), len(long.Chain)-len(texts)+n; got != want {
			t.Fatalf("%d boundaries, want %d", got, want)
		}
		if diff := cmp.Diff(long.Chain[:len(short.Chain)], short.Chain); diff != "" {
			t.Fatalf("boundaries differ (-long +short):\n%s", diff)
		}
		if !slices.IsSortedFunc(long.Chain, func(a, b affinity.Boundary) int { return int(a.Tokens - b.Tokens) }) {
			t.Fatalf("tokens do not grow: %+v", long.Chain)
		}
	})
}

func TestMarkersNeverChangeHashes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		p             protocol.Name
		plain, marked string
		boundaries    []bool
		ttl           time.Duration
	}{
		{
			protocol.Anthropic,
			`{"model":"m","max_tokens":1,"tools":[{"name":"f","input_schema":{}}],"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":[{"type":"text","text":"a"}]}]},{"role":"user","content":"b"}]}`,
			`{"model":"m","max_tokens":1,"tools":[{"cache_control":{"type":"ephemeral"},"name":"f","input_schema":{}}],"system":[{"type":"text","cache_control":{"type":"ephemeral","ttl":"1h"},"text":"s"}],"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":[{"cache_control":{"type":"ephemeral","ttl":"5m"} , "type":"text","text":"a" }]}]},{"role":"user","content":"b","cache_control":null}]}`,
			[]bool{true, true, true, false},
			time.Hour,
		},
		{
			protocol.Anthropic,
			`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}]}`,
			`{"model":"m","max_tokens":1,"cache_control":{"type":"ephemeral"},"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}]}`,
			[]bool{false, true},
			0,
		},
		{
			protocol.OpenAIResponses,
			`{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"a"}]}]}`,
			`{"model":"m","prompt_cache_options":{"mode":"explicit","ttl":"30m"},"input":[{"role":"user","content":[{"type":"input_text","text":"a","prompt_cache_breakpoint":{"mode":"explicit"}}]}]}`,
			[]bool{true},
			30 * time.Minute,
		},
		{
			protocol.OpenAIChat,
			`{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"a"}]}]}`,
			`{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"prompt_cache_breakpoint":{"mode":"explicit"},"type":"text","text":"a"}]}]}`,
			[]bool{false, true},
			0,
		},
	} {
		plain, marked := read(t, c.p, c.plain), read(t, c.p, c.marked)
		if common(plain, marked) != len(marked.Chain) || plain.PromptTokens != marked.PromptTokens {
			t.Errorf("%s: %d of %d boundaries are as without markers; %d tokens, want %d",
				c.p, common(plain, marked), len(marked.Chain), marked.PromptTokens, plain.PromptTokens)
		}
		var got []bool
		for _, b := range marked.Chain {
			got = append(got, b.Marked)
		}
		if !slices.Equal(got, c.boundaries) || !marked.Writes || plain.Writes {
			t.Errorf("%s: marked %v (writes %v), want %v; without markers writes %v", c.p, got, marked.Writes, c.boundaries, plain.Writes)
		}
		if marked.MinTTL != c.ttl {
			t.Errorf("%s: ttl %v, want %v", c.p, marked.MinTTL, c.ttl)
		}
	}
}

// What is not rendered into the prompt does not count.
func TestSettingsDoNotCount(t *testing.T) {
	t.Parallel()
	a := read(t, protocol.OpenAIChat, `{"model":"m","messages":[{"role":"user","content":"a"}]}`)
	b := read(t, protocol.OpenAIChat, `{"model":"m","temperature":1,"user":"u","metadata":{"a":"b"},"stream":true,"max_tokens":3,"stop":["x"],"tools":[],"tool_choice":null,"messages":[{"role":"user","content":"a"}]}`)
	if diff := cmp.Diff(a, b, cmp.AllowUnexported(affinity.Key{})); diff != "" {
		t.Errorf("the key changed (-without +with):\n%s", diff)
	}
	c := read(t, protocol.OpenAIChat, `{"model":"m","response_format":{"type":"json_object"},"messages":[{"role":"user","content":"a"}]}`)
	if diff := cmp.Diff([]string{"system", "message"}, blocks(c)); diff != "" {
		t.Errorf("blocks with a response format (-want +got):\n%s", diff)
	}
}

func TestTenantsAndSeedsShareNothing(t *testing.T) {
	t.Parallel()
	in := input(t, protocol.Anthropic, compact().body(request(protocol.Anthropic, "s", "a")))
	k := affinity.Read(in)
	other := in
	other.Tenant = "t2"
	reseeded := in
	reseeded.Seed = affinity.NewSeed([]byte("another seed"))
	for name, in := range map[string]affinity.Input{"tenant": other, "seed": reseeded} {
		o := affinity.Read(in)
		for i := range o.Chain {
			if o.Chain[i].Hash == k.Chain[i].Hash {
				t.Errorf("boundary %d is the same with another %s", i, name)
			}
		}
	}
	colleague := in
	colleague.Consumer, colleague.EndUser = "c2", "u2"
	if o := affinity.Read(colleague); common(o, k) != len(k.Chain) {
		t.Error("consumers of a tenant do not share prefixes")
	}
}

func TestSessionSources(t *testing.T) {
	t.Parallel()
	const chat = `{"model":"m","messages":[{"role":"user","content":"a"}]}`
	const cached = `{"model":"m","prompt_cache_key":"p","messages":[{"role":"user","content":"a"}]}`
	const claude = `{"model":"m","max_tokens":1,"metadata":{"user_id":"user_1_account__session_s"},"messages":[{"role":"user","content":"a"}]}`
	const user = `{"model":"m","max_tokens":1,"metadata":{"user_id":"user_1"},"messages":[{"role":"user","content":"a"}]}`
	for _, c := range []struct {
		name, body, headers string
		p                   protocol.Name
		kind                affinity.Kind
		source              string
	}{
		{"nothing", chat, "", protocol.OpenAIChat, affinity.Weak, "prefix"},
		{"key header first", cached, "x-gateway-cache-affinity-key x-session-id", protocol.OpenAIChat, affinity.Strong, "x-gateway-cache-affinity-key"},
		{"cache key before session headers", cached, "x-gateway-session-id", protocol.OpenAIChat, affinity.Strong, "prompt_cache_key"},
		{"own session header", chat, "x-session-id session_id x-gateway-session-id", protocol.OpenAIChat, affinity.Strong, "x-gateway-session-id"},
		{"agent's session header", claude, "x-claude-code-session-id", protocol.Anthropic, affinity.Strong, "x-claude-code-session-id"},
		{"other spelling", chat, "session_id", protocol.OpenAIChat, affinity.Strong, "session_id"},
		{"metadata", claude, "", protocol.Anthropic, affinity.Strong, "metadata.user_id"},
		{"metadata without a session", user, "", protocol.Anthropic, affinity.Weak, "prefix"},
		{"unknown header", chat, "x-thread", protocol.OpenAIChat, affinity.Weak, "prefix"},
		{"previous response", `{"model":"m","previous_response_id":"resp_1","conversation":"conv_1","prompt_cache_key":"p","input":"a"}`, "x-session-id", protocol.OpenAIResponses, affinity.Pinned, "previous_response_id"},
		{"conversation", `{"model":"m","conversation":{"id":"conv_1"},"input":"a"}`, "", protocol.OpenAIResponses, affinity.Pinned, "conversation"},
		{"cached content", `{"cachedContent":"cachedContents/1","contents":[{"parts":[{"text":"a"}]}]}`, "", protocol.Gemini, affinity.Pinned, "cachedContent"},
		{"no prompt", `{"model":"m"}`, "", protocol.OpenAIChat, affinity.None, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			in := input(t, c.p, c.body)
			for h := range strings.FieldsSeq(c.headers) {
				in.Header.Set(h, "value of "+h)
			}
			k := affinity.Read(in)
			if k.Kind != c.kind || k.Source != c.source {
				t.Errorf("%s from %q, want %s from %q", k.Kind, k.Source, c.kind, c.source)
			}
			if k.Session.IsZero() != (k.Kind != affinity.Strong) {
				t.Errorf("a %s key has the session %v", k.Kind, k.Session)
			}
			if (k.Root == "") != (k.Kind == affinity.Pinned || k.Kind == affinity.None) {
				t.Errorf("a %s key has the root %q", k.Kind, k.Root)
			}
			if (len(k.Fingerprint()) == 8) != (k.Kind != affinity.None) {
				t.Errorf("fingerprint %q", k.Fingerprint())
			}
		})
	}
	in := input(t, protocol.OpenAIChat, chat)
	in.SessionHeaders = []string{"X-Thread"}
	in.Header.Set("x-thread", "1")
	in.Header.Set("x-session-id", "2")
	if k := affinity.Read(in); k.Source != "x-thread" {
		t.Errorf("source %q, want the header that is configured", k.Source)
	}
}

// A session belongs to who opened it.
func TestSessionIsOfAllItsParts(t *testing.T) {
	t.Parallel()
	base := func() affinity.Input {
		in := input(t, protocol.OpenAIChat, `{"model":"m","messages":[{"role":"user","content":"a"}]}`)
		in.Consumer, in.EndUser = "c", "u"
		in.Header.Set(affinity.KeyHeader, "k")
		return in
	}
	seen := map[affinity.Hash]string{}
	for name, change := range map[string]func(*affinity.Input){
		"nothing":         func(*affinity.Input) {},
		"tenant":          func(in *affinity.Input) { in.Tenant = "t2" },
		"consumer":        func(in *affinity.Input) { in.Consumer = "c2" },
		"end user":        func(in *affinity.Input) { in.EndUser = "" },
		"key":             func(in *affinity.Input) { in.Header.Set(affinity.KeyHeader, "k2") },
		"model":           func(in *affinity.Input) { in.Model = "m2" },
		"moved character": func(in *affinity.Input) { in.Consumer, in.EndUser = "cu", "" },
	} {
		in := base()
		change(&in)
		k := affinity.Read(in)
		if other, ok := seen[k.Session]; ok {
			t.Errorf("with another %s the session is the same as with another %s", name, other)
		}
		seen[k.Session] = name
	}
	longer := base()
	longer.Body = []byte(`{"model":"m","messages":[{"role":"user","content":"z"}]}`)
	if affinity.Read(longer).Session != affinity.Read(base()).Session {
		t.Error("the session depends on the prompt")
	}
}

// The same messages after another stored context are another prompt.
func TestStoredContextIsPartOfTheChain(t *testing.T) {
	t.Parallel()
	const form = `{"model":"m",%s"input":"a"}`
	chains := map[affinity.Hash]bool{}
	for _, stored := range []string{"", `"previous_response_id":"resp_1",`, `"previous_response_id":"resp_2",`, `"conversation":"conv_1",`} {
		chains[read(t, protocol.OpenAIResponses, fmt.Sprintf(form, stored)).Chain[0].Hash] = true
	}
	if len(chains) != 4 {
		t.Errorf("4 contexts made %d chains", len(chains))
	}
}

func TestMediaIsNotCountedAsText(t *testing.T) {
	t.Parallel()
	data := strings.Repeat("QUJD", 25_000)
	for _, c := range []struct {
		p    protocol.Name
		body string
	}{
		{protocol.OpenAIChat, `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,%s"}}]}]}`},
		{protocol.OpenAIChat, `{"model":"m","messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"%s","format":"wav"}}]}]}`},
		{protocol.OpenAIResponses, `{"model":"m","input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,%s"}]}]}`},
		{protocol.OpenAIResponses, `{"model":"m","input":[{"role":"user","content":"draw"},{"type":"image_generation_call","id":"ig_1","result":"%s"}]}`},
		{protocol.Anthropic, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"%s"}}]}]}]}`},
		{protocol.Gemini, `{"contents":[{"parts":[{"inlineData":{"mimeType":"image/png","data":"%s"}}]}]}`},
		{protocol.Gemini, `{"contents":[{"parts":[{"inline_data":{"mime_type":"image/png","data":"%s"}}]}]}`},
	} {
		k := read(t, c.p, fmt.Sprintf(c.body, data))
		if k.PromptTokens < 1500 || k.PromptTokens > 1560 {
			t.Errorf("%s: an image counts %d tokens, want 1500 and its frame", c.p, k.PromptTokens)
		}
		if o := read(t, c.p, fmt.Sprintf(c.body, data[4:]+"REVG")); common(k, o) == len(k.Chain) {
			t.Errorf("%s: another image is the same prompt", c.p)
		}
	}
	text := read(t, protocol.Anthropic, fmt.Sprintf(`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"%s"}}]}]}`, data))
	if text.PromptTokens < 25_000 {
		t.Errorf("a document that is text counts %d tokens", text.PromptTokens)
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	in := input(t, protocol.OpenAIChat, `{"model":"m","messages":[{"role":"user", "content":"abcdefg"}]}`)
	// {"content":"abcdefg","role":"user"} has 35 bytes.
	if k := affinity.Read(in); k.PromptTokens != 9 {
		t.Errorf("%d tokens, want 9", k.PromptTokens)
	}
	in.Scale = 1.5
	if k := affinity.Read(in); k.PromptTokens != 14 {
		t.Errorf("%d tokens at 1.5, want 14", k.PromptTokens)
	}
}

// Where the request before ended: at the start of the last turn of the assistant, however
// many items that has.
func TestPriorEndsBeforeTheLastTurnOfTheAssistant(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		p    protocol.Name
		body string
		at   int // boundary; -1 for none
	}{
		{protocol.OpenAIChat, `{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"a"}]}`, -1},
		{protocol.OpenAIChat, `{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"tool","content":"c","tool_call_id":"x"},{"role":"assistant","content":"d"},{"role":"user","content":"e"}]}`, 3},
		{protocol.OpenAIResponses, `{"model":"m","input":[{"role":"user","content":"a"},{"type":"reasoning","id":"rs","summary":[]},{"type":"function_call","call_id":"x","name":"f","arguments":"{}"},{"type":"function_call","call_id":"y","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"x","output":"1"}]}`, 0},
		{protocol.Anthropic, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}`, 0},
		{protocol.Gemini, `{"contents":[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"text":"b"}]},{"role":"user","parts":[{"text":"c"}]}]}`, 0},
	} {
		k := read(t, c.p, c.body)
		want := int64(0)
		if c.at >= 0 {
			want = k.Chain[c.at].Tokens
		}
		if k.PriorTokens != want {
			t.Errorf("%s: prior %d, want %d of %+v", c.p, k.PriorTokens, want, k.Chain)
		}
	}
}

func TestLongConversationsKeepTheirStartAndEnd(t *testing.T) {
	t.Parallel()
	messages := func(n int) affinity.Key {
		return read(t, protocol.OpenAIChat, `{"model":"m","messages":[`+strings.TrimSuffix(strings.Repeat(`{"role":"user","content":"a"},`, n), ",")+`]}`)
	}
	whole, next := messages(2000), messages(2001)
	if len(whole.Chain) != 512 || len(next.Chain) != 512 {
		t.Fatalf("%d and %d boundaries, want 512", len(whole.Chain), len(next.Chain))
	}
	if whole.Chain[511] != next.Chain[510] || whole.Chain[63] != next.Chain[63] || whole.Chain[64] == next.Chain[64] {
		t.Error("the newest boundary of the shorter one is not the last but one of the longer")
	}
	if got := next.Chain[511].Tokens - next.Chain[510].Tokens; got != 8 {
		t.Errorf("the last message counts %d tokens, want 8", got)
	}
	if short := messages(3); common(short, whole) != 3 {
		t.Error("the start is not found")
	}
}

// A message too large to be put in order is hashed as it came.
func TestHugeMessages(t *testing.T) {
	t.Parallel()
	var many strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&many, `"k%d":[ %d ],`, i, i)
	}
	var deep strings.Builder
	deep.WriteString("[1")
	for range 200_000 {
		deep.WriteString(" ,1")
	}
	deep.WriteString("]")
	for _, extra := range []string{many.String(), `"list":` + deep.String() + `,`} {
		form := `{"model":"m","messages":[{%s"role":"user","content":"a"}]}`
		k := read(t, protocol.OpenAIChat, fmt.Sprintf(form, extra))
		tight := read(t, protocol.OpenAIChat, fmt.Sprintf(form, strings.ReplaceAll(extra, " ", "")))
		if k.Chain[0] != tight.Chain[0] {
			t.Errorf("white space changed %+v to %+v", tight.Chain[0], k.Chain[0])
		}
		if want := int64(len(strings.ReplaceAll(extra, " ", ""))+29+3) / 4; k.PromptTokens != want {
			t.Errorf("%d tokens, want %d", k.PromptTokens, want)
		}
	}
}

// The canary stands wherever a client can put a text. None of it may be kept.
func TestKeysHoldNoText(t *testing.T) {
	t.Parallel()
	const canary = "CANARY"
	bodies := map[protocol.Name]string{
		protocol.OpenAIChat:      `{"model":"m","prompt_cache_key":"CANARY","user":"CANARY","tools":[{"type":"function","function":{"name":"CANARY"}}],"messages":[{"role":"system","content":"CANARY"},{"role":"user","name":"CANARY","content":"CANARY"}]}`,
		protocol.OpenAIResponses: `{"model":"m","previous_response_id":"CANARY","instructions":"CANARY","input":[{"role":"user","content":"CANARY"}]}`,
		protocol.Anthropic:       `{"model":"m","max_tokens":1,"metadata":{"user_id":"CANARY_session_CANARY"},"system":"CANARY","messages":[{"role":"user","content":"CANARY"}]}`,
		protocol.Gemini:          `{"cachedContent":"CANARY","systemInstruction":{"parts":[{"text":"CANARY"}]},"contents":[{"parts":[{"text":"CANARY"}]}]}`,
	}
	for p, body := range bodies {
		in := input(t, p, body)
		in.EndUser = canary
		in.Header = http.Header{"X-Session-Id": {canary}}
		k := affinity.Read(in)
		if text := fmt.Sprintf("%+v", k); strings.Contains(text, canary) {
			t.Errorf("%s: the key holds a text of the request: %s", p, text)
		}
	}
	// Nothing in a key can hold one but the two strings that are looked at above.
	var walk func(rt reflect.Type, path string)
	walk = func(rt reflect.Type, path string) {
		switch rt.Kind() {
		case reflect.Struct:
			for f := range rt.Fields() {
				walk(f.Type, path+"."+f.Name)
			}
		case reflect.Slice, reflect.Array:
			walk(rt.Elem(), path+"[]")
		case reflect.String, reflect.Map, reflect.Pointer, reflect.Interface:
			if path != ".Source" && path != ".Root" {
				t.Errorf("Key%s is a %s", path, rt)
			}
		case reflect.Uint8:
			if strings.HasSuffix(path, "[]") {
				t.Errorf("Key%s holds bytes", path)
			}
		}
	}
	walk(reflect.TypeFor[affinity.Key](), "")
}

func FuzzRead(f *testing.F) {
	for _, p := range all {
		f.Add(string(p), compact().body(request(p, "s", "a", "b", "c")))
	}
	f.Add("openai_chat", `{"messages":[{"role":"user","content":"a","cache_control":{"ttl":"1h"}},{"a" : [1 , {"cache_control":2,"b":"\\\""}]}]}`)
	f.Add("anthropic_messages", `{"messages":[{"content":[{"source":{"data":"`)
	f.Fuzz(func(t *testing.T, p, body string) {
		codec := codecs[protocol.Name(p)]
		if codec == nil {
			return
		}
		in := affinity.Input{Protocol: protocol.Name(p), Tenant: "t", Model: "m", Body: []byte(body)}
		shape, fault := codec.Inspect(in.Body, protocol.Target{Protocol: in.Protocol, Op: protocol.OpGenerate, Model: "m"})
		if fault != nil {
			// Bytes that are no request may have any key, but reading them ends.
			in.Shape = &protocol.Shape{}
			for _, name := range []string{"tools", "system", "messages", "input", "contents"} {
				in.Shape.Members = append(in.Shape.Members, protocol.Member{Name: name, Value: protocol.Span{To: len(body)}})
			}
			affinity.Read(in)
			return
		}
		in.Shape = shape
		k := affinity.Read(in)
		if diff := cmp.Diff(k, affinity.Read(in), cmp.AllowUnexported(affinity.Key{})); diff != "" {
			t.Fatalf("read twice (-first +second):\n%s", diff)
		}
		last := int64(0)
		for _, b := range k.Chain {
			if b.Tokens < last || b.Hash.IsZero() {
				t.Fatalf("chain %+v", k.Chain)
			}
			last = b.Tokens
		}
		if k.PromptTokens != last || k.PriorTokens > last || k.HeadTokens > last {
			t.Fatalf("%d tokens, prior %d, head %d, chain %+v", k.PromptTokens, k.PriorTokens, k.HeadTokens, k.Chain)
		}
		// More white space changes nothing.
		wide := strings.Join(strings.SplitAfter(body, "}"), " ")
		if strings.Contains(body, `"`) {
			wide = spaced(body)
		}
		in.Body = []byte(wide)
		if in.Shape, fault = codec.Inspect(in.Body, protocol.Target{Protocol: in.Protocol, Op: protocol.OpGenerate, Model: "m"}); fault != nil {
			return // too large by now
		}
		if diff := cmp.Diff(k, affinity.Read(in), cmp.AllowUnexported(affinity.Key{})); diff != "" {
			t.Fatalf("white space changed the key (-before +after):\n%s", diff)
		}
	})
}
