//go:build clients

package clients

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

// upstreamsVariable names the protocols in which the models are served: "own" for the
// client's own, "other" for all but that, "all", or a list such as
// "openai-chat,gemini". Default "own".
const upstreamsVariable = "AIDY_CLIENTS_UPSTREAM"

// protocols are all that a client may be answered from.
func protocols() []fakeprovider.Protocol {
	return []fakeprovider.Protocol{fakeprovider.Chat, fakeprovider.Responses, fakeprovider.Anthropic, fakeprovider.Gemini}
}

// upstreams are the protocols in which the models of a client that speaks own are
// served in this run.
func upstreams(t *testing.T, own fakeprovider.Protocol) []fakeprovider.Protocol {
	t.Helper()
	var out []fakeprovider.Protocol
	for word := range strings.SplitSeq(os.Getenv(upstreamsVariable), ",") {
		switch p := fakeprovider.Protocol(strings.TrimSpace(word)); {
		case p == "" || p == "own":
			out = append(out, own)
		case p == "all":
			out = append(out, protocols()...)
		case p == "other":
			out = append(out, slices.DeleteFunc(protocols(), func(p fakeprovider.Protocol) bool { return p == own })...)
		case slices.Contains(protocols(), p):
			out = append(out, p)
		default:
			t.Fatalf("%s: %q is not own, other, all or one of %v", upstreamsVariable, p, protocols())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// forUpstreams runs a test for each upstream protocol of this run, in a world of its
// own. name tells the client and the task.
func (g *gateway) forUpstreams(t *testing.T, name string, own fakeprovider.Protocol, test func(t *testing.T, w *world)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		for _, upstream := range upstreams(t, own) {
			t.Run("from-"+string(upstream), func(t *testing.T) {
				t.Parallel()
				row := named(name, string(upstream))
				w := g.newWorld(t, row, upstream)
				w.own = own
				defer w.record(t, row)
				test(t, w)
			})
		}
	})
}

// named makes a name that may stand in the configuration out of words.
func named(words ...string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(strings.Join(words, "-")))
}
