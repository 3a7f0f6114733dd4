package affinity_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/affinity"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

// agentBody is what a coding agent sends: tools with schemas, a marked system prompt, and
// turns with code in them, of about size bytes in all.
func agentBody(size int) string {
	var b strings.Builder
	b.WriteString(`{"model":"m","max_tokens":32000,"stream":true,"tools":[`)
	for i := range 24 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":"tool_%d","description":%q,"input_schema":{"type":"object","properties":{"path":{"type":"string","description":"where it is"},"limit":{"type":"integer","minimum":1},"flags":{"type":"array","items":{"type":"string","enum":["a","b","c"]}}},"required":["path"],"additionalProperties":false}}`,
			i, strings.Repeat("Reads a file and says what is in it. ", 20))
	}
	fmt.Fprintf(&b, `],"system":[{"type":"text","text":%q,"cache_control":{"type":"ephemeral"}}],"messages":[`,
		strings.Repeat("You are careful.\nYou answer \"yes\" or \"no\".\n", 200))
	for i := 0; b.Len() < size; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_%d","content":[{"type":"text","text":%q}]}]},{"role":"assistant","content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"toolu_%d","name":"tool_1","input":{"path":"a/b/c.go","limit":20}}]}`,
			i, strings.Repeat("\tif err != nil {\n\t\treturn fmt.Errorf(\"open: %w\", err)\n\t}\n", 40), i+1)
	}
	b.WriteString(`,{"role":"user","content":"go on"}]}`)
	return b.String()
}

// textBody is one long text.
func textBody(size int) string {
	return fmt.Sprintf(`{"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":%q}]}`,
		strings.Repeat("The quick brown fox jumps over the lazy dog. ", size/45))
}

func BenchmarkRead200KB(b *testing.B) {
	for _, c := range []struct {
		name     string
		protocol protocol.Name
		body     string
	}{
		{"text", protocol.OpenAIChat, textBody(200 << 10)},
		{"agent", protocol.Anthropic, agentBody(200 << 10)},
		{"agent_spaced", protocol.Anthropic, spaced(agentBody(200 << 10))},
	} {
		b.Run(c.name, func(b *testing.B) {
			in := input(b, c.protocol, c.body)
			b.SetBytes(int64(len(c.body)))
			b.ReportAllocs()
			for b.Loop() {
				affinity.Read(in)
			}
		})
	}
}

// spaced puts a blank after each colon and comma between tokens, as many encoders do.
func spaced(body string) string {
	var b strings.Builder
	inside, escaped := false, false
	for i := range len(body) {
		c := body[i]
		b.WriteByte(c)
		switch {
		case escaped:
			escaped = false
		case c == '\\' && inside:
			escaped = true
		case c == '"':
			inside = !inside
		case !inside && (c == ':' || c == ','):
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// talk is the key of a conversation of n messages.
func talk(t fatal, id string, n int) affinity.Key {
	var b strings.Builder
	fmt.Fprintf(&b, `{"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":%q}`, id)
	for i := range n - 1 {
		role := "assistant"
		if i%2 == 1 {
			role = "user"
		}
		fmt.Fprintf(&b, `,{"role":%q,"content":"message %d"}`, role, i)
	}
	b.WriteString("]}")
	return read(t, protocol.OpenAIChat, b.String())
}

func BenchmarkLookup(b *testing.B) {
	now := time.Unix(1e9, 0)
	s := affinity.NewStore(affinity.Config{})
	for i := 0; s.Len() < 100_000; i++ {
		k := talk(b, fmt.Sprint("other ", i), 5)
		s.Succeeded(&k, affinity.Served{
			Scope: affinity.ScopeID(i % 7), Read: 1 << 20, Reported: true, TTLMin: time.Hour, TTLMax: time.Hour,
		}, now)
	}
	for _, n := range []int{3, 31, 151} {
		var k affinity.Key
		for grown := 1; grown <= n; grown += 2 { // so that every boundary is known
			k = talk(b, fmt.Sprint("this ", n), grown)
			s.Succeeded(&k, affinity.Served{Scope: 1, Read: 1 << 20, Reported: true, TTLMin: time.Hour, TTLMax: time.Hour}, now)
		}
		b.Run(fmt.Sprintf("messages=%d", n), func(b *testing.B) {
			dst := make([]affinity.Match, 0, 64)
			b.ReportAllocs()
			for b.Loop() {
				dst = s.Lookup(dst[:0], &k, now)
			}
			if len(dst) == 0 {
				b.Fatal("found nothing")
			}
		})
	}
}

func BenchmarkSucceeded(b *testing.B) {
	now := time.Unix(1e9, 0)
	s := affinity.NewStore(affinity.Config{})
	k := talk(b, "this", 31)
	served := affinity.Served{Scope: 1, Read: 1 << 20, Reported: true, TTLMin: time.Hour, TTLMax: time.Hour}
	b.ReportAllocs()
	for b.Loop() {
		s.Succeeded(&k, served, now)
	}
}
