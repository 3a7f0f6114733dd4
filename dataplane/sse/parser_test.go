package sse_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
)

// seen is a frame that outlives the call that returned it.
type seen struct {
	Raw, Event, Data string
	HasEvent, Tail   bool
}

func copyOf(f sse.Frame) seen {
	return seen{Raw: string(f.Raw), Event: string(f.Event), Data: string(f.Data), HasEvent: f.Data != nil || f.Event != nil, Tail: f.Tail}
}

// parse feeds the chunks one after another and collects every frame.
func parse(t interface{ Fatalf(string, ...any) }, chunks ...[]byte) []seen {
	var p sse.Parser
	var out []seen
	take := func() {
		for f, ok := p.Next(); ok; f, ok = p.Next() {
			out = append(out, copyOf(f))
		}
		if err := p.Err(); err != nil {
			t.Fatalf("parse: %v", err)
		}
	}
	for _, c := range chunks {
		c = bytes.Clone(c)
		p.Feed(c)
		take()
		for i := range c {
			c[i] = 'X' // the caller reuses its buffer
		}
	}
	p.Finish()
	take()
	return out
}

type message struct{ Event, Data string }

// reference reads a stream the slow and obvious way, following the standard, and
// counts an unfinished event as one.
func reference(stream string) []message {
	stream = strings.TrimPrefix(stream, "\ufeff")
	stream = strings.ReplaceAll(strings.ReplaceAll(stream, "\r\n", "\n"), "\r", "\n")
	var out []message
	for block := range strings.SplitSeq(stream, "\n\n") {
		var m message
		var data []string
		var found bool
		for line := range strings.SplitSeq(block, "\n") {
			name, value, _ := strings.Cut(line, ":")
			value = strings.TrimPrefix(value, " ")
			switch name {
			case "event":
				m.Event, found = value, true
			case "data":
				data, found = append(data, value), true
			}
		}
		if m.Data = strings.Join(data, "\n"); found {
			out = append(out, m)
		}
	}
	return out
}

func messages(frames []seen) []message {
	var out []message
	for _, f := range frames {
		if f.HasEvent {
			out = append(out, message{f.Event, f.Data})
		}
	}
	return out
}

func checkStream(t interface {
	Fatalf(string, ...any)
	Helper()
}, stream []byte, cuts []int,
) {
	t.Helper()
	whole := parse(t, stream)
	var chunks [][]byte
	from := 0
	for _, c := range cuts {
		if c > from && c <= len(stream) {
			chunks = append(chunks, stream[from:c])
			from = c
		}
	}
	chunks = append(chunks, stream[from:])
	split := parse(t, chunks...)
	if diff := cmp.Diff(whole, split); diff != "" {
		t.Fatalf("frames differ when %q is cut at %v (-whole +split):\n%s", stream, cuts, diff)
	}
	var raw strings.Builder
	for i, f := range whole {
		raw.WriteString(f.Raw)
		if f.Tail && i != len(whole)-1 {
			t.Fatalf("frame %d of %d is a tail", i, len(whole))
		}
	}
	if raw.String() != string(stream) {
		t.Fatalf("raw bytes %q, want %q", raw.String(), stream)
	}
	if diff := cmp.Diff(reference(string(stream)), messages(whole)); diff != "" {
		t.Fatalf("events of %q differ from the standard's reading (-want +got):\n%s", stream, diff)
	}
}

var samples = []string{
	"",
	"\n",
	"data: a\n\ndata: b\n\n",
	"data: a\r\n\r\ndata: b\r\n\r\n",
	"data: a\r\rdata: b\r\r",
	"data:a\r\n\ndata: b\n\r\ndata:c\n\rdata:d\r\r\n\n",
	"event: x\ndata: 1\ndata: 2\ndata: 3\n\n",
	": comment\n\n: another\ndata: x\n\n",
	"id: 7\nretry: 10\ndata\n\nfield without colon\n\n",
	"data: unfinished",
	"data: unfinished\r",
	"data: unfinished\n",
	"\xef\xbb\xbfdata: marked\n\n",
	"data: Zürich 東京 🚆\n\n",
	"\n\n\n\r\r\r\n\r\ndata:  two spaces\n\n",
	"event: error\ndata: {\"type\":\"error\"}\n\n",
}

// F-46: any split of a stream gives the same frames, and no byte is lost.
func TestField_F46_EverySplitGivesTheSameFrames(t *testing.T) {
	t.Parallel()
	for _, s := range samples {
		for i := range len(s) {
			for j := i; j < len(s); j++ {
				checkStream(t, []byte(s), []int{i, j})
			}
		}
		all := make([]int, len(s))
		for i := range all {
			all[i] = i
		}
		checkStream(t, []byte(s), all)
	}
}

func TestFramesAreTheSameForAnySplitOfAnyStream(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{"data:", "event:", " ", "x", "\n", "\r", "\r\n", ":", "é", "\n\n", "\r\n\r\n"}), 0, 40).Draw(t, "parts")
		stream := []byte(strings.Join(parts, ""))
		cuts := rapid.SliceOfN(rapid.IntRange(0, len(stream)), 0, 20).Draw(t, "cuts")
		checkStream(t, stream, cuts)
	})
}

func FuzzParser(f *testing.F) {
	for _, s := range samples {
		f.Add([]byte(s), uint16(3), uint16(5))
	}
	f.Fuzz(func(t *testing.T, stream []byte, a, b uint16) {
		n := len(stream) + 1
		checkStream(t, stream, []int{int(a) % n, int(b) % n})
	})
}

// A CRLF stream must not be delivered one event late, and its frame ends with
// the whole blank line.
func TestFrameEndsWithItsWholeBlankLine(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"\n", "\r\n", "\r"} {
		stream := "data: a" + end + end
		var p sse.Parser
		p.Feed([]byte(stream))
		f, ok := p.Next()
		if !ok || string(f.Raw) != stream {
			t.Errorf("line end %q: got frame %q, %v, want %q at once", end, f.Raw, ok, stream)
		}
	}
}

// The LF of a CRLF blank line after a CR line is part of that line end, not a
// frame of its own, although it comes after the frame was handed out.
func TestLateLFIsNoFrame(t *testing.T) {
	t.Parallel()
	frames := parse(t, []byte("data: a\r\r\ndata: b\r\r\n"))
	var raw []string
	for _, f := range frames {
		raw = append(raw, f.Raw)
		if f.Tail {
			t.Errorf("%q is a tail", f.Raw)
		}
	}
	if diff := cmp.Diff([]string{"data: a\r\r", "\ndata: b\r\r", "\n"}, raw); diff != "" {
		t.Errorf("frames differ (-want +got):\n%s", diff)
	}
}

// An unfinished event at the end is handed out, marked, with what it says.
func TestUnfinishedEventIsATail(t *testing.T) {
	t.Parallel()
	r := sse.NewReader(iotest.OneByteReader(strings.NewReader("data: a\n\nevent: e\ndata: half")), 0)
	if f, err := r.Next(); err != nil || f.Tail {
		t.Fatalf("first frame: tail %v, error %v, want a whole frame", f.Tail, err)
	}
	f, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	want := seen{Raw: "event: e\ndata: half", Event: "e", Data: "half", HasEvent: true, Tail: true}
	if diff := cmp.Diff(want, copyOf(f)); diff != "" {
		t.Errorf("tail differs (-want +got):\n%s", diff)
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the tail: %v, want io.EOF", err)
	}
}

func TestReaderReturnsTheErrorOfItsSource(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	r := sse.NewReader(io.MultiReader(strings.NewReader("data: a\n\ndata: h"), iotest.ErrReader(boom)), 0)
	var frames []string
	for {
		f, err := r.Next()
		if err != nil {
			if !errors.Is(err, boom) {
				t.Errorf("got error %v, want %v", err, boom)
			}
			break
		}
		frames = append(frames, fmt.Sprintf("%s %v", f.Data, f.Tail))
	}
	if diff := cmp.Diff([]string{"a false", "h true"}, frames); diff != "" {
		t.Errorf("frames differ (-want +got):\n%s", diff)
	}
}

// F-45: a 16 MiB event passes; one byte over the limit is a typed error, not a
// silent stop; the memory of a giant frame is given back.
func TestField_F45_GiantFramePassesAndOneOverTheLimitFails(t *testing.T) {
	t.Parallel()
	frame := []byte("data: " + strings.Repeat("x", sse.DefaultMaxFrame-8) + "\n\n")
	r := sse.NewReader(bytes.NewReader(append(frame, "data: small\n\n"...)), 0)
	f, err := r.Next()
	if err != nil || len(f.Raw) != sse.DefaultMaxFrame {
		t.Fatalf("got %d bytes, error %v, want a frame of %d", len(f.Raw), err, sse.DefaultMaxFrame)
	}
	if f, err = r.Next(); err != nil || string(f.Data) != "small" {
		t.Fatalf("after the giant: %q, %v, want small", f.Data, err)
	}
	if n := r.Buffered(); n > 32<<10 {
		t.Errorf("reader holds %d bytes after a giant frame, want at most 32 KiB", n)
	}

	over := append([]byte("data: x"), frame[6:]...)
	for name, src := range map[string]io.Reader{"reads": bytes.NewReader(over), "tail": bytes.NewReader(over[:len(over)-1])} {
		r := sse.NewReader(src, len(over)-2)
		_, err := r.Next()
		var large *sse.TooLargeError
		if !errors.As(err, &large) || large.Limit != len(over)-2 {
			t.Errorf("%s: got %v, want TooLargeError with limit %d", name, err, len(over)-2)
		}
	}
	p := sse.Parser{MaxFrame: 10}
	p.Feed([]byte("data: 0123456789\n\n"))
	if _, ok := p.Next(); ok || p.Err() == nil {
		t.Error("a frame over the limit inside one chunk was accepted")
	}
}

// A stream that waits holds little memory.
func TestIdleStreamHoldsAtMostFourKiB(t *testing.T) {
	t.Parallel()
	pr, pw := io.Pipe()
	go func() {
		for range 200 {
			io.WriteString(pw, "data: "+strings.Repeat("y", 300)+"\n\n")
		}
		pw.Close()
	}()
	r := sse.NewReader(pr, 0)
	for {
		if _, err := r.Next(); err != nil {
			break
		}
		if n := r.Buffered(); n > 5<<10 {
			t.Fatalf("reader holds %d bytes, want at most a 4 KiB read buffer and a frame", n)
		}
	}
}

func TestEarlyFeedKeepsTheOrder(t *testing.T) {
	t.Parallel()
	var p sse.Parser
	p.Feed([]byte("data: 1\n\ndata: 2\n\nda"))
	p.Next()
	p.Feed([]byte("ta: 3\n\n"))
	var got []string
	for f, ok := p.Next(); ok; f, ok = p.Next() {
		got = append(got, string(f.Data))
	}
	if diff := cmp.Diff([]string{"2", "3"}, got); diff != "" {
		t.Errorf("frames differ (-want +got):\n%s", diff)
	}
}

func TestAppendedEventReadsBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z._]{0,10}`).Draw(t, "name")
		data := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"a", " b", "\n", "\r\n", "{}", ":"})).Draw(t, "data"), "")
		out := sse.AppendComment(nil, "keep\nalive")
		out = sse.AppendEvent(out, name, []byte(data))
		frames := parse(t, out)
		if len(frames) != 2 || frames[0].HasEvent {
			t.Fatalf("got %d frames from %q, want a comment and an event", len(frames), out)
		}
		want := message{name, strings.ReplaceAll(data, "\r\n", "\n")}
		if got := messages(frames)[0]; got != want {
			t.Fatalf("read back %q, want %q", got, want)
		}
	})
}

func TestNextDoesNotAllocate(t *testing.T) {
	stream := []byte(strings.Repeat("event: delta\ndata: {\"delta\":\"some text\"}\n\n", 64))
	var p sse.Parser
	run := func() {
		for at := 0; at < len(stream); at += 700 {
			p.Feed(stream[at:min(at+700, len(stream))])
			for _, ok := p.Next(); ok; _, ok = p.Next() {
			}
		}
	}
	run()
	if n := testing.AllocsPerRun(100, run); n > 0 {
		t.Errorf("%v allocations per pass over a stream, want 0", n)
	}
}

func BenchmarkParser(b *testing.B) {
	for _, c := range []struct {
		name, end string
		size      int
	}{{"LF/32KiB", "\n", 32 << 10}, {"CRLF/32KiB", "\r\n", 32 << 10}, {"CR/32KiB", "\r", 32 << 10}, {"LF/1KiB", "\n", 1 << 10}} {
		b.Run(c.name, func(b *testing.B) {
			frame := "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hello\"}}]}" + c.end + c.end
			stream := []byte(strings.Repeat(frame, 1000))
			b.SetBytes(int64(len(frame)))
			b.ReportAllocs()
			var p sse.Parser
			at := 0
			for b.Loop() {
				for {
					if _, ok := p.Next(); ok {
						break
					}
					p.Feed(stream[at:min(at+c.size, len(stream))])
					if at += c.size; at >= len(stream) {
						at = 0
					}
				}
			}
		})
	}
}
