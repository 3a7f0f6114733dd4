package bridge_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider/streamcheck"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/anthropic"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/bridge"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/gemini"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/openaichat"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/openairesponses"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/stateid"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
)

const (
	chat      = protocol.OpenAIChat
	responses = protocol.OpenAIResponses
	messages  = protocol.Anthropic
	generate  = protocol.Gemini
)

func protocols() []protocol.Name { return []protocol.Name{chat, responses, messages, generate} }

func codec(p protocol.Name) bridge.Codec {
	switch p {
	case chat:
		return openaichat.New()
	case responses:
		return openairesponses.New()
	case messages:
		return anthropic.New()
	}
	return gemini.New()
}

// vendor is the provider's name for a protocol.
func vendor(p protocol.Name) fakeprovider.Protocol {
	return map[protocol.Name]fakeprovider.Protocol{
		chat: fakeprovider.Chat, responses: fakeprovider.Responses, messages: fakeprovider.Anthropic, generate: fakeprovider.Gemini,
	}[p]
}

// pair is a caller's protocol and the upstream's.
type pair struct{ from, to protocol.Name }

// others runs f for each pair of two protocols.
func others(t *testing.T, f func(t *testing.T, p pair)) {
	t.Helper()
	for _, from := range protocols() {
		for _, to := range protocols() {
			if from != to {
				t.Run(string(from)+" to "+string(to), func(t *testing.T) {
					t.Parallel()
					f(t, pair{from, to})
				})
			}
		}
	}
}

// exchange is one call between two protocols.
type exchange struct {
	pair
	call   *bridge.Call
	target bridge.To
	conv   *protocol.Converted
}

// setting changes a call before it is converted.
type setting func(*exchange)

func streaming(x *exchange) {
	x.call.Target.Stream = true
	x.call.Target.Framing = protocol.FramingSSE
}

func options(o protocol.Options) setting { return func(x *exchange) { x.call.Options = o } }

func account(scope string) setting { return func(x *exchange) { x.target.Scope = scope } }

// secretOf is a key of one letter.
func secretOf(letter string) secret.Text { return secret.New(strings.Repeat(letter, stateid.KeySize)) }

func stateKey(t testing.TB) *stateid.Key {
	t.Helper()
	k, err := stateid.NewKey(secretOf("k"))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// prepare makes a call that is not converted yet. body needs no model.
func prepare(t testing.TB, p pair, body string, settings ...setting) *exchange {
	t.Helper()
	x := &exchange{
		pair: p,
		call: &bridge.Call{
			Codec:     codec(p.from),
			Target:    protocol.Target{Protocol: p.from, Op: protocol.OpGenerate},
			Body:      []byte(body),
			RequestID: "req_1",
			Started:   time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC),
			Version:   "2023-06-01",
			StateKey:  stateKey(t),
		},
		target: bridge.To{Codec: codec(p.to), Public: "public", Model: "upstream", MaxOutput: 32000, Scope: "account-1"},
	}
	if p.from == generate {
		x.call.Target.Model, x.call.Target.Version = "public", "v1beta"
	}
	for _, s := range settings {
		s(x)
	}
	return x
}

// begin converts a call, and has a strict provider look at what is sent.
func begin(t testing.TB, p pair, body string, settings ...setting) *exchange {
	t.Helper()
	x := prepare(t, p, body, settings...)
	var f *fault.Error
	if x.conv, f = x.call.Convert(x.target); f != nil {
		t.Fatalf("%s to %s: %s (%v)\n%s", p.from, p.to, f.Public, f, body)
	}
	if status, told := x.ask(t, fakeprovider.New(fakeprovider.Config{Strict: true})); status != http.StatusOK {
		t.Errorf("%s to %s: the provider answers %d: %s\nto %s\nmade of %s", p.from, p.to, status, told, x.conv.Body, body)
	}
	return x
}

// ask puts the converted call to a provider.
func (x *exchange) ask(t testing.TB, provider *fakeprovider.Provider) (status int, body string) {
	t.Helper()
	path, query := x.conv.Codec.UpstreamURL(x.conv.Target, x.target.Model)
	if x.to == chat || x.to == responses {
		path = "/v1" + path
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://provider.example"+path+"?"+query, bytes.NewReader(x.conv.Body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range x.conv.Header {
		r.Header.Set(name, value)
	}
	r.Header.Set("Authorization", "Bearer "+x.target.Scope)
	w := httptest.NewRecorder()
	provider.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// sent is a value of the converted request, by a path of names and positions.
func (x *exchange) sent(t testing.TB, path ...any) any {
	t.Helper()
	return at(t, string(x.conv.Body), path...)
}

// whole is what the caller gets of a whole answer.
func (x *exchange) whole(t testing.TB, answer string) string {
	t.Helper()
	out, f := x.conv.Answer([]byte(answer))
	if f != nil {
		t.Fatalf("%s to %s: %v (%s)\n%s", x.from, x.to, f, f.Public, answer)
	}
	return string(out)
}

// stream is what the caller gets of a stream, which is checked by the caller's protocol.
func (x *exchange) stream(t testing.TB, upstream string) string {
	t.Helper()
	out, f := x.relay(strings.NewReader(upstream))
	if f != nil {
		t.Fatalf("%s to %s: %v (%s) after\n%s\nof\n%s", x.from, x.to, f, f.Public, out, upstream)
	}
	if x.call.Target.Stream {
		if err := streamcheck.Check(vendor(x.from), out); err != nil {
			t.Errorf("%s to %s: %v in\n%s", x.from, x.to, err, out)
		}
	}
	return string(out)
}

// relay converts a stream as the relay does: frame by frame until the proper end.
func (x *exchange) relay(upstream io.Reader) ([]byte, *fault.Error) {
	return x.relayBy(x.conv.NewStream(), upstream)
}

func (x *exchange) relayBy(c protocol.StreamConverter, upstream io.Reader) ([]byte, *fault.Error) {
	seen := x.conv.Codec.NewStream(true)
	r := sse.NewReader(upstream, 0)
	var out []byte
	for {
		frame, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return out, fault.Wrap(fault.Malformed, err)
		}
		ended := seen.Terminated()
		if o := seen.Observe(frame); o.Kind == protocol.Error {
			if ended {
				continue
			}
			return out, o.Fault
		}
		if frame.Tail && !seen.Terminated() {
			continue // half an event
		}
		var f *fault.Error
		if out, f = c.Convert(out, frame); f != nil {
			return out, f
		}
	}
	if !seen.Terminated() {
		return out, fault.New(fault.CutAfterFirst, "")
	}
	return c.End(out)
}

// data are the JSON values of a stream, in order.
func data(stream string) (values []string) {
	for line := range strings.Lines(stream) {
		if v, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "data: "); ok && v != "[DONE]" {
			values = append(values, v)
		}
	}
	return values
}

// events makes a stream of JSON values as the upstream's protocol frames them.
func events(p protocol.Name, values ...string) string {
	var b strings.Builder
	for _, v := range values {
		if p == messages || p == responses {
			var e struct{ Type string }
			_ = json.Unmarshal([]byte(v), &e) // what has no type has no name
			b.WriteString("event: " + e.Type + "\n")
		}
		b.WriteString("data: " + v + "\n\n")
	}
	if p == chat {
		b.WriteString("data: [DONE]\n\n")
	}
	return b.String()
}

// value decodes JSON with its numbers as they are written.
func value(t testing.TB, s string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, s)
	}
	return v
}

// at is a value in JSON by a path of names and positions; nil if there is none.
func at(t testing.TB, s string, path ...any) any {
	t.Helper()
	v := value(t, s)
	for _, p := range path {
		switch p := p.(type) {
		case string:
			o, _ := v.(map[string]any)
			v = o[p]
		case int:
			l, _ := v.([]any)
			if p < 0 {
				p += len(l)
			}
			if p < 0 || p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

// same compares a value with JSON.
func same(t testing.TB, what string, got any, want string) {
	t.Helper()
	if diff := cmp.Diff(value(t, want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
