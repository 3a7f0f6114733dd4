package anthropic_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider/streamcheck"
)

func files(t testing.TB, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("no files %s (%v)", pattern, err)
	}
	return names
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A request that is decoded and written for its own protocol means the same, and is
// the same bytes from then on.
func TestRequestSurvivesBeingWrittenAnew(t *testing.T) {
	t.Parallel()
	for _, name := range files(t, "requests/*.json") {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			body := string(read(t, name))
			r := decode(t, body)
			c := conversion(protocol.Anthropic)
			c.Model, c.Stream = r.Model, r.Stream
			got := encode(t, r, c)
			if diff := cmp.Diff(value(t, body), value(t, got)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			wantLost(t, c)
			if len(r.Unknown) > 0 {
				t.Errorf("the decoder does not know %q", r.Unknown)
			}
			if again := encode(t, decode(t, got), c); again != got {
				t.Errorf("encoded again:\n%s\nwant\n%s", again, got)
			}
			if second := encode(t, r, c); second != got {
				t.Errorf("the same request has other bytes the second time:\n%s\nwant\n%s", second, got)
			}
		})
	}
}

// short forms of a request are written in their long ones.
func TestShortFormsMeanTheLongOnes(t *testing.T) {
	t.Parallel()
	short := decode(t, `{"max_tokens":10,"messages":[{"content":"hi","role":"user"},{"role":"assistant","content":[{"id":"a","type":"tool_use","name":"f","input":{}}]},
		{"role":"user","content":[{"tool_use_id":"a","content":"1","type":"tool_result"}]}],"system":"S","tools":[{"type":"custom","name":"f","input_schema":{"type":"object"}}],"temperature":null}`)
	long := decode(t, `{"max_tokens":10,"system":[{"type":"text","text":"S"}],"tools":[{"name":"f","input_schema":{"type":"object"}}],
		"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"1"}]}]}]}`)
	if diff := cmp.Diff(long, short); diff != "" {
		t.Errorf("(-long +short)\n%s", diff)
	}
}

// A stream that is decoded and written anew decodes to the same events.
func TestStreamSurvivesBeingWrittenAnew(t *testing.T) {
	t.Parallel()
	names := files(t, "streams/*.sse")
	for _, name := range []string{"tools", "redacted", "late_usage"} {
		names = append(names, filepath.Join("..", "testdata", "anthropic_"+name+".sse"))
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			c := conversion(protocol.Anthropic)
			first, f := tell(t, c, bytes.NewReader(read(t, name)))
			if f != nil {
				t.Fatal(f)
			}
			inOrder(t, first)
			out := stream(t, c, untold(first)...)
			if err := streamcheck.Check(fakeprovider.Anthropic, []byte(out)); err != nil {
				t.Fatalf("%v in\n%s", err, out)
			}
			second, f := tell(t, c, bytes.NewReader([]byte(out)))
			if f != nil {
				t.Fatal(f)
			}
			first[0].ID = "msg_1"
			if diff := cmp.Diff(first, second); diff != "" {
				t.Errorf("(-first +second)\n%s", diff)
			}
		})
	}
}

// untold are events as a codec hands them over.
func untold(list []told) (out []llm.Event) {
	for i := range list {
		x := &list[i]
		e := llm.Event{Kind: x.Kind, Index: x.Index, ID: x.ID, Model: x.Model, Stop: x.Stop, Usage: x.Usage}
		switch x.Kind {
		case llm.EventPartStart:
			e.Part = &x.Part
		case llm.EventDelta:
			e.Text = []byte(x.Text)
		case llm.EventCite:
			e.Citation = &x.Citation
		case llm.EventState:
			e.State = &x.State
		}
		out = append(out, e)
	}
	return out
}

// inOrder checks the order that llm.EventKind demands.
func inOrder(t testing.TB, list []told) {
	t.Helper()
	var open []bool
	started, finished, ended := false, false, false
	for i, e := range list {
		fits := started && !ended
		switch e.Kind {
		case llm.EventStart:
			fits, started = !started, true
		case llm.EventPartStart:
			fits = fits && !finished && e.Index == len(open)
			open = append(open, true)
		case llm.EventDelta, llm.EventCite, llm.EventState, llm.EventPartEnd:
			fits = fits && !finished && e.Index < len(open) && open[e.Index] && (e.Kind != llm.EventDelta || e.Text != "")
			if e.Kind == llm.EventPartEnd && fits {
				open[e.Index] = false
			}
		case llm.EventFinish:
			fits, finished = fits && !finished, true
			for _, o := range open {
				fits = fits && !o
			}
		case llm.EventEnd:
			fits, ended = fits && finished, true
		}
		if !fits {
			t.Fatalf("event %d of %d is out of order: %+v", i, len(list), e)
		}
	}
	if !ended {
		t.Fatal("the answer has no end")
	}
}
