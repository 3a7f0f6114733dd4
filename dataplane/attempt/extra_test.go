package attempt

import (
	"bytes"
	"encoding/json"
	"testing"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

// What a provider wants in every body is added where it is not there, for its models,
// and never in the place of what the gateway decides.
func TestExtraBodyIsAddedWhereItIsAbsent(t *testing.T) {
	t.Parallel()
	c := &plan.Candidate{
		Account: &plan.Account{Model: &configv1.UpstreamModel{Model: "m"}},
		Capability: &configv1.Capability{Extra: []*configv1.ExtraParams{
			{ExtraBodyJson: `{"top_k": 5, "nested": {"a": [1, "x"]}, "model": "other", "stream": true, "temperature": 9}`},
			{Models: []string{"n"}, ExtraBodyJson: `{"never": 1}`},
			{Models: []string{"m"}, ExtraBodyJson: `{"top_k": 6, "own": "é"}`},
		}},
	}
	const want = `{"model":"m","temperature":1,"top_k":5,"nested":{"a":[1,"x"]},"own":"é"}`
	body := []byte(`{"model":"m","temperature":1}`)
	converted := bytes.Join(extraIn(body, c), nil)
	own := bytes.Join(protocol.Splice(body, extra(c, 1, func(name string) bool { return name == "model" || name == "temperature" })), nil)
	for name, got := range map[string][]byte{"converted": converted, "own": own} {
		if !sameJSON(t, got, []byte(want)) {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	c.Capability.Extra = nil
	if got := bytes.Join(extraIn(body, c), nil); !bytes.Equal(got, body) {
		t.Errorf("a provider that wants nothing gets %s", got)
	}
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y map[string]any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil || len(x) != len(y) {
		return false
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return bytes.Equal(p, q)
}
