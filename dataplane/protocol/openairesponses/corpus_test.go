package openairesponses_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/openairesponses"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider/streamcheck"
)

// What a Responses caller asks for reaches a Responses upstream in the same meaning, and
// the same request has the same bytes each time.
func TestRequestOfTheSameProtocolIsTheSame(t *testing.T) {
	t.Parallel()
	for _, name := range files(t, "requests/*.json") {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			body := string(read(t, name))
			r := decode(t, body)
			if len(r.Unknown) > 0 {
				t.Errorf("not known: %q", r.Unknown)
			}
			c := conversion(protocol.OpenAIResponses)
			c.Model, c.Stream = r.Model, r.Stream
			got := encode(t, r, c)
			if diff := cmp.Diff(normal(t, body), normal(t, got)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			wantLost(t, c)
			if again := encode(t, decode(t, got), c); again != got {
				t.Errorf("encoded again:\n%s\nwant\n%s", again, got)
			}
			if second := encode(t, r, c); second != got {
				t.Errorf("the same request has other bytes the second time:\n%s\nwant\n%s", second, got)
			}
		})
	}
}

// A stream that is decoded and written anew decodes to the same events.
func TestStreamSurvivesBeingWrittenAnew(t *testing.T) {
	t.Parallel()
	names := append(files(t, "streams/*.sse"), filepath.Join("..", "testdata", "responses_text.sse"), filepath.Join("..", "testdata", "responses_incomplete.sse"))
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			c := conversion(protocol.OpenAIResponses)
			first, f := tell(t, c, bytes.NewReader(read(t, name)))
			if f != nil {
				t.Fatal(f)
			}
			inOrder(t, first)
			w := openairesponses.New().NewEventEncoder(c)
			var out []byte
			for i := range first {
				if out, f = w.Encode(out, event(&first[i])); f != nil {
					t.Fatal(f)
				}
			}
			if err := streamcheck.Check(fakeprovider.Responses, out); err != nil {
				t.Fatalf("%v in\n%s", err, out)
			}
			second, f := tell(t, c, bytes.NewReader(out))
			if f != nil {
				t.Fatal(f)
			}
			wantLost(t, c)
			first[0].ID = "resp_req_1"
			for _, events := range [][]told{first, second} {
				for i := range events {
					events[i].State.ID = "" // an item's, which the gateway gives anew
				}
			}
			if diff := cmp.Diff(inline(first), inline(second)); diff != "" {
				t.Errorf("(-first +second)\n%s", diff)
			}
		})
	}
}

// inline is events in the order of the parts: the encoder may close a part later than
// it ended, and decoders tell it so.
func inline(events []told) []told {
	var all []told
	last := 0
	for i := range events {
		last = max(last, events[i].Index)
	}
	all = append(all, events[0])
	for n := 0; n <= last; n++ {
		for _, e := range events[1:] {
			if e.Index == n && e.Kind >= 1 && e.Kind <= 5 {
				all = append(all, e)
			}
		}
	}
	for _, e := range events {
		if e.Kind > 5 {
			all = append(all, e)
		}
	}
	return all
}
