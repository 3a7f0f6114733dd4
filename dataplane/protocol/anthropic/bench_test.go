package anthropic_test

import (
	"strings"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/anthropic"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
)

// agentRequest is a request of about size bytes as agents send: many tools, a long
// system prompt, and turns of calls, results and text.
func agentRequest(size int) []byte {
	prose := strings.Repeat("The quick brown fox jumps over the lazy dog and goes on its way, ", 15) + `said:\n\t\"ok\"`
	var b strings.Builder
	b.WriteString(`{"model":"public","max_tokens":32000,"stream":true,"thinking":{"type":"adaptive"},"system":[{"type":"text","text":"` + prose + `","cache_control":{"type":"ephemeral"}}],"tools":[`)
	for i := range 20 {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"name":"tool_` + string(rune('a'+i)) + `","description":"` + prose + `","input_schema":{"type":"object","properties":{"path":{"type":"string"},"n":{"type":"integer"}},"required":["path"]}}`)
	}
	b.WriteString(`],"messages":[{"role":"user","content":"` + prose + `"}`)
	for i := 0; b.Len() < size; i++ {
		id := "toolu_" + strings.Repeat("0", 20) + string(rune('a'+i%26)) + string(rune('a'+i/26))
		b.WriteString(`,{"role":"assistant","content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"` + id + `","name":"tool_a","input":{"path":"/src/a.go","n":1}}]}`)
		b.WriteString(`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"` + id + `","content":"` + prose + `"},{"type":"text","text":"` + prose + `"}]}`)
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}

func BenchmarkConvertRequest200KB(b *testing.B) {
	body := agentRequest(200 << 10)
	codec := anthropic.New()
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			if _, f := codec.DecodeRequest(body, protocol.Target{}); f != nil {
				b.Fatal(f)
			}
		}
	})
	r := decode(b, string(body))
	b.Run("encode", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			if _, f := codec.EncodeRequest(r, conversion(protocol.OpenAIChat)); f != nil {
				b.Fatal(f)
			}
		}
	})
}

func BenchmarkConvertEvents(b *testing.B) {
	c := answering(protocol.Anthropic)
	codec := anthropic.New()
	first := codec.NewEventEncoder(c)
	head, _ := first.Encode(nil, llm.Event{Kind: llm.EventStart})
	head, _ = first.Encode(head, start(0, text("")))
	piece, _ := first.Encode(nil, delta(0, "The quick brown fox"))
	all := string(head) + strings.Repeat(string(piece), 1000)
	b.SetBytes(int64(len(all)))
	b.ReportAllocs()
	for b.Loop() {
		e := codec.NewEventEncoder(c)
		var out []byte
		feedFrames(b, all, codec.NewEventDecoder(c), func(x llm.Event) { out, _ = e.Encode(out[:0], x) })
	}
}

func feedFrames(b *testing.B, stream string, d protocol.EventDecoder, emit func(llm.Event)) {
	b.Helper()
	r := sse.NewReader(strings.NewReader(stream), 0)
	for {
		f, err := r.Next()
		if err != nil {
			return
		}
		if f := d.Decode(f, emit); f != nil {
			b.Fatal(f)
		}
	}
}
