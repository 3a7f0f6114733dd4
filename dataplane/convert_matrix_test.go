package dataplane

import (
	"strings"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

// words is why an answer ended in the words of each protocol.
func words(p fakeprovider.Protocol) map[fakeprovider.Stop]string {
	switch p {
	case fakeprovider.Chat:
		return map[fakeprovider.Stop]string{
			fakeprovider.StopEnd: "stop", fakeprovider.StopTools: "tool_calls", fakeprovider.StopLength: "length",
			fakeprovider.StopRefusal: "stop", fakeprovider.StopFiltered: "content_filter",
		}
	case fakeprovider.Responses:
		return map[fakeprovider.Stop]string{
			fakeprovider.StopEnd: "completed", fakeprovider.StopTools: "completed", fakeprovider.StopLength: "incomplete",
			fakeprovider.StopRefusal: "completed", fakeprovider.StopFiltered: "incomplete",
		}
	case fakeprovider.Anthropic:
		return map[fakeprovider.Stop]string{
			fakeprovider.StopEnd: "end_turn", fakeprovider.StopTools: "tool_use", fakeprovider.StopLength: "max_tokens",
			fakeprovider.StopRefusal: "refusal", fakeprovider.StopFiltered: "refusal",
		}
	}
	return map[fakeprovider.Stop]string{
		fakeprovider.StopEnd: "STOP", fakeprovider.StopTools: "STOP", fakeprovider.StopLength: "MAX_TOKENS",
		fakeprovider.StopRefusal: "SAFETY", fakeprovider.StopFiltered: "SAFETY",
	}
}

func TestPairAnswersTextAndSystemIsHeard(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, p pair, stream bool) {
		g := newPairRig(t, p)
		g.provider.Script(fakeprovider.Match{}, fakeprovider.Step{
			Pieces: []string{"grüße, ", "世", "界"}, Usage: &fakeprovider.Usage{Input: 100, Output: 20},
		})
		r, err := g.talk(t, manner{system: "Be brief."}).say(t.Context(), turn{text: "hello there"}, stream)
		if err != nil {
			t.Fatal(err)
		}
		if r.Text != "grüße, 世界" || r.Stop != words(p.from)[fakeprovider.StopEnd] {
			t.Errorf("got %+v", r)
		}
		if r.Prompt != 100 || r.Output != 20 {
			t.Errorf("usage %d in, %d out; want 100 and 20", r.Prompt, r.Output)
		}
		sent := string(g.sent(t).Body)
		if strings.Count(sent, "Be brief.") != 1 || strings.Count(sent, "hello there") != 1 {
			t.Errorf("sent %s", sent)
		}
		e := g.settled(t, 1)[0]
		if u := e.GetUnits(); u.GetInput() != 100 || u.GetOutput() != 20 {
			t.Errorf("metered %v", u)
		}
	})
}
