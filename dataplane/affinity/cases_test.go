package affinity_test

import (
	"encoding/json"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aidy-gateway/aidy-gateway/dataplane/affinity"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/anthropic"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/gemini"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/openaichat"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/openairesponses"
)

// codecs read the bodies of the tests as they read those of clients.
var codecs = map[protocol.Name]protocol.Codec{
	protocol.OpenAIChat: openaichat.New(), protocol.OpenAIResponses: openairesponses.New(),
	protocol.Anthropic: anthropic.New(), protocol.Gemini: gemini.New(),
}

// all are the protocols in a fixed order.
var all = []protocol.Name{protocol.OpenAIChat, protocol.OpenAIResponses, protocol.Anthropic, protocol.Gemini}

type fatal interface {
	Helper()
	Fatalf(format string, args ...any)
}

// input is a request of tenant t1 for model m with the body, read by its codec.
func input(t fatal, p protocol.Name, body string) affinity.Input {
	t.Helper()
	shape, f := codecs[p].Inspect([]byte(body), protocol.Target{Protocol: p, Op: protocol.OpGenerate, Model: "m"})
	if f != nil {
		t.Fatalf("inspect %s: %v", body, f)
	}
	return affinity.Input{
		Protocol: p, Tenant: "t1", Model: "m", Header: http.Header{}, Body: []byte(body), Shape: shape,
		Seed: affinity.NewSeed([]byte("seed of the tests")),
	}
}

func read(t fatal, p protocol.Name, body string) affinity.Key {
	t.Helper()
	return affinity.Read(input(t, p, body))
}

func blocks(k affinity.Key) []string {
	var names []string
	for _, b := range k.Chain {
		names = append(names, b.Block.String())
	}
	return names
}

// common is how many leading boundaries two keys share.
func common(a, b affinity.Key) int {
	n := 0
	for n < min(len(a.Chain), len(b.Chain)) && a.Chain[n].Hash == b.Chain[n].Hash {
		n++
	}
	return n
}

// affinityCase is a case of kind affinity in the list that the scheduler shares.
type affinityCase struct {
	ID       string
	Kind     string
	Protocol protocol.Name
	Tenant   string
	Headers  map[string]string
	Body     json.RawMessage
	Body2    json.RawMessage
	Expect   struct {
		Kind            string
		KeySource       string `json:"key_source"`
		Key             *string
		Blocks          []string
		MinTTLMs        *int64 `json:"min_ttl_ms"`
		EstimatedTokens *int64 `json:"estimated_tokens"`
		CommonBlocks    *int   `json:"common_blocks"`
	}
}

func runCase(t *testing.T, id string) {
	t.Helper()
	raw, err := os.ReadFile("../schedule/testdata/scheduler.json")
	if err != nil {
		t.Fatal(err)
	}
	var list struct{ Cases []json.RawMessage }
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	for _, one := range list.Cases {
		var head struct{ ID string }
		if err := json.Unmarshal(one, &head); err != nil {
			t.Fatal(err)
		}
		if head.ID != id {
			continue
		}
		var c affinityCase
		if err := json.Unmarshal(one, &c); err != nil {
			t.Fatal(err)
		}
		c.check(t)
		return
	}
	t.Fatalf("there is no case %s", id)
}

func (c *affinityCase) check(t *testing.T) {
	in := input(t, c.Protocol, string(c.Body))
	in.Tenant = c.Tenant
	for name, v := range c.Headers {
		in.Header.Set(name, v)
	}
	k := affinity.Read(in)
	if k.Kind.String() != c.Expect.Kind || k.Source != c.Expect.KeySource {
		t.Errorf("kind %s from %q, want %s from %q", k.Kind, k.Source, c.Expect.Kind, c.Expect.KeySource)
	}
	if diff := cmp.Diff(c.Expect.Blocks, blocks(k)); diff != "" {
		t.Errorf("blocks (-want +got):\n%s", diff)
	}
	if want := c.Expect.Key; want != nil {
		// A session is kept as a hash alone: the same name given in the header makes the same.
		named := in
		named.Header = http.Header{}
		named.Header.Set(affinity.KeyHeader, *want)
		if other := affinity.Read(named); other.Session != k.Session || k.Session.IsZero() {
			t.Errorf("the session is not %q", *want)
		}
	}
	if want := c.Expect.MinTTLMs; want != nil && k.MinTTL != time.Duration(*want)*time.Millisecond {
		t.Errorf("min ttl %v, want %d ms", k.MinTTL, *want)
	}
	if want := c.Expect.EstimatedTokens; want != nil && k.PromptTokens != *want {
		t.Errorf("%d tokens, want %d", k.PromptTokens, *want)
	}
	if want := c.Expect.CommonBlocks; want != nil {
		in2 := input(t, c.Protocol, string(c.Body2))
		in2.Tenant = c.Tenant
		if got := common(k, affinity.Read(in2)); got != *want {
			t.Errorf("%d leading blocks in common, want %d", got, *want)
		}
	}
}

func TestS055GrowingChatKeepsItsLongestPrefix(t *testing.T) { t.Parallel(); runCase(t, "S-055") }

func TestS056MarkersAndThinkingBudget(t *testing.T) { t.Parallel(); runCase(t, "S-056") }
