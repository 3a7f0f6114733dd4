package anthropic_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/anthropic"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
)

// Any body is refused or understood; what is understood can be written, is JSON, and
// is written in the same way again.
func FuzzDecodeRequest(f *testing.F) {
	for _, name := range files(f, "requests/*.json") {
		f.Add(read(f, name))
	}
	codec := anthropic.New()
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
		for _, from := range []protocol.Name{protocol.Anthropic, protocol.OpenAIChat} {
			out, ok := rewrite(t, r, from)
			if !ok {
				continue // such as calls without results
			}
			// Parts that cannot be written may leave others in another place, once.
			stable := false
			for range 2 {
				var again []byte
				r, bad := codec.DecodeRequest(out, protocol.Target{})
				if bad != nil {
					t.Fatalf("%s became %s, which is refused: %v", body, out, bad)
				}
				if again, ok = rewrite(t, r, protocol.Anthropic); !ok {
					t.Fatalf("%s became %s, which cannot be written", body, out)
				}
				out, again = again, out
				if stable = bytes.Equal(out, again); stable {
					break
				}
			}
			if !stable {
				t.Fatalf("%s is never the same: %s", body, out)
			}
		}
	})
}

func rewrite(t *testing.T, r *llm.Request, from protocol.Name) ([]byte, bool) {
	t.Helper()
	c := conversion(from)
	c.Options = protocol.Options{"*": protocol.Drop}
	out, bad := anthropic.New().EncodeRequest(r, c)
	if bad == nil && !json.Valid(out) {
		t.Fatalf("not JSON: %s", out)
	}
	return out, bad == nil
}

// Any answer is a failure or an answer that can be told.
func FuzzDecodeAnswer(f *testing.F) {
	codec := anthropic.New()
	f.Add(read(f, filepath.Join("..", "testdata", "anthropic.json")))
	f.Add([]byte(`{"content":[{"type":"thinking","thinking":"h","signature":"s"},{"type":"redacted_thinking","data":"d"},{"type":"tool_use","id":"a","name":"f","input":"{"},{"type":"server_tool_use","input":{}}],"stop_reason":"x","stop_details":{"category":"c"}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		c := conversion(protocol.Anthropic)
		a, bad := codec.DecodeAnswer(body, c)
		if bad != nil {
			return
		}
		out, bad := codec.EncodeAnswer(a, c)
		if bad != nil {
			return
		}
		if _, bad := codec.DecodeAnswer(out, c); bad != nil {
			t.Fatalf("%s became %s, which fails: %v", body, out, bad)
		}
	})
}

// Any bytes, cut anywhere, give the same events in their order, or a failure.
func FuzzEventDecoder(f *testing.F) {
	for _, name := range append(files(f, "streams/*.sse"), files(f, "../../testdata/anthropic_*.sse")...) {
		f.Add(read(f, name), uint16(7))
	}
	f.Fuzz(func(t *testing.T, stream []byte, cut uint16) {
		whole, bad := feed(stream, len(stream)+1)
		pieces, badToo := feed(stream, int(cut)+1)
		if diff := cmp.Diff(whole, pieces); diff != "" || (bad == nil) != (badToo == nil) {
			t.Fatalf("cut after %d bytes: %v, %v\n%s", cut, bad, badToo, diff)
		}
		if bad != nil {
			return
		}
		inOrder(t, whole)
		// Whatever an upstream sends, callers get a stream that is in order.
		e := anthropic.New().NewEventEncoder(conversion(protocol.Anthropic))
		var out []byte
		for _, x := range untold(whole) {
			if out, bad = e.Encode(out, x); bad != nil {
				return
			}
		}
		again, bad := feed(out, len(out)+1)
		if bad != nil {
			t.Fatalf("became a stream that fails: %v\n%s", bad, out)
		}
		inOrder(t, again)
	})
}

// feed decodes a stream that arrives in pieces.
func feed(stream []byte, size int) ([]told, *fault.Error) {
	var events []told
	emit := func(e llm.Event) { events = add(events, e) }
	d := anthropic.New().NewEventDecoder(conversion(protocol.OpenAIChat))
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
