package gemini_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/gemini"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
)

// promptOf is a conversation of an agent of about size bytes: long texts with line breaks
// and quotes, calls and results.
func promptOf(size int) []byte {
	text := strings.Repeat("The quick brown fox jumps over the lazy dog and goes on its way, ", 15) + `said:\n\t\"ok\"`
	var b strings.Builder
	b.WriteString(`{"systemInstruction":{"parts":[{"text":"` + text + `"}]},"contents":[{"role":"user","parts":[{"text":"Go"}]}`)
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, `,{"role":"model","parts":[{"text":"%s"},{"functionCall":{"id":"c%d","name":"read","args":{"path":"/srv/%d","n":9007199254740993}},"thoughtSignature":"EqQBCqEB"}]},`+
			`{"role":"user","parts":[{"functionResponse":{"id":"c%d","name":"read","response":{"output":"%s"}}}]}`, text, i, i, i, text)
	}
	b.WriteString(`],"tools":[{"functionDeclarations":[{"name":"read","parametersJsonSchema":{"type":"object"}}]}]}`)
	return []byte(b.String())
}

func BenchmarkConvertRequest200KB(b *testing.B) {
	body := promptOf(200_000)
	codec := gemini.New()
	r, f := codec.DecodeRequest(body, target)
	if f != nil {
		b.Fatal(f)
	}
	run := func(name string, work func() bool) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if !work() {
					b.Fatal("failed")
				}
			}
		})
	}
	run("decode", func() bool { _, f := codec.DecodeRequest(body, target); return f == nil })
	run("encode", func() bool {
		_, f := codec.EncodeRequest(r, conversion(protocol.OpenAIChat, protocol.Gemini))
		return f == nil
	})
}

func BenchmarkConvertChunk(b *testing.B) {
	stream := chunksOf(`"content":{"parts":[{"text":" some text\n"}],"role":"model"},"index":0`, `"finishReason":"STOP"`)
	events, f := decodeStream(chat(), stream)
	if f != nil {
		b.Fatal(f)
	}
	var delta llm.Event
	for _, e := range events {
		if e.Kind == llm.EventDelta {
			delta = e
		}
	}
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		d := gemini.New().NewEventDecoder(chat())
		one := []byte(`{"candidates":[{"content":{"parts":[{"text":" some text\n"}],"role":"model"},"index":0}]}`)
		for b.Loop() {
			d.Decode(sse.Frame{Data: one}, func(llm.Event) {})
		}
	})
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		enc := gemini.New().NewEventEncoder(conversion(protocol.Gemini, protocol.OpenAIChat))
		enc.Encode(nil, events[0])
		enc.Encode(nil, events[1])
		var out []byte
		for b.Loop() {
			out, _ = enc.Encode(out[:0], delta)
		}
	})
}
