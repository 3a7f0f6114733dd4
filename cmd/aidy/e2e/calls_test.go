package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"strings"
	"testing"
	"time"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider/vendorsdk"
)

// TestEndToEndTheVendorsSDKsAreServedByEveryNode is the product's main promise: what
// the SDKs can do at their vendors they can do through either of two nodes.
func TestEndToEndTheVendorsSDKsAreServedByEveryNode(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, 2)
	for i, n := range f.nodes {
		for _, sdk := range vendorsdk.All() {
			t.Run(fmt.Sprintf("%s by node %d", sdk.Protocol, i+1), func(t *testing.T) {
				t.Parallel()
				for _, c := range calls() {
					t.Run(c.name, func(t *testing.T) {
						// Of its own, so that a cooldown of one call is not met by another.
						w := f.newWorld(t, named(c.short, sdk.Protocol, i+1), c.accounts())
						c.run(t, w.talk(t, n, sdk))
					})
				}
			})
		}
	}
}

type callCase struct {
	name, short string
	accounts    func() []account
	run         func(t *testing.T, c *conversation)
}

func calls() []callCase {
	return []callCase{
		{"answers are whole or streamed", "plain", oneUpstream, plainAnswers},
		{"a tool is called and its result is heard", "tools", oneUpstream, toolTurns},
		{"a prompt of 1 MB arrives whole", "large", oneUpstream, largePrompt},
		{"an image arrives whole", "image", oneUpstream, imagePrompt},
		{"the provider sees the client leave within 1 s", "cancel", oneUpstream, cancellation},
		{"after a 429 the second credential answers", "limited", twoUpstreams, failover(fakeprovider.RateLimited, 1)},
		// An overload is of the upstream and not of the credential, and worth one more
		// try with the same account first.
		{"after an overload the second upstream answers", "overload", twoUpstreams, failover(fakeprovider.Overloaded, 2)},
		{"an error after the first event is the protocol's own", "broken", oneUpstream, brokenStream},
	}
}

// modes are both ways to get an answer.
var modes = []bool{false, true}

func plainAnswers(t *testing.T, c *conversation) {
	for _, stream := range modes {
		r, err := c.ask(t.Context(), stream, vendorsdk.Question{})
		if err != nil {
			t.Fatalf("stream %v: %v", stream, err)
		}
		if !strings.Contains(r.Text, "good morning") || !strings.Contains(r.Text, "fake-large") {
			t.Errorf("stream %v: answer %q, want that of fake-large to the question", stream, r.Text)
		}
		if r.Prompt != 3 || r.Output == 0 {
			t.Errorf("stream %v: %d tokens in, %d out; want the provider's own counts", stream, r.Prompt, r.Output)
		}
		for _, name := range []string{"X-Gateway-Request-Id", "X-Gateway-Config-Generation", "X-Gateway-Scheduled-Credential-Id"} {
			if c.head(name) == "" {
				t.Errorf("stream %v: no header %s", stream, name)
			}
		}
		if got := c.head("X-Gateway-Scheduled-Model"); got != "fake-large" {
			t.Errorf("stream %v: scheduled model %q, want fake-large", stream, got)
		}
	}
	seen := c.w.f.provider.of(c.w.secretPrefix())
	if len(seen) != len(modes) {
		t.Fatalf("the provider saw %d requests, want %d", len(seen), len(modes))
	}
	for _, r := range seen {
		if r.Protocol != c.sdk.Protocol || r.Model != "fake-large" {
			t.Errorf("the provider was asked for %q in %s, want fake-large in %s", r.Model, r.Protocol, c.sdk.Protocol)
		}
		for name, values := range r.Header {
			if strings.HasPrefix(name, "X-Gateway-") || strings.Contains(strings.Join(values, " "), c.key) {
				t.Errorf("the header %s: %q reached the provider", name, values)
			}
		}
	}
}

func toolTurns(t *testing.T, c *conversation) {
	for _, stream := range modes {
		first, err := c.ask(t.Context(), stream, vendorsdk.Question{Text: "which weather?", Tools: true, Force: true})
		if err != nil {
			t.Fatalf("stream %v: %v", stream, err)
		}
		if len(first.Calls) != 1 || first.Calls[0].Name != "weather" {
			t.Fatalf("stream %v: calls %v, want one of weather", stream, first.Calls)
		}
		var args struct{ City string }
		if err := json.Unmarshal([]byte(first.Calls[0].Args), &args); err != nil || args.City == "" {
			t.Errorf("stream %v: arguments %q do not fit %s", stream, first.Calls[0].Args, vendorsdk.ToolSchema)
		}
		second, err := c.ask(t.Context(), stream, vendorsdk.Question{
			Text: "which weather?", Tools: true, Called: first.Calls[0], Result: "sunny with a breeze",
		})
		if err != nil {
			t.Fatalf("stream %v: %v", stream, err)
		}
		if len(second.Calls) != 0 || !strings.Contains(second.Text, "sunny with a breeze") {
			t.Errorf("stream %v: second turn %+v, want a text with the result", stream, second)
		}
	}
}

func largePrompt(t *testing.T, c *conversation) {
	text := strings.Repeat("a megabyte of text, ", 1<<20/20)
	for _, stream := range modes {
		r, err := c.ask(t.Context(), stream, vendorsdk.Question{Text: text})
		if err != nil {
			t.Fatalf("stream %v: %v", stream, err)
		}
		if want := int64(len(text)+3) / 4; r.Prompt != want {
			t.Errorf("stream %v: the provider counted %d tokens, want %d", stream, r.Prompt, want)
		}
	}
	for _, r := range c.w.f.provider.of(c.w.secretPrefix()) {
		if !bytes.Contains(r.Body, []byte(text)) {
			t.Errorf("the prompt did not reach the provider unchanged: %d bytes of body", r.BodyBytes)
		}
	}
}

func imagePrompt(t *testing.T, c *conversation) {
	picture := drawing(t)
	for _, stream := range modes {
		r, err := c.ask(t.Context(), stream, vendorsdk.Question{Text: "what is in this picture?", Image: picture})
		if err != nil {
			t.Fatalf("stream %v: %v", stream, err)
		}
		if !strings.Contains(r.Text, "what is in this picture?") {
			t.Errorf("stream %v: answer %q", stream, r.Text)
		}
	}
	encoded := []byte(base64.StdEncoding.EncodeToString(picture))
	for _, r := range c.w.f.provider.of(c.w.secretPrefix()) {
		if !bytes.Contains(r.Body, encoded) {
			t.Errorf("the image did not reach the provider unchanged: %d bytes of body", r.BodyBytes)
		}
	}
}

// drawing is a PNG of a few kilobytes.
func drawing(t *testing.T) []byte {
	t.Helper()
	m := image.NewRGBA(image.Rect(0, 0, 64, 64))
	for i := range 64 * 64 {
		m.Set(i%64, i/64, color.RGBA{uint8(i * 7), uint8(i * 13), uint8(i * 29), 255})
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func cancellation(t *testing.T, c *conversation) {
	p := c.w.f.provider
	for _, credential := range []string{"a", "b"} {
		p.Script(fakeprovider.Match{Key: c.w.secretOf(credential)},
			fakeprovider.Step{Pieces: []string{"one ", "two ", "three"}, Fault: fakeprovider.FaultStall, FaultAfter: 2})
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := c.sdk.Stream(ctx, c.base, c.question(vendorsdk.Question{}), cancel)
	if err == nil {
		t.Error("the stream ended well, want it cancelled")
	}
	p.waitFor(t, time.Second, c.w.secretPrefix(), "that the client left", func(seen []fakeprovider.Request) bool {
		return len(seen) == 1 && seen[0].Canceled
	})
}

// failover: the account that refuses is asked tries times for the first question and
// then rests.
func failover(kind fakeprovider.ErrorKind, tries int) func(t *testing.T, c *conversation) {
	return func(t *testing.T, c *conversation) {
		p := c.w.f.provider
		// The account of the first priority refuses.
		p.SetScript(fakeprovider.Script{
			Match: fakeprovider.Match{Key: c.w.secretOf("a")},
			Steps: []fakeprovider.Step{fakeprovider.Fail(kind)},
		})
		for _, stream := range modes {
			r, err := c.ask(t.Context(), stream, vendorsdk.Question{})
			if err != nil {
				t.Fatalf("stream %v: %v", stream, err)
			}
			if !strings.Contains(r.Text, "good morning") {
				t.Errorf("stream %v: answer %q", stream, r.Text)
			}
			if got, want := c.head("X-Gateway-Scheduled-Credential-Id"), c.w.credential(t, "b"); got != want {
				t.Errorf("stream %v: answered by %q, want the second credential %q", stream, got, want)
			}
		}
		if n := p.attempts(c.w.secretOf("a")); n != tries {
			t.Errorf("the credential that refused was asked %d times, want %d: then it rests", n, tries)
		}
		if n := p.attempts(c.w.secretOf("b")); n != len(modes) {
			t.Errorf("the other credential was asked %d times, want %d", n, len(modes))
		}
	}
}

func brokenStream(t *testing.T, c *conversation) {
	for name, step := range map[string]fakeprovider.Step{
		"connection cut": {Pieces: []string{"one ", "two ", "three"}, Fault: fakeprovider.FaultCut, FaultAfter: 2},
		"early end":      {Pieces: []string{"one ", "two ", "three"}, Fault: fakeprovider.FaultEnd, FaultAfter: 2},
		"error event":    {Pieces: []string{"one ", "two ", "three"}, Fault: fakeprovider.FaultErrorEvent, FaultAfter: 2},
	} {
		p := c.w.f.provider
		for _, credential := range []string{"a", "b"} {
			p.Script(fakeprovider.Match{Key: c.w.secretOf(credential)}, step)
		}
		before := p.attempts(c.w.secretPrefix())
		r, err := c.ask(t.Context(), true, vendorsdk.Question{})
		if err == nil || errors.Is(err, vendorsdk.ErrNoEnd) {
			t.Errorf("%s: %v after %q, want the error that the protocol tells within a stream", name, err, r.Text)
		}
		if !strings.HasPrefix(r.Text, "one ") || strings.Contains(r.Text, "three") {
			t.Errorf("%s: the SDK got %q before the error, want what the provider sent", name, r.Text)
		}
		if n := p.attempts(c.w.secretPrefix()) - before; n != 1 {
			t.Errorf("%s: %d attempts, want 1: nothing is tried after the first event", name, n)
		}
		p.Script(fakeprovider.Match{Key: c.w.secretOf("a")})
		p.Script(fakeprovider.Match{Key: c.w.secretOf("b")})
	}
}
