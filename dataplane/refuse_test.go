package dataplane

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

func TestCallThatCannotBeConvertedIsRefusedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	g := newRig(t, func(ts *syncv1.TenantShard) {
		ts.Providers[0].Capabilities = ts.Providers[0].Capabilities[2:3] // Anthropic alone
	})
	body := func(more string) string {
		return `{"model":"m","messages":[{"role":"user","content":"hello there"}]` + more + `}`
	}
	resp, answer := g.post(t, "/v1/chat/completions", body(`,"n":2`))
	for _, want := range []string{"openai_chat.n=drop", "anthropic_messages", `"param":"n"`} {
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(answer, want) {
			t.Errorf("status %d: %s; want a 400 with %s", resp.StatusCode, answer, want)
		}
	}
	if n := g.provider.Attempts(); n != 0 {
		t.Errorf("%d calls reached the provider", n)
	}
	resp, answer = g.post(t, "/v1/chat/completions", body(`,"n":2,"gateway":{"options":{"openai_chat.n":"drop"}}`))
	if got := resp.Header.Get("X-Gateway-Lossy"); resp.StatusCode != http.StatusOK || !strings.Contains(got, "n=drop") {
		t.Errorf("status %d, lossy %q: %s; want the field left out as declared, and named", resp.StatusCode, got, answer)
	}
}

func TestPassthroughSendsTheCallersKeyAndNeverOurs(t *testing.T) {
	t.Parallel()
	g := newRig(t, func(ts *syncv1.TenantShard) {
		ts.Routes[0].ConsumerApiKeys, ts.Routes[0].PassthroughAuthToken = false, true
	})
	for key, want := range map[string]int{keyA: http.StatusOK, "sk-of-nobody": http.StatusUnauthorized} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+"/v1/chat/completions", strings.NewReader(wires()[0].body("m", false)))
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: status %d: %s; want %d", key, resp.StatusCode, body, want)
		}
		all := g.provider.Requests()
		if got := all[len(all)-1].Key; got != key {
			t.Errorf("the provider saw the key %q, want the caller's own %q", got, key)
		}
	}
	if rests := g.node.scheduler.Rests(time.Now()); len(rests) > 0 {
		t.Errorf("cooldowns %+v: one caller's bad key keeps others from the upstream", rests)
	}
	for _, e := range g.settled(t, len(g.provider.Requests())) {
		if e.GetConsumerId() != "" || e.GetApiKeyId() != "" || e.GetCredentialId() != "" || e.GetRouteId() != "rte_1" {
			t.Errorf("row %v, want the tenant and the route alone", e)
		}
	}
}

func TestBarePathsBelowAPrefixAreTheSameAsVersionedOnes(t *testing.T) {
	t.Parallel()
	g := newRig(t, func(ts *syncv1.TenantShard) { ts.Routes[0].PathPrefix = "/team/a" })
	for _, path := range []string{"/team/a/v1/chat/completions", "/team/a/chat/completions"} {
		w := wires()[0]
		w.path = path
		if resp, body := g.call(t, w, "m", false); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d: %s", path, resp.StatusCode, body)
		}
		all := g.provider.Requests()
		if got := all[len(all)-1].Path; got != "/v1/chat/completions" {
			t.Errorf("%s went upstream as %s; the prefix must not", path, got)
		}
	}
	w := wires()[0]
	w.path = "/team/ab/chat/completions"
	if resp, _ := g.call(t, w, "m", false); resp.StatusCode != http.StatusNotFound {
		t.Errorf("a path beside the prefix has status %d, want 404", resp.StatusCode)
	}
}

func TestRouteTakesItsProtocolsAlone(t *testing.T) {
	t.Parallel()
	g := newRig(t, func(ts *syncv1.TenantShard) {
		ts.Routes[0].Protocols = []configv1.Protocol{configv1.Protocol_PROTOCOL_ANTHROPIC_MESSAGES}
	})
	if resp, body := g.call(t, wires()[0], "m", false); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("status %d: %s", resp.StatusCode, body)
	}
	if resp, body := g.call(t, wires()[2], "m", false); resp.StatusCode != http.StatusOK {
		t.Errorf("status %d: %s", resp.StatusCode, body)
	}
}
