package openairesponses_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider/streamcheck"
)

// Any body is refused or understood; what is understood can be written, is JSON, and
// is understood in the same way again.
func FuzzDecodeRequest(f *testing.F) {
	for _, name := range files(f, "requests/*.json") {
		f.Add(read(f, name))
	}
	for _, row := range codec.Fields() {
		if row.Example != "" {
			f.Add([]byte(row.Example))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, bad := codec.DecodeRequest(body, protocol.Target{})
		if bad != nil {
			if bad.Class != fault.InvalidRequest || bad.Public == "" {
				t.Fatalf("refused as %v: %q", bad.Class, bad.Public)
			}
			return
		}
		c := conversion(protocol.OpenAIResponses)
		c.Options = protocol.Options{"*": protocol.Drop}
		out, bad := codec.EncodeRequest(r, c)
		if bad != nil {
			return // such as calls without results
		}
		if !json.Valid(out) {
			t.Fatalf("%s became %s", body, out)
		}
		// Messages that hold nothing are left out, so that another one may be the first:
		// what is written the second time stays as it is.
		for range 2 {
			again, bad := codec.DecodeRequest(out, protocol.Target{})
			if bad != nil {
				if len(r.Messages) > 0 && bad.Param == "input" {
					return // nothing was left
				}
				t.Fatalf("%s became %s, which is refused: %v", body, out, bad)
			}
			before := out
			if out, bad = codec.EncodeRequest(again, c); bad != nil {
				t.Fatalf("%s became %s, and that %v", body, before, bad)
			}
			if bytes.Equal(before, out) {
				return
			}
		}
		t.Fatalf("%s is another request each time, now %s", body, out)
	})
}

// Any answer is a failure or an answer that can be told.
func FuzzDecodeAnswer(f *testing.F) {
	f.Add(read(f, filepath.Join("..", "testdata", "responses.json")))
	f.Add([]byte(`{"status":"completed","output":[{"type":"reasoning","content":[{"text":"h"}],"encrypted_content":"g"},{"type":"message","content":[{"type":"output_text","text":"a","annotations":[{"type":"x"}]},{"type":"refusal","refusal":"no"}]},{"type":"function_call","name":"f","arguments":{}},{"type":"image_generation_call","result":"AA"},{"type":"web_search_call"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		c := conversion(protocol.OpenAIResponses)
		a, bad := codec.DecodeAnswer(body, c)
		if bad != nil {
			return
		}
		if out, bad := codec.EncodeAnswer(a, c); bad == nil && !json.Valid(out) {
			t.Fatalf("%s became %s", body, out)
		}
	})
}

// Any bytes, cut anywhere, give the same events in their order, or a failure; and what
// was told can be told again.
func FuzzEventDecoder(f *testing.F) {
	for _, name := range append(files(f, "streams/*.sse"), files(f, "../../testdata/responses_*.sse")...) {
		f.Add(read(f, name), uint16(7))
	}
	f.Fuzz(func(t *testing.T, stream []byte, cut uint16) {
		whole, bad := feed(t, stream, len(stream)+1)
		pieces, badToo := feed(t, stream, int(cut)+1)
		if diff := cmp.Diff(whole, pieces); diff != "" || (bad == nil) != (badToo == nil) {
			t.Fatalf("cut after %d bytes: %v, %v\n%s", cut, bad, badToo, diff)
		}
		if bad != nil {
			return
		}
		inOrder(t, whole)
		c := conversion(protocol.Anthropic)
		c.To = protocol.Anthropic // so that nothing is told as it stands
		w := codec.NewEventEncoder(c)
		var out []byte
		for i := range whole {
			if out, bad = w.Encode(out, event(&whole[i])); bad != nil {
				return // such as content without a place
			}
		}
		if err := streamcheck.Check(fakeprovider.Responses, out, streamcheck.AllowError); err != nil {
			t.Fatalf("%v in\n%s", err, out)
		}
	})
}

// feed decodes a stream that arrives in pieces.
func feed(t *testing.T, stream []byte, size int) ([]told, *fault.Error) {
	t.Helper()
	var events []told
	emit := func(e llm.Event) { events = add(events, e) }
	d := codec.NewEventDecoder(conversion(protocol.Anthropic))
	var p sse.Parser
	take := func() *fault.Error {
		for {
			frame, ok := p.Next()
			if !ok {
				return nil
			}
			if f := d.Decode(frame, emit); f != nil {
				return f
			}
		}
	}
	for len(stream) > 0 {
		n := min(size, len(stream))
		p.Feed(bytes.Clone(stream[:n]))
		if f := take(); f != nil {
			return events, f
		}
		stream = stream[n:]
	}
	p.Finish()
	if f := take(); f != nil {
		return events, f
	}
	return events, d.End(emit)
}
