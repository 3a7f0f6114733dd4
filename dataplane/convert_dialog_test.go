package dataplane

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider/vendorsdk"
)

// dialog is a conversation held with a vendor's SDK, the way agents hold it: what came
// back is put into the history as the SDK gives it, and sent again with every turn.
type dialog interface {
	// say sends the history with a turn added and takes the answer into it.
	say(ctx context.Context, said turn, stream bool) (vendorsdk.Reply, error)
}

// turn is what the client's side says. Results go before all else.
type turn struct {
	text     string
	image    []byte // PNG
	imageURL string
	results  []result
}

// result is what a tool returned.
type result struct{ id, name, text string }

// manner is what all requests of a dialog have in common.
type manner struct {
	system string
	tools  []offer
	forced bool   // some tool has to be called
	schema string // JSON Schema of the answer
	limit  int64
	think  bool // reasoning, with its state where the protocol has to be asked for it
	noThought,
	oneCall bool
}

// offer is a tool. An empty schema is that of a tool without arguments.
type offer struct{ name, schema string }

func (o offer) object() map[string]any {
	s := o.schema
	if s == "" {
		s = `{"type":"object","properties":{}}`
	}
	return object(s)
}

func object(s string) map[string]any {
	var m map[string]any
	if err := json.Unmarshal([]byte(s), &m); err != nil {
		panic(err) // a constant of a test
	}
	return m
}

// png is as much of a picture as anybody here looks at.
var png = []byte("\x89PNG\r\n\x1a\nnot much of a picture")

const budget = 2048 // tokens of thinking, for protocols that count them

// talk begins a dialog in the caller's protocol.
func (g *pairRig) talk(t testing.TB, m manner) dialog {
	t.Helper()
	q := g.question("")
	switch g.from {
	case fakeprovider.Chat:
		return newChatDialog(g.url, q, m)
	case fakeprovider.Responses:
		return newResponsesDialog(g.url, q, m)
	case fakeprovider.Anthropic:
		return newAnthropicDialog(g.url, q, m)
	case fakeprovider.Gemini:
		d, err := newGeminiDialog(t.Context(), g.url, q, m)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	panic("no SDK speaks " + string(g.from))
}
