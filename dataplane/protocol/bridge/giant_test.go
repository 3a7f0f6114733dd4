package bridge_test

import (
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
)

// giant is a stream with one event of size bytes among small ones, without the memory
// of it.
func giant(p protocol.Name, size int) io.Reader {
	var before, event, after string // the text of event grows at GIANT
	switch p {
	case chat:
		event = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"GIANT"},"finish_reason":null}]}`
		after = events(chat, `{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`)
	case responses:
		before = events(responses, `{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","created_at":1,"model":"m","status":"in_progress","output":[]}}`,
			`{"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"msg_1","type":"message","role":"assistant","status":"in_progress","content":[]}}`,
			`{"type":"response.content_part.added","sequence_number":2,"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}}`)
		event = "event: response.output_text.delta\n" + `data: {"type":"response.output_text.delta","sequence_number":3,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"GIANT"}`
		after = events(responses, `{"type":"response.completed","sequence_number":4,"response":{"id":"resp_1","object":"response","created_at":1,"model":"m","status":"completed","output":[],"usage":{"input_tokens":1,"output_tokens":2,"total_tokens":3}}}`)
	case messages:
		before = events(messages, `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
		event = "event: content_block_delta\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"GIANT"}}`
		after = events(messages, `{"type":"content_block_stop","index":0}`, `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":2}}`, `{"type":"message_stop"}`)
	default:
		event = `data: {"candidates":[{"content":{"parts":[{"text":"GIANT"}],"role":"model"},"index":0}],"modelVersion":"m","responseId":"r"}`
		after = events(generate, `{"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":2,"totalTokenCount":3},"modelVersion":"m","responseId":"r"}`)
	}
	head, tail, _ := strings.Cut(event+"\n\n", "GIANT")
	return io.MultiReader(strings.NewReader(before+head), io.LimitReader(letters{}, int64(size-len(head)-len(tail))), strings.NewReader(tail+after))
}

var manyLetters = strings.Repeat("x", 64<<10)

// letters is text without an end.
type letters struct{}

// Read implements io.Reader.
func (letters) Read(p []byte) (int, error) {
	return copy(p, manyLetters), nil
}

// counted counts what was read.
type counted struct {
	io.Reader
	n int
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	return n, err
}

// swallow converts a stream for a caller who takes everything, as the relay does, and
// returns how many bytes that was and the fault.
func (x *exchange) swallow(upstream io.Reader) (told int, f *fault.Error) {
	c := x.conv.NewStream()
	seen := x.conv.Codec.NewStream(true)
	r := sse.NewReader(upstream, 0)
	for {
		frame, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return told, fault.Wrap(fault.Malformed, err)
		}
		if o := seen.Observe(frame); o.Kind == protocol.Error {
			return told, o.Fault
		}
		out, f := c.Convert(nil, frame)
		if told += len(out); f != nil {
			return told, f
		}
	}
	if !seen.Terminated() {
		return told, fault.New(fault.CutAfterFirst, "")
	}
	out, f := c.End(nil)
	return told + len(out), f
}

// hears makes a call of a pair that streams.
func hears(t testing.TB, p pair) *exchange {
	t.Helper()
	x := prepare(t, p, hello(p.from), streaming)
	var f *fault.Error
	if x.conv, f = x.call.Convert(x.target); f != nil {
		t.Fatal(f)
	}
	return x
}

// The largest event there may be passes in any pair, in memory that is a few times its
// size.
func TestField_F45_LargestEventIsConvertedInBoundedMemory(t *testing.T) {
	// Memory is that of the process, so no other test may run.
	for _, from := range protocols() {
		for _, to := range protocols() {
			t.Run(string(from)+" from "+string(to), func(t *testing.T) {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				told, f := hears(t, pair{from, to}).swallow(giant(to, sse.DefaultMaxFrame))
				runtime.ReadMemStats(&after)
				if f != nil {
					t.Fatalf("%v", f)
				}
				if told < sse.DefaultMaxFrame-1<<10 {
					t.Errorf("the caller got %d bytes", told)
				}
				// A Responses caller is told a text five times: piece by piece, and with the ends
				// of the part, of the item and of the response.
				if used := after.TotalAlloc - before.TotalAlloc; used > 32*sse.DefaultMaxFrame {
					t.Errorf("%d MiB were allocated for an event of 16 MiB", used>>20)
				}
			})
		}
	}
}

// A larger event ends the stream with a fault, and not much more than the limit is read.
func TestField_F45_LargerEventFails(t *testing.T) {
	t.Parallel()
	for i, to := range protocols() {
		p := pair{protocols()[(i+1)%4], to}
		for _, more := range []int{1, sse.DefaultMaxFrame} {
			src := &counted{Reader: giant(to, sse.DefaultMaxFrame+more)}
			told, f := hears(t, p).swallow(src)
			if f == nil || f.Class != fault.Malformed {
				t.Errorf("%s, %d bytes more: %v after %d bytes, want a fault of the class malformed", to, more, f, told)
			}
			var large *sse.TooLargeError
			if !errors.As(f, &large) {
				t.Errorf("%s: %v does not tell what was too large", to, f)
			}
			if src.n > sse.DefaultMaxFrame+64<<10 {
				t.Errorf("%s: %d bytes were read of an event that is too large", to, src.n)
			}
		}
	}
}
