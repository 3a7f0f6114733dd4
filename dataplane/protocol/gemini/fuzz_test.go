package gemini_test

import (
	"bytes"
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/gemini"
)

// A body that is understood can be written again, if its calls and results pair, and what
// is written is understood as well and comes out the same.
func FuzzDecodeRequest(f *testing.F) {
	for _, body := range files(f, "requests/*.json") {
		f.Add([]byte(body))
	}
	for _, field := range gemini.New().Fields() {
		if field.Example != "" {
			f.Add([]byte(field.Example))
		}
	}
	f.Add([]byte(`{"toolConfig":{"functionCallingConfig":{"mode" `))
	f.Fuzz(func(t *testing.T, body []byte) {
		codec := gemini.New()
		r, bad := codec.DecodeRequest(body, target)
		if bad != nil {
			if bad.Class != fault.InvalidRequest || bad.Public == "" {
				t.Fatalf("%v is no fault of a caller", bad)
			}
			return
		}
		for _, c := range []*protocol.Conversion{own(), conversion(protocol.OpenAIChat, protocol.Gemini)} {
			c.Options = protocol.Options{"*": protocol.Drop}
			first, bad := codec.EncodeRequest(r, c)
			if bad != nil {
				if bad.Class != fault.InvalidRequest {
					t.Fatal(bad)
				}
				continue
			}
			if !json.Valid(first) {
				t.Fatalf("%q\nbecomes no JSON: %q", body, first)
			}
			if c.From != protocol.Gemini {
				continue
			}
			r, bad = codec.DecodeRequest(first, target)
			if bad != nil {
				t.Fatalf("%q\nbecomes %q: %v", body, first, bad)
			}
			again, bad := codec.EncodeRequest(r, c)
			if bad != nil || !bytes.Equal(first, again) {
				t.Fatalf("%q\nbecomes first %q\nand then %q, %v", body, first, again, bad)
			}
		}
	})
}

// Whatever arrives, in whatever pieces, the events are in order and the same.
func FuzzEventDecoder(f *testing.F) {
	for _, stream := range files(f, "streams/*.sse") {
		f.Add([]byte(stream), byte(7), byte(3))
	}
	f.Add([]byte(`data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","willContinue":true,"partialArgs":[{"jsonPath":"$.a[0]['b']","numberValue":1}]}},{"text":"x","functionCall":{}}]},"finishReason":"STOP"}]}`), byte(1), byte(1))
	f.Add([]byte("data: {\"error\":{\"code\":503}}\r\rdata: x\n\n"), byte(1), byte(2))
	f.Fuzz(func(t *testing.T, stream []byte, a, b byte) {
		whole, wf := decodeStream(own(), stream)
		pieces, pf := decodeStream(own(), stream, int(a)+1, int(b)+1)
		if (wf == nil) != (pf == nil) || wf != nil && wf.Class != pf.Class {
			t.Fatalf("whole %v, in pieces %v", wf, pf)
		}
		if diff := cmp.Diff(whole, pieces); diff != "" {
			t.Fatalf("(-whole +pieces):\n%s", diff)
		}
		if wf != nil {
			return
		}
		if broken := ordered(whole); broken != "" {
			t.Fatalf("%s in %+v", broken, whole)
		}
		var all llm.Collector
		for _, e := range whole {
			all.Add(e)
		}
		out, bad := emitted(t, all.Answer(), own())
		if bad == nil {
			_, bad = decodeStream(own(), out)
			if bad != nil && bad.Class != fault.Malformed {
				t.Fatalf("%s\nfrom %q: %v", out, stream, bad)
			}
		}
	})
}

func FuzzDecodeAnswer(f *testing.F) {
	for _, stream := range files(f, "streams/*.sse") {
		for line := range strings.Lines(stream) {
			f.Add([]byte(strings.TrimPrefix(strings.TrimSpace(line), "data: ")))
		}
	}
	f.Add([]byte(`[{"promptFeedback":{"blockReason":"SAFETY"}},{}]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		a, bad := gemini.New().DecodeAnswer(body, own())
		if bad != nil {
			return
		}
		out, bad := gemini.New().EncodeAnswer(a, own())
		if bad != nil {
			return // arguments that are no object
		}
		if !json.Valid(out) {
			t.Fatalf("%q becomes no JSON: %q", body, out)
		}
	})
}

// What a hostile upstream makes of memory is in proportion to what it sends.
func TestHostileChunksStayInProportion(t *testing.T) {
	for name, chunk := range map[string]string{
		"deep":       `"content":{"parts":[{"functionCall":{"name":"f","args":` + strings.Repeat(`{"a":`, 900) + `1` + strings.Repeat(`}`, 900) + `}}]}`,
		"many parts": `"content":{"parts":[` + strings.TrimSuffix(strings.Repeat(`{"functionCall":{"name":"f"}},`, 20_000), ",") + `]}`,
		"supports": `"content":{"parts":[{"text":"a"}]},"groundingMetadata":{"groundingChunks":[` + strings.TrimSuffix(strings.Repeat(`{"web":{"uri":"https://a.example"}},`, 1000), ",") +
			`],"groundingSupports":[` + strings.TrimSuffix(strings.Repeat(`{"groundingChunkIndices":[`+strings.TrimSuffix(strings.Repeat("1,", 1000), ",")+`]},`, 200), ",") + `]}`,
		"pieces": `"content":{"parts":[{"functionCall":{"name":"f","partialArgs":[` + strings.TrimSuffix(strings.Repeat(`{"jsonPath":"$`+strings.Repeat(".a", 90)+`","numberValue":1},`, 5_000), ",") + `]}}]}`,
	} {
		stream := chunksOf(chunk + `,"finishReason":"STOP"`)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		d := gemini.New().NewEventDecoder(chat())
		events := 0
		f := decodeOnly(d, stream, func(llm.Event) { events++ })
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; f != nil || got > uint64(60*len(stream))+1<<20 {
			t.Errorf("%s: %d bytes for %d, %d events, %v", name, got, len(stream), events, f)
		}
	}
}
