package endpoint_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/endpoint"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/openaichat"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/openairesponses"
)

// dialog is one of the operation, of the public model p, which upstream is u.
func dialog(t testing.TB, op protocol.Operation) *endpoint.Dialog {
	t.Helper()
	target := protocol.Target{Protocol: protocol.OpenAIChat, Op: op, Method: http.MethodGet, Model: "p"}
	var base protocol.Codec = openaichat.New()
	if op == protocol.OpResponses {
		target.Protocol, base = protocol.OpenAIResponses, openairesponses.New()
	}
	s, ok := endpoint.For(base, target).(*endpoint.Session)
	if !ok {
		t.Fatalf("%v has no session", op)
	}
	return s.NewDialog(endpoint.Terms{
		Public: "p", Upstream: "u",
		MayUse:  func(name string) bool { return name == "whisper" },
		Resolve: func(*protocol.Shape) ([]protocol.Edit, *fault.Error) { return nil, nil },
		Wrap:    func(id string) string { return "gw_" + id },
	})
}

func TestMessagesOfRealtimeNameTheUpstreamsModel(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ in, out string }{
		{`{"type":"session.update","session":{"model":"p"}}`, `{"type":"session.update","session":{"model":"u"}}`},
		{`{"type":"session.update","session":{"model":"u"}}`, `{"type":"session.update","session":{"model":"u"}}`},
		{`{"type":"session.update","session":{"audio":{"input":{"transcription":{"model":"whisper"}}}}}`, `{"type":"session.update","session":{"audio":{"input":{"transcription":{"model":"whisper"}}}}}`},
		{`{ "type" : "response.create" , "response":{"model":"p","x":1.0}}`, `{ "type" : "response.create" , "response":{"model":"u","x":1.0}}`},
		{`{"type":"conversation.item.create","item":{"model":"other"}}`, `{"type":"conversation.item.create","item":{"model":"other"}}`},
		{`{"type":"session.update","session":{"model":"q"}}`, ""},
		{`{"type":"session.update","session":{"audio":{"input":{"transcription":{"model":"costly"}}}}}`, ""},
		{`{"type":"session.update","session":{"input_audio_transcription":{"model":"costly"}}}`, ""},
		{`{"type":"session.update","Session":{"model":"q"}}`, ""},
		{`{"type":"session.update","session":{"Model":"q"}}`, ""},
		{`{"type":"session.update","session":{"model":"p","model":"q"}}`, ""},
	} {
		out, f := dialog(t, protocol.OpRealtime).FromClient([]byte(tc.in))
		if (f == nil) != (tc.out != "") || f == nil && string(out) != tc.out {
			t.Errorf("%s became %s, %v; want %s", tc.in, out, f, tc.out)
		}
	}
}

func TestUsageOfASessionIsTheSumOfItsResponses(t *testing.T) {
	t.Parallel()
	d := dialog(t, protocol.OpRealtime)
	for _, event := range []string{
		`{"type":"response.created","response":{"id":"r1"}}`,
		`{"type":"response.output_audio.delta","delta":"AAAA"}`,
		`{"type":"response.output_audio_transcript.delta","delta":"four"}`,
		`{"type":"response.done","response":{"id":"r1","usage":{"input_tokens":100,"output_tokens":50,"input_token_details":{"audio_tokens":60,"cached_tokens":30,"cached_tokens_details":{"audio_tokens":20}},"output_token_details":{"audio_tokens":40,"text_tokens":10}}}}`,
		`{"type":"conversation.item.input_audio_transcription.completed","usage":{"type":"duration","seconds":2.2}}`,
		`{"type":"response.created","response":{"id":"r2"}}`,
		`{"type":"response.done","response":{"id":"r2","usage":{"input_tokens":10,"output_tokens":5}}}`,
		`{"type":"response.created","response":{"id":"r3"}}`,
		`{"type":"response.output_text.delta","delta":"broken off"}`,
	} {
		if out, _, f := d.FromUpstream([]byte(event)); string(out) != event || f != nil {
			t.Errorf("%s became %s, %v", event, out, f)
		}
	}
	want := llm.Usage{Input: 40, CacheRead: 30, InputAudio: 40, Output: 15, OutputAudio: 40, AudioSeconds: 3}
	if got, ok := d.Usage(); !ok || got != want {
		t.Errorf("usage %+v, want %+v", got, want)
	}
	if _, id := d.Served(); !d.Running() || d.OutputBytes() != int64(len("broken off")) || id != "r2" {
		t.Errorf("running %v with %d bytes of output, newest %s", d.Running(), d.OutputBytes(), id)
	}
}

// Whatever the client sends: what goes upstream is an object that names the upstream's
// model or none where a model is named, and whatever the provider sends is read without harm.
func FuzzDialog(f *testing.F) {
	for _, seed := range []string{
		`{"type":"response.create","model":"p","input":"x","store":true}`, `{"type":"session.update","session":{"model":"p"}}`,
		`{"type":"response.completed","response":{"id":"r","usage":{"input_tokens":1,"output_tokens":2}}}`, `{"type":"error","error":{"code":"rate_limit_exceeded"}}`,
		`{"type":"response.done","response":{"usage":{"input_tokens":1e3}}}`, `{"type":"response.output_item.done","item":{"id":"i"},"item_id":"a\nb"}`, `{`, `[]`, "",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, op := range []protocol.Operation{protocol.OpRealtime, protocol.OpResponses} {
			d := dialog(t, op)
			if out, bad := d.FromClient(data); bad == nil {
				var m struct {
					Type    string
					Model   *string
					Session struct{ Model *string }
				}
				if json.Unmarshal(out, &m) == nil {
					name := m.Session.Model
					if op == protocol.OpResponses && m.Type == "response.create" {
						name = m.Model
					}
					if name != nil && *name != "u" && (op == protocol.OpResponses && m.Type == "response.create" || strings.Contains(string(data), `"session"`) && op == protocol.OpRealtime) {
						t.Fatalf("%s became %s", data, out)
					}
				}
			}
			out, _, _ := d.FromUpstream(data)
			if json.Valid(data) && !json.Valid(out) {
				t.Fatalf("%s became %s", data, out)
			}
			_ = d.Running()
		}
	})
}
