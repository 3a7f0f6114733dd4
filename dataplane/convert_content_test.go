package dataplane

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

// What a model is called says nothing of what it can see.
func TestField_F86_ImageReachesModelsOfAnyName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"fake-large", "gpt-3.5-turbo", "deepseek-chat", "text-only-7b"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pairs(t, func(t *testing.T, p pair) {
				g := newPairRig(t, p, upstreamModel(name))
				r, err := g.talk(t, manner{}).say(t.Context(), turn{text: "What is this?", image: png}, false)
				if err != nil {
					t.Fatal(err)
				}
				if r.Text == "" {
					t.Errorf("got %+v", r)
				}
				if sent := string(g.sent(t).Body); !strings.Contains(sent, base64.StdEncoding.EncodeToString(png)) || !strings.Contains(sent, "image/png") {
					t.Errorf("the image is not in %s", sent)
				}
			})
		})
	}
}

func TestField_F86_AddressOfAnImageIsSentOrRefused(t *testing.T) {
	t.Parallel()
	const address = "https://images.example/a.png"
	pairs(t, func(t *testing.T, p pair) {
		g := newPairRig(t, p)
		_, err := g.talk(t, manner{}).say(t.Context(), turn{text: "What is this?", imageURL: address}, false)
		if err != nil {
			// Refusing is right where the protocol has no place for addresses, and then the
			// caller is told which feature it is.
			if !strings.Contains(g.seen.body(), "image_url") || g.provider.Attempts() > 0 {
				t.Errorf("%v: %s", err, g.seen.body())
			}
			if p.to != fakeprovider.Gemini {
				t.Errorf("%s has a place for the address of an image: %v", p.to, err)
			}
			return
		}
		if sent := string(g.sent(t).Body); !strings.Contains(sent, address) {
			t.Errorf("the address is not in %s", sent)
		}
	})
}

func TestPairAnswersInTheFormOfASchema(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}},"required":["city","days"],"additionalProperties":false}`
	eachWay(t, func(t *testing.T, p pair, stream bool) {
		g := newPairRig(t, p)
		r, err := g.talk(t, manner{schema: schema}).say(t.Context(), turn{text: "Where, and for how long?"}, stream)
		if err != nil {
			t.Fatal(err)
		}
		var out struct {
			City *string
			Days *int
		}
		if err := json.Unmarshal([]byte(r.Text), &out); err != nil || out.City == nil || out.Days == nil {
			t.Errorf("%q does not fit the schema (%v)\nsent %s", r.Text, err, g.sent(t).Body)
		}
	})
}

func TestPairTellsThatTheLimitCutTheAnswer(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, p pair, stream bool) {
		g := newPairRig(t, p)
		const limit = 16 // the least that Responses takes; the provider counts four bytes a token
		r, err := g.talk(t, manner{limit: limit}).say(t.Context(), turn{text: "Talk."}, stream)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Text) != 4*limit || r.Output != limit || r.Stop != words(p.from)[fakeprovider.StopLength] {
			t.Errorf("got %+v", r)
		}
		if p.from == fakeprovider.Responses && !strings.Contains(g.seen.body(), `"max_output_tokens"`) {
			t.Errorf("no reason in %s", g.seen.body())
		}
	})
}

// declined reports an answer that cannot be taken for a good one.
func declined(p fakeprovider.Protocol, stop, body string) bool {
	switch p {
	case fakeprovider.Chat:
		return stop == "content_filter" || stop == "stop" && strings.Contains(body, `"refusal":"`)
	case fakeprovider.Responses:
		return stop == "incomplete" && strings.Contains(body, `"content_filter"`) || stop == "completed" && strings.Contains(body, `"type":"refusal"`)
	case fakeprovider.Anthropic:
		return stop == "refusal"
	}
	return slices.Contains([]string{"SAFETY", "PROHIBITED_CONTENT"}, stop) || strings.Contains(body, `"blockReason"`)
}

func TestPairTellsARefusalAsOne(t *testing.T) {
	t.Parallel()
	const text = "I cannot help with that."
	eachWay(t, func(t *testing.T, p pair, stream bool) {
		g := newPairRig(t, p)
		g.provider.Script(fakeprovider.Match{}, fakeprovider.Step{Refusal: text})
		r, err := g.talk(t, manner{}).say(t.Context(), turn{text: "Do something bad."}, stream)
		if err != nil {
			t.Fatal(err)
		}
		if !declined(p.from, r.Stop, g.seen.body()) {
			t.Errorf("%+v looks like an answer: %s", r, g.seen.body())
		}
		openai := []fakeprovider.Protocol{fakeprovider.Chat, fakeprovider.Responses}
		if slices.Contains(openai, p.to) && r.Text != text {
			t.Errorf("the model said %q, the caller got %q", text, r.Text)
		}
	})
}

func TestPairTellsWhatAFilterCut(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, p pair, stream bool) {
		g := newPairRig(t, p)
		g.provider.Script(fakeprovider.Match{}, fakeprovider.Step{Text: "Half an ans", Stop: fakeprovider.StopFiltered})
		r, err := g.talk(t, manner{}).say(t.Context(), turn{text: "Talk."}, stream)
		if err != nil {
			t.Fatal(err)
		}
		if !declined(p.from, r.Stop, g.seen.body()) || !strings.HasPrefix(r.Text, "Half an ans") {
			t.Errorf("got %+v: %s", r, g.seen.body())
		}
	})
}

// A conversation goes on after a refusal: what the caller's SDK keeps of it is no
// reason for the upstream to refuse all that follows.
func TestPairGoesOnAfterARefusal(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, p pair, stream bool) {
		if p.from == fakeprovider.Gemini && p.to == p.from {
			t.Skip("the SDK itself leaves out what was refused, and the call passes as it is")
		}
		g := newPairRig(t, p)
		g.provider.Script(fakeprovider.Match{}, fakeprovider.Step{Refusal: "I cannot help with that.", Text: "Well."}, fakeprovider.Step{Text: "Sure."})
		d := g.talk(t, manner{})
		if _, err := d.say(t.Context(), turn{text: "Do something bad."}, stream); err != nil {
			t.Fatal(err)
		}
		r, err := d.say(t.Context(), turn{text: "Then something good."}, stream)
		if err != nil {
			t.Fatal(err)
		}
		if r.Text != "Sure." {
			t.Errorf("got %+v", r)
		}
	})
}
