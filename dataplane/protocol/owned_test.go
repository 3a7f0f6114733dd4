package protocol_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/stateid"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

var (
	ownerA = stateid.Owner{Scope: "org-a", Upstream: "upr_a"}
	ownerB = stateid.Owner{Scope: "org-b", Upstream: "upr_b"}
)

func stateKey(t testing.TB, fill string) *stateid.Key {
	t.Helper()
	k, err := stateid.NewKey(secret.New(strings.Repeat(fill, stateid.KeySize)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// wrapping replaces A(id) and B(id) in a text by the id wrapped for an owner, and
// in plain by the id itself.
func wrapping(k *stateid.Key, text string) (wrapped, plain string) {
	var w, p strings.Builder
	for {
		i := strings.IndexAny(text, "⟦")
		if i < 0 {
			return w.String() + text, p.String() + text
		}
		w.WriteString(text[:i])
		p.WriteString(text[:i])
		text = text[i+len("⟦"):]
		end := strings.Index(text, "⟧")
		whose, id, _ := strings.Cut(text[:end], ":")
		o := ownerA
		if whose == "B" {
			o = ownerB
		}
		w.WriteString(k.Wrap(id, o))
		p.WriteString(id)
		text = text[end+len("⟧"):]
	}
}

func resolve(t testing.TB, name protocol.Name, k *stateid.Key, body string) (string, stateid.Owner, *fault.Error) {
	t.Helper()
	c := codec(name)
	s, f := c.Inspect([]byte(body), target(c))
	if f != nil {
		return "", stateid.Owner{}, f
	}
	o, edits, f := s.Resolve(k)
	if f != nil {
		return "", o, f
	}
	return string(bytes.Join(c.Outgoing([]byte(body), s, s.Model, protocol.Outgoing{Edits: edits}), nil)), o, nil
}

func TestProviderGetsItsOwnIDs(t *testing.T) {
	t.Parallel()
	k := stateKey(t, "k")
	long := strings.Repeat("a long text with nothing in it, ", 400)
	for _, tc := range []struct {
		name     string
		protocol protocol.Name
		body     string
		pins     bool
	}{
		{"the response before", protocol.OpenAIResponses, `{"model":"m","previous_response_id" : "⟦A:resp_1⟧","input":"hi"}`, true},
		{"a conversation", protocol.OpenAIResponses, `{"model":"m","conversation":"⟦A:conv_1⟧","input":"hi"}`, true},
		{"a conversation as object", protocol.OpenAIResponses, `{"model":"m","conversation":{"id":"⟦A:conv_1⟧"},"input":"hi"}`, true},
		{"references among items", protocol.OpenAIResponses, `{"model":"m","input":[{"type":"item_reference","id":"⟦A:msg_1⟧"},{"id":"⟦A:fc_2⟧"},{"role":"user","content":"x"},{"id":"⟦A:rs_3⟧","type":null}]}`, true},
		{"a long body", protocol.OpenAIResponses, `{"model":"m","input":[{"role":"user","content":"` + long + `"},{"id":"⟦A:msg_1⟧","type":"item_reference"},{"role":"user","content":"` + long + `"}],"previous_response_id":"⟦A:resp_1⟧"}`, true},
		{"reasoning without its content", protocol.OpenAIResponses, `{"model":"m","input":[{"type":"reasoning","id":"⟦A:rs_1⟧","summary":[],"encrypted_content":null}]}`, true},
		{"whole items", protocol.OpenAIResponses, `{"model":"m","input":[{"id":"⟦A:rs_1⟧","type":"reasoning","summary":[],"encrypted_content":"gAAAA"},{"id":"⟦A:msg_1⟧","type":"message","role":"assistant","content":[{"type":"output_text","text":"x"}]},{"type":"function_call","id":"⟦A:fc_1⟧","call_id":"call_1","name":"f","arguments":"{}"}]}`, false},
		{"files", protocol.OpenAIResponses, `{"model":"m","input":[{"role":"user","content":[{"type":"input_file","file_id":"⟦A:file-1⟧"}]},{"type":"computer_call_output","call_id":"c","output":{"type":"computer_screenshot","file_id":"⟦A:file-2⟧"}}]}`, true},
		{"tools", protocol.OpenAIResponses, `{"model":"m","input":"x","tools":[{"type":"file_search","vector_store_ids":["⟦A:vs_1⟧","vs_2"]},{"type":"code_interpreter","container":{"type":"auto","file_ids":["⟦A:file-1⟧"]}},{"type":"code_interpreter","container":"⟦A:cntr_1⟧"}]}`, true},
		{"an approval", protocol.OpenAIResponses, `{"model":"m","input":[{"type":"mcp_approval_response","approve":true,"approval_request_id":"⟦A:mcpr_1⟧"}]}`, true},
		{"what stands in a text", protocol.OpenAIResponses, `{"model":"m","previous_response_id":"⟦A:resp_1⟧","input":"previous_response_id resp_gw1_AAAA","metadata":{"id":"resp_gw1_AAAA"}}`, true},
		{"no ids of ours", protocol.OpenAIResponses, `{"model":"m","previous_response_id":"resp_1","input":[{"type":"item_reference","id":"msg_1"},{"role":"user","content":[{"type":"input_file","file_id":"file-1"}]}]}`, false},
		{"cached content", protocol.Gemini, `{"cachedContent":"⟦A:cachedContents/abc⟧","contents":[{"parts":[{"text":"x"}]}]}`, true},
		{"cached content in the other spelling", protocol.Gemini, `{"cached_content":"⟦A:cachedContents/abc⟧","contents":[]}`, true},
		{"a file", protocol.Gemini, `{"contents":[{"role":"user","parts":[{"fileData":{"mimeType":"image/png","fileUri":"⟦A:https://gemini.example/v1beta/files/abc⟧"}},{"file_data":{"file_uri":"gs://bucket/x"}}]}]}`, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			body, want := wrapping(k, tc.body)
			got, o, f := resolve(t, tc.protocol, k, body)
			if f != nil {
				t.Fatalf("refused: %s", f.Text())
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("sent (-want +got):\n%s", diff)
			}
			wantOwner := stateid.Owner{}
			if tc.pins {
				wantOwner = ownerA
			}
			if o != wantOwner {
				t.Errorf("pinned to %+v, want %+v", o, wantOwner)
			}
			for other, key := range map[string]*stateid.Key{"another tenant": stateKey(t, "x"), "no key": nil} {
				if got, o, f := resolve(t, tc.protocol, key, body); f != nil || got != body || o != (stateid.Owner{}) {
					t.Errorf("%s: owner %+v, changed %v, %v", other, o, got != body, f)
				}
			}
		})
	}
}

// PHP writes every slash with a backslash.
func TestEscapedIDIsFound(t *testing.T) {
	t.Parallel()
	k := stateKey(t, "k")
	escaped := strings.ReplaceAll(k.Wrap("cachedContents/abc", ownerA), "/", `\/`)
	file := strings.ReplaceAll(k.Wrap("files/abc", ownerA), "/", `\/`)
	got, o, f := resolve(t, protocol.Gemini, k, `{"cachedContent":"`+escaped+`","contents":[{"parts":[{"fileData":{"fileUri":"`+file+`"}}]}]}`)
	if want := `{"cachedContent":"cachedContents/abc","contents":[{"parts":[{"fileData":{"fileUri":"files/abc"}}]}]}`; f != nil || got != want || o != ownerA {
		t.Errorf("sent %s for %+v, %v", got, o, f)
	}
}

func TestTwoOwnersAreRefused(t *testing.T) {
	t.Parallel()
	k := stateKey(t, "k")
	body, _ := wrapping(k, `{"model":"m","previous_response_id":"⟦A:resp_1⟧","input":[{"role":"user","content":"x"},{"type":"item_reference","id":"⟦B:msg_1⟧"}]}`)
	_, _, f := resolve(t, protocol.OpenAIResponses, k, body)
	if f == nil || f.Class != fault.InvalidRequest || f.Param != "input[1].id" || !strings.Contains(f.Text(), "previous_response_id and input[1].id") {
		t.Errorf("refused with %+v", f)
	}
	// What comes with its content may go anywhere.
	body, _ = wrapping(k, `{"model":"m","previous_response_id":"⟦A:resp_1⟧","input":[{"type":"message","role":"assistant","id":"⟦B:msg_1⟧","content":"x"}]}`)
	if _, o, f := resolve(t, protocol.OpenAIResponses, k, body); f != nil || o != ownerA {
		t.Errorf("owner %+v, %v", o, f)
	}
}

func TestRefsAreBounded(t *testing.T) {
	t.Parallel()
	k := stateKey(t, "k")
	item := `{"id":"` + k.Wrap("msg_1", ownerA) + `"}`
	body := func(n int) string {
		return `{"model":"m","input":[` + strings.Repeat(item+",", n-1) + item + `]}`
	}
	if _, o, f := resolve(t, protocol.OpenAIResponses, k, body(protocol.MaxRefs)); f != nil || o != ownerA {
		t.Errorf("%d references: %+v, %v", protocol.MaxRefs, o, f)
	}
	if _, _, f := resolve(t, protocol.OpenAIResponses, k, body(protocol.MaxRefs+1)); f == nil || f.Class != fault.InvalidRequest || !strings.Contains(f.Text(), strconv.Itoa(protocol.MaxRefs)) {
		t.Errorf("one more: %+v", f)
	}
}

func rewriterOf(t testing.TB, stored bool) protocol.Rewriter {
	t.Helper()
	o, ok := codec(protocol.OpenAIResponses).(protocol.Owned)
	if !ok {
		t.Fatal("the codec changes no ids")
	}
	k := stateKey(t, "k")
	return o.NewRewriter(stored, func(id string) string { return k.Wrap(id, ownerA) })
}

// rewritten runs a stream through a rewriter, cut into chunks of a size.
func rewritten(w protocol.Rewriter, stream []byte, chunk int) []byte {
	var p sse.Parser
	var out []byte
	for len(stream) > 0 {
		n := min(chunk, len(stream))
		p.Feed(stream[:n])
		if stream = stream[n:]; len(stream) == 0 {
			p.Finish()
		}
		for f, ok := p.Next(); ok; f, ok = p.Next() {
			out = w.Frame(out, f)
		}
	}
	return out
}

// marked puts wrapped ids in the places that are to be changed: the values of
// members that end in "id", where they are strings of a vendor's form.
func marked(k *stateid.Key, text string) string {
	for _, id := range []string{"resp_68", "resp_67", "rs_1", "msg_1", "fc_1", "ws_1", "conv_1"} {
		for _, member := range []string{"id", "item_id", "previous_response_id"} {
			text = strings.ReplaceAll(text, `"`+member+`":"`+id+`"`, `"`+member+`":"`+k.Wrap(id, ownerA)+`"`)
		}
	}
	return text
}

func TestClientsGetWrappedIDs(t *testing.T) {
	t.Parallel()
	k := stateKey(t, "k")
	for _, name := range []string{"responses_text.sse", "responses_failed.sse", "responses_incomplete.sse", "responses_error.sse"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stream, err := os.ReadFile(filepath.Join("testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			want := marked(k, string(stream))
			for _, chunk := range []int{1, 7, 1 << 20} {
				if diff := cmp.Diff(want, string(rewritten(rewriterOf(t, true), stream, chunk))); diff != "" {
					t.Fatalf("in chunks of %d (-want +got):\n%s", chunk, diff)
				}
			}
			if got := rewritten(rewriterOf(t, false), stream, 100); !bytes.Equal(got, stream) {
				t.Error("ids of an answer that is not stored were changed")
			}
		})
	}
	whole, err := os.ReadFile(filepath.Join("testdata", "responses.json"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(marked(k, string(whole)), string(rewriterOf(t, true).Answer(whole))); diff != "" {
		t.Errorf("a whole answer (-want +got):\n%s", diff)
	}
	if !strings.Contains(marked(k, string(whole)), "msg_gw1_") {
		t.Error("the answer has no ids: the test looks in the wrong place")
	}
}

// Only ids are changed: not what is called the same elsewhere, not what cannot be read.
func TestRewriterLeavesTheRestAlone(t *testing.T) {
	t.Parallel()
	k := stateKey(t, "k")
	for _, tc := range []struct{ name, data, want string }{
		{
			"schemas of tools", `{"type":"response.output_item.done","item":{"id":"⟦A:mcpl_1⟧","type":"mcp_list_tools","tools":[{"name":"t","input_schema":{"properties":{"item_id":{"examples":["x"]},"id":{}},"required":["item_id"],"default":{"item_id":"x","id":"y"}}}]}}`, "",
		},
		{"a name in a text", `{"type":"response.output_text.done","item_id":"⟦A:msg_1⟧","text":"{\"item_id\":\"x\"}","item_ids":["item_id"]}`, ""},
		{"a text before the id", `{"type":"response.output_text.delta","delta":"{\"a\":{","item_id":"⟦A:msg_1⟧"}`, ""},
		{"an object before the id", `{"type":"response.x.added","part":{"item_id":"x"},"item_id":"⟦A:msg_1⟧"}`, ""},
		{"spaces", `{ "type" : "response.output_text.delta" , "item_id" : "⟦A:msg_1⟧" , "delta" : "x" }`, ""},
		{"an escaped id", `{"type":"response.output_text.delta","item_id":"msg\u005f1","delta":"x"}`, `{"type":"response.output_text.delta","item_id":"⟦A:msg_1⟧","delta":"x"}`},
		{"what it continues", `{"type":"response.created","response":{"previous_response_id":"⟦A:resp_0⟧","conversation":{"id":"⟦A:conv_1⟧"},"id":"⟦A:resp_1⟧","prompt":{"id":"pmpt_1"},"metadata":{"id":"x"},"text":{"format":{"schema":{"id":"y"}}},"output":[{"type":"mcp_call","id":"⟦A:mcp_1⟧","approval_request_id":"⟦A:mcpr_1⟧"},{"type":"code_interpreter_call","id":"⟦A:ci_1⟧","container_id":"⟦A:cntr_1⟧"},{"type":"function_call","id":"⟦A:fc_1⟧","call_id":"call_1"}]}}`, ""},
		{"nothing there", `{"type":"response.created","response":{"id":"⟦A:resp_1⟧","previous_response_id":null,"conversation":null,"output":null}}`, ""},
		{"half an event", `{"type":"response.created","response":{"id":"resp_1"`, ""},
		{"no object", `[{"item_id":"x"}]`, ""},
		{"no JSON", `oops "item_id"`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			want, data := wrapping(k, tc.data)
			if tc.want != "" {
				want, _ = wrapping(k, tc.want)
			}
			frame := func(data string) string { return "id: 1\ndata: " + data + "\r\n\r\n" }
			if diff := cmp.Diff(frame(want), string(rewritten(rewriterOf(t, true), []byte(frame(data)), 1<<20))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for _, frame := range []string{": ping\n\n", "event: ping\n\n", "data:\n\n", "data: {\"item_id\":\"msg_1\"}"} {
		if got := string(rewritten(rewriterOf(t, true), []byte(frame), 3)); got != frame {
			t.Errorf("%q became %q", frame, got)
		}
	}
	for _, body := range []string{``, `[]`, `{"error":{"message":"x"}}`, `{"id":"resp_1"`} {
		if got := string(rewriterOf(t, true).Answer([]byte(body))); got != body {
			t.Errorf("answer %q became %q", body, got)
		}
	}
}

// An answer that is not stored still names what it continues.
func TestUnstoredAnswerNamesWhatItContinues(t *testing.T) {
	t.Parallel()
	want, body := wrapping(stateKey(t, "k"), `{"id":"resp_1","previous_response_id":"⟦A:resp_0⟧","conversation":{"id":"⟦A:conv_1⟧"},"output":[{"id":"msg_1","type":"message"}]}`)
	if got := string(rewriterOf(t, false).Answer([]byte(body))); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The event that ends a broken stream names the response as the events before did.
func TestErrorEventsNameTheWrappedResponse(t *testing.T) {
	t.Parallel()
	c := codec(protocol.OpenAIResponses)
	d := c.NewStream(false)
	created := []byte(`{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","created_at":1,"model":"m"}}`)
	d.Observe(sse.Frame{Event: []byte("response.created"), Data: created, Raw: created})
	events := c.StreamError(fault.New(fault.CutAfterFirst, "x"), "req_1", d)
	got := string(protocol.RewriteEvents(nil, events, rewriterOf(t, true)))
	want := strings.Replace(string(events), `"id":"resp_1"`, `"id":"`+stateKey(t, "k").Wrap("resp_1", ownerA)+`"`, 1)
	if got != want || got == string(events) {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestRewritingDoesNotAllocateOnceContentFlows(t *testing.T) {
	_, f := steady(t, protocol.OpenAIResponses)
	f.Raw = append([]byte("event: response.output_text.delta\ndata: "), append(f.Data, "\n\n"...)...)
	w := rewriterOf(t, true)
	dst := w.Frame(nil, f)
	if n := testing.AllocsPerRun(100, func() { dst = w.Frame(dst[:0], f) }); n > 0 {
		t.Errorf("%v allocations a frame, want 0", n)
	}
	if !bytes.Contains(dst, []byte("msg_gw1_")) {
		t.Errorf("the frame is %s", dst)
	}
}

func BenchmarkRewriteFrame(b *testing.B) {
	_, f := steady(b, protocol.OpenAIResponses)
	f.Raw = append([]byte("event: response.output_text.delta\ndata: "), append(f.Data, "\n\n"...)...)
	w := rewriterOf(b, true)
	var dst []byte
	b.SetBytes(int64(len(f.Raw)))
	b.ReportAllocs()
	for b.Loop() {
		dst = w.Frame(dst[:0], f)
	}
}
