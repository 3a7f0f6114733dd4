package openaichat_test

import (
	"bytes"
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
	b.WriteString(`{"model":"m","stream":true,"messages":[{"role":"system","content":"` + prose + `"}`)
	for i := 0; b.Len() < size; i++ {
		id := `call_` + strings.Repeat("a", i%7) + `b`
		b.WriteString(`,{"role":"user","content":"` + prose + `"},{"role":"assistant","content":"` + prose[:200] + `","tool_calls":[{"id":"` + id + `","type":"function","function":{"name":"run","arguments":"{\"cmd\":\"ls\"}"}}]},{"role":"tool","tool_call_id":"` + id + `","content":"` + prose + `"}`)
	}
	b.WriteString(`],"tools":[{"type":"function","function":{"name":"run","parameters":{"type":"object","properties":{"cmd":{"type":"string"}}}}}]}`)
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
	chunk := sse.Frame{Data: []byte(`{"id":"chatcmpl-Abc","object":"chat.completion.chunk","created":1790000000,"model":"gpt-5.6","choices":[{"index":0,"delta":{"content":" some text\n"},"logprobs":null,"finish_reason":null}],"usage":null}`)}
	b.Run("decode", func(b *testing.B) {
		d := codec.NewEventDecoder(conversion(protocol.Anthropic))
		b.ReportAllocs()
		for b.Loop() {
			if f := d.Decode(chunk, func(llm.Event) {}); f != nil {
				b.Fatal(f)
			}
		}
	})
	b.Run("encode", func(b *testing.B) {
		w := codec.NewEventEncoder(conversion(protocol.OpenAIChat))
		out, f := w.Encode(nil, llm.Event{Kind: llm.EventStart, Model: "m"})
		if f == nil {
			out, f = w.Encode(out, llm.Event{Kind: llm.EventPartStart, Part: &llm.Part{}})
		}
		if f != nil {
			b.Fatal(f)
		}
		e := llm.Event{Kind: llm.EventDelta, Text: []byte(" some text\n")}
		b.ReportAllocs()
		for b.Loop() {
			if out, f = w.Encode(out[:0], e); f != nil {
				b.Fatal(f)
			}
		}
		if !bytes.Contains(out, []byte("some text")) {
			b.Fatal("nothing was told")
		}
	})
}
