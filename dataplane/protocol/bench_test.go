package protocol_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
)

// requestOf is a request of about size bytes: a long system text and many turns
// with line breaks and quotes in them, as agents send.
func requestOf(name protocol.Name, size int) []byte {
	turn := strings.Repeat("The quick brown fox jumps over the lazy dog and goes on its way, ", 15) + `said:\n\t\"ok\"`
	var b strings.Builder
	item := func(i int) string {
		role := [...]string{"user", "assistant"}[i%2]
		if name == protocol.Gemini {
			return `{"role":"user","parts":[{"text":"` + turn + `"}]}`
		}
		return `{"role":"` + role + `","content":"` + turn + `"}`
	}
	list := map[protocol.Name]string{protocol.OpenAIResponses: "input", protocol.Gemini: "contents"}[name]
	if list == "" {
		list = "messages"
	}
	b.WriteString(`{"stream":true,"` + list + `":[`)
	for i := 0; b.Len() < size-len(turn)/2; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(item(i))
	}
	b.WriteString(`]`)
	if name != protocol.Gemini {
		b.WriteString(`,"model":"public-model"`)
	}
	b.WriteString(`}`)
	return []byte(b.String())
}

func BenchmarkInspect(b *testing.B) {
	for _, c := range codecs() {
		for _, size := range []int{1 << 10, 200 << 10, 1 << 20} {
			body := requestOf(c.Name(), size)
			b.Run(fmt.Sprintf("%s/%dKiB", c.Name(), size>>10), func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					if _, f := c.Inspect(body, target(c)); f != nil {
						b.Fatal(f)
					}
				}
			})
		}
	}
	body := []byte(`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + strings.Repeat("QUJD", 1<<18) + `"}}]}]}`)
	c := codec(protocol.OpenAIChat)
	b.Run("openai_chat/image/1024KiB", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			if _, f := c.Inspect(body, target(c)); f != nil {
				b.Fatal(f)
			}
		}
	})
}

// steady holds a decoder past its first event, and a frame like those that follow.
func steady(t testing.TB, name protocol.Name) (protocol.StreamDecoder, sse.Frame) {
	t.Helper()
	event, data := "", ""
	switch name {
	case protocol.OpenAIChat:
		data = `{"id":"chatcmpl-Abc","object":"chat.completion.chunk","created":1790000000,"model":"gpt-5.6","choices":[{"index":0,"delta":{"content":" some text\n"},"logprobs":null,"finish_reason":null}],"usage":null}`
	case protocol.OpenAIResponses:
		event = "response.output_text.delta"
		data = `{"type":"response.output_text.delta","sequence_number":12,"item_id":"msg_1","output_index":1,"content_index":0,"delta":" some text\n","logprobs":[]}`
	case protocol.Anthropic:
		event = "content_block_delta"
		data = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" some text\n"}}`
	case protocol.Gemini:
		data = `{"candidates":[{"content":{"parts":[{"text":" some text\n"}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":900,"candidatesTokenCount":9,"totalTokenCount":909},"modelVersion":"gemini-3-pro","responseId":"r-77"}`
	}
	f := sse.Frame{Data: []byte(data), Raw: []byte(data)}
	if event != "" {
		f.Event = []byte(event)
	}
	d := codec(name).NewStream(false)
	if o := d.Observe(f); o.Kind != protocol.Semantic {
		t.Fatalf("%s: the frame is %s, want semantic", name, o.Kind)
	}
	d.Observe(f)
	return d, f
}

func TestObserveDoesNotAllocateOnceContentFlows(t *testing.T) {
	for _, c := range codecs() {
		d, f := steady(t, c.Name())
		if n := testing.AllocsPerRun(100, func() { d.Observe(f) }); n > 0 {
			t.Errorf("%s: %v allocations a frame, want 0", c.Name(), n)
		}
		before := d.OutputBytes()
		d.Observe(f)
		if got, want := d.OutputBytes()-before, int64(len(" some text\n")); got != want {
			t.Errorf("%s: a frame counts %d bytes, want %d", c.Name(), got, want)
		}
	}
}

// Inspecting costs no memory that grows with the prompt.
func TestInspectMemoryDoesNotGrowWithThePrompt(t *testing.T) {
	for _, c := range codecs() {
		small, large := requestOf(c.Name(), 4<<10), requestOf(c.Name(), 1<<20)
		allocs := func(body []byte) float64 {
			return testing.AllocsPerRun(20, func() {
				if _, f := c.Inspect(body, target(c)); f != nil {
					t.Fatal(f)
				}
			})
		}
		// Under the race detector pools give their things up at random, so the bound is
		// wide; a body decoded piece by piece makes thousands.
		if a, b := allocs(small), allocs(large); b > a+16 || b > 40 {
			t.Errorf("%s: %v allocations for 4 KiB, %v for 1 MiB", c.Name(), a, b)
		}
	}
}

func BenchmarkObserve(b *testing.B) {
	for _, c := range codecs() {
		b.Run(string(c.Name()), func(b *testing.B) {
			d, f := steady(b, c.Name())
			b.SetBytes(int64(len(f.Data)))
			b.ReportAllocs()
			for b.Loop() {
				d.Observe(f)
			}
		})
	}
}

func BenchmarkReadAnswer(b *testing.B) {
	c := codec(protocol.OpenAIChat)
	for _, size := range []int{2 << 10, 1 << 20} {
		body := []byte(`{"id":"x","choices":[{"message":{"content":"` + strings.Repeat("some text ", size/10) + `"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":4}}`)
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, f := c.ReadAnswer(io.MultiReader(bytes.NewReader(body))); f != nil {
					b.Fatal(f)
				}
			}
		})
	}
}

func BenchmarkOutgoing(b *testing.B) {
	c := codec(protocol.OpenAIChat)
	body := requestOf(protocol.OpenAIChat, 200<<10)
	s, f := c.Inspect(body, target(c))
	if f != nil {
		b.Fatal(f)
	}
	b.ReportAllocs()
	for b.Loop() {
		c.Outgoing(body, s, "upstream-model", protocol.Outgoing{IncludeUsage: true})
	}
}
