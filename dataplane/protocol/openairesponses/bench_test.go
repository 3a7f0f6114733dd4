package openairesponses_test

import (
	"strings"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
)

// agentRequest is a request of about size bytes as agents send it: long texts with line
// breaks and quotes, calls and results.
func agentRequest(size int) []byte {
	prose := strings.Repeat("The quick brown fox jumps over the lazy dog and goes on its way, ", 15) + `said:\n\t\"ok\"`
	var b strings.Builder
	b.WriteString(`{"model":"m","stream":true,"instructions":"` + prose + `","input":[{"type":"message","role":"developer","content":[{"type":"input_text","text":"` + prose + `"}]}`)
	for i := 0; b.Len() < size; i++ {
		id := `call_` + strings.Repeat("a", i+1)
		b.WriteString(`,{"type":"message","role":"user","content":[{"type":"input_text","text":"` + prose + `"}]},` +
			`{"type":"reasoning","summary":[],"encrypted_content":"` + strings.Repeat("gAAA", 100) + `"},` +
			`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"` + prose[:200] + `"}]},` +
			`{"type":"function_call","call_id":"` + id + `","name":"run","arguments":"{\"cmd\":\"ls\"}"},` +
			`{"type":"function_call_output","call_id":"` + id + `","output":"` + prose + `"}`)
	}
	b.WriteString(`],"tools":[{"type":"function","name":"run","strict":false,"parameters":{"type":"object","properties":{"cmd":{"type":"string"}}}}]}`)
	return []byte(b.String())
}

func BenchmarkConvertRequest200KB(b *testing.B) {
	body := agentRequest(200 << 10)
	r, f := codec.DecodeRequest(body, protocol.Target{})
	if f != nil {
		b.Fatal(f)
	}
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			if _, f := codec.DecodeRequest(body, protocol.Target{}); f != nil {
				b.Fatal(f)
			}
		}
	})
	b.Run("encode", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			if _, f := codec.EncodeRequest(r, conversion(protocol.Anthropic)); f != nil {
				b.Fatal(f)
			}
		}
	})
}

func BenchmarkStreamEvent(b *testing.B) {
	delta := sse.Frame{Event: []byte("response.output_text.delta"), Data: []byte(`{"type":"response.output_text.delta","sequence_number":11,"item_id":"msg_1","output_index":1,"content_index":0,"delta":" some text\n","logprobs":[],"obfuscation":"abcdef"}`)}
	b.Run("decode", func(b *testing.B) {
		d := codec.NewEventDecoder(conversion(protocol.Anthropic))
		b.ReportAllocs()
		for b.Loop() {
			if f := d.Decode(delta, func(llm.Event) {}); f != nil {
				b.Fatal(f)
			}
		}
	})
	b.Run("encode", func(b *testing.B) {
		start := func() (w protocol.EventEncoder, out []byte) {
			w = codec.NewEventEncoder(conversion(protocol.Anthropic))
			out, _ = w.Encode(nil, llm.Event{Kind: llm.EventStart, Model: "m"})
			out, _ = w.Encode(out, llm.Event{Kind: llm.EventPartStart, Part: &llm.Part{}})
			return w, out
		}
		w, out := start()
		e := llm.Event{Kind: llm.EventDelta, Text: []byte(" some text\n")}
		b.ReportAllocs()
		for n := 1; b.Loop(); n++ {
			if n%1_000_000 == 0 { // the answer is kept, up to a bound
				w, out = start()
			}
			if out, _ = w.Encode(out[:0], e); len(out) == 0 {
				b.Fatal("nothing was told")
			}
		}
	})
}
