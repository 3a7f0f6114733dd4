package openaichat_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/openaichat"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider/streamcheck"
)

// What a Chat caller asks for reaches a Chat upstream unchanged, and the same request
// has the same bytes each time.
func TestRequestOfTheSameProtocolIsTheSame(t *testing.T) {
	t.Parallel()
	for _, name := range files(t, "requests/*.json") {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			body := string(read(t, name))
			r := decode(t, body)
			c := conversion(protocol.OpenAIChat)
			c.Model, c.Stream = r.Model, r.Stream
			got := encode(t, r, c)
			same(t, got, body)
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
	names := append(files(t, "streams/*.sse"), filepath.Join("..", "testdata", "chat_text.sse"), filepath.Join("..", "testdata", "chat_tools.sse"))
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			c := conversion(protocol.OpenAIChat)
			c.WantsUsage = true
			first, f := tell(t, c, bytes.NewReader(read(t, name)))
			if f != nil {
				t.Fatal(f)
			}
			inOrder(t, first)
			w := openaichat.New().NewEventEncoder(c)
			var out []byte
			for i := range first {
				if out, f = w.Encode(out, event(&first[i])); f != nil {
					t.Fatal(f)
				}
			}
			if err := streamcheck.Check(fakeprovider.Chat, out); err != nil {
				t.Fatalf("%v in\n%s", err, out)
			}
			second, f := tell(t, c, bytes.NewReader(out))
			if f != nil {
				t.Fatal(f)
			}
			first[0].ID = "chatcmpl-req_1"
			for i := range first {
				if first[i].Stop.Native == "stop" && first[i].Stop.Reason.String() == "tool_use" {
					first[i].Stop.Native = "tool_calls"
				}
				if first[i].Stop.Native == "function_call" {
					first[i].Stop.Native = "tool_calls"
				}
			}
			if diff := cmp.Diff(first, second); diff != "" {
				t.Errorf("(-first +second)\n%s", diff)
			}
		})
	}
}
