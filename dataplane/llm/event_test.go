package llm_test

import (
	"strings"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
)

// Whatever an answer is made of, it is given up when too much of it would be kept.
func TestCollectorGivesUpAnAnswerWithoutAnEnd(t *testing.T) {
	t.Parallel()
	const page = 4 << 10
	text := strings.Repeat("x", page)
	for name, e := range map[string]llm.Event{
		"text":           {Kind: llm.EventDelta, Text: []byte(text)},
		"empty parts":    {Kind: llm.EventPartStart, Part: &llm.Part{}},
		"calls":          {Kind: llm.EventPartStart, Part: &llm.Part{Kind: llm.PartCall, Call: &llm.Call{ID: "c", Name: "f"}}},
		"media":          {Kind: llm.EventPartStart, Part: &llm.Part{Kind: llm.PartMedia, Media: &llm.Media{Data: text}}},
		"native parts":   {Kind: llm.EventPartStart, Part: &llm.Part{Kind: llm.PartNative, Native: &llm.Native{Raw: []byte(text)}}},
		"state":          {Kind: llm.EventState, State: &llm.State{Data: text}},
		"sources":        {Kind: llm.EventCite, Citation: &llm.Citation{Text: text}},
		"sources, bytes": {Kind: llm.EventCite, Citation: &llm.Citation{Raw: []byte(text)}},
		"empty sources":  {Kind: llm.EventCite, Citation: &llm.Citation{}},
	} {
		var c llm.Collector
		c.Add(llm.Event{Kind: llm.EventStart})
		c.Add(llm.Event{Kind: llm.EventPartStart, Part: &llm.Part{}})
		n := 0
		for c.Add(e) {
			if n++; n > llm.MaxCollected/llm.PartSize {
				t.Errorf("%s: %d events were taken", name, n)
				break
			}
		}
		if n < llm.MaxCollected/(page+llm.PartSize)-2 {
			t.Errorf("%s: given up after %d events", name, n)
		}
	}
}
