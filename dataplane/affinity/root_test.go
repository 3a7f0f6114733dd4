package affinity_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/aidy-gateway/aidy-gateway/dataplane/affinity"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

// The root that chooses a model stays while a conversation grows, and does not depend on
// the model that is chosen.
func TestRootOfAConversationStaysWhileItGrows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, system, texts := conversation(t)
		if len(texts) == 0 {
			t.Skip("no message")
		}
		one := input(t, p, compact().body(request(p, system, texts[0])))
		grown := input(t, p, compact().body(request(p, system, texts...)))
		grown.Model = "another"
		root := affinity.Root(one)
		if root == "" || affinity.Root(grown) != root {
			t.Fatalf("the root %q became %q", root, affinity.Root(grown))
		}
		if root != affinity.Read(one).Root {
			t.Fatalf("the root is not that of the prompt: %q, %q", root, affinity.Read(one).Root)
		}
		other := input(t, p, compact().body(request(p, system, texts[0]+" and more")))
		if affinity.Root(other) == root {
			t.Fatalf("another conversation has the root %q", root)
		}
	})
}

func TestRootPrefersTheNameOfTheSession(t *testing.T) {
	t.Parallel()
	ask := func(body, session string) string {
		in := input(t, protocol.OpenAIResponses, body)
		if session != "" {
			in.Header.Set("x-session-id", session)
		}
		return affinity.Root(in)
	}
	const stored, next = `{"model":"m","previous_response_id":"resp_1","input":"a"}`, `{"model":"m","previous_response_id":"resp_2","input":"b"}`
	if ask(stored, "s") != ask(next, "s") || ask(stored, "s") == ask(stored, "s2") {
		t.Error("a session's root is not that of its name")
	}
	if ask(stored, "") == ask(next, "") {
		t.Error("without a session another stored object has the same root")
	}
	if r := affinity.Root(input(t, protocol.OpenAIChat, `{"model":"m"}`)); r != "" {
		t.Errorf("without a prompt the root is %q", r)
	}
	in := affinity.Input{Protocol: protocol.OpenAIChat, Tenant: "t1"}
	if r := affinity.Root(in); r != "" {
		t.Errorf("without a body the root is %q", r)
	}
}

func BenchmarkRoot(b *testing.B) {
	body := `{"model":"m","messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hello"},{"role":"user","content":"` + strings.Repeat("a ", 100<<10) + `"}]}`
	in := input(b, protocol.OpenAIChat, body)
	b.ReportAllocs()
	for b.Loop() {
		affinity.Root(in)
	}
}
