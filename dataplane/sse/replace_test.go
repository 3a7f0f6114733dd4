package sse

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestReplacedDataLeavesTheRestAsItWas(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, frame, data, want string }{
		{"one line", "event: a\ndata: old\n\n", "new", "event: a\ndata: new\n\n"},
		{"no space", "data:old\r\nid: 7\r\n\r\n", "new", "data:new\r\nid: 7\r\n\r\n"},
		{"a comment like the data", ": data: old\ndata: old\n\n", "new", ": data: old\ndata: new\n\n"},
		{"several lines", "data: a\nid: 1\ndata: b\n\n", "new", "data: new\nid: 1\n\n"},
		{"new lines", "data: a\r\n\r\n", "x\ny", "data: x\r\ndata: y\r\n\r\n"},
		{"no data", ": ping\n\n", "new", ": ping\n\n"},
		{"byte order mark", byteOrderMark + "data: a\n\n", "new", byteOrderMark + "data: new\n\n"},
		{"lines end in CR", "event: a\rdata: old\r\r", "new", "event: a\rdata: new\r\r"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := string(AppendReplaced([]byte(">"), frameOf(t, tc.frame), []byte(tc.data))); got != ">"+tc.want {
				t.Errorf("got %q, want %q", got, ">"+tc.want)
			}
		})
	}
}

// Whatever the frame, whoever reads it next finds the new data and the same event.
func TestReplacedDataIsRead(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		end := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "line end")
		lines := rapid.SliceOfN(rapid.SampledFrom([]string{"data: a", "data:b", "data", "event: e", ": c", "id: 1", "data:  d"}), 1, 6).Draw(t, "lines")
		data := rapid.StringMatching(`[a-z ]{0,5}(\n[a-z ]{0,5})?`).Draw(t, "data")
		was := frameOf(t, strings.Join(lines, end)+end+end)
		now := frameOf(t, string(AppendReplaced(nil, was, []byte(data))))
		want := data
		if was.Data == nil {
			want = ""
		}
		if string(now.Data) != want || (now.Data == nil) != (was.Data == nil) || string(now.Event) != string(was.Event) {
			t.Fatalf("frame %q reads as %q of event %q, want %q of %q", now.Raw, now.Data, now.Event, want, was.Event)
		}
	})
}

func frameOf(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, text string,
) Frame {
	t.Helper()
	var p Parser
	p.Feed([]byte(text))
	p.Finish()
	f, ok := p.Next()
	if !ok {
		t.Fatalf("no frame in %q", text)
	}
	return f
}
