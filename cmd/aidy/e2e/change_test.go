package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider/vendorsdk"
)

// TestC19AppliedChangeServesTheNextRequestOfEveryNode: when the API says that every
// node runs a change, there is no request any more that runs without it.
func TestC19AppliedChangeServesTheNextRequestOfEveryNode(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, 2)
	w := f.newWorld(t, "change", oneUpstream())
	chat := vendorsdk.Of(fakeprovider.Chat)
	for i := range 5 {
		name := fmt.Sprintf("new-%d", i)
		for _, n := range f.nodes {
			if _, err := w.talk(t, n, chat).ask(t.Context(), false, vendorsdk.Question{Model: name}); chat.Status(err) != http.StatusNotFound {
				t.Fatalf("%s before the change: %v, want status 404", name, err)
			}
		}
		began := time.Now()
		result := f.apply(t, &adminv1.BundleResource{Resource: &adminv1.BundleResource_UpstreamModel{UpstreamModel: &configv1.UpstreamModel{
			TenantId: w.name, UpstreamId: "main", Model: name, UpstreamModel: "fake-small",
		}}})
		if took := time.Since(began); took > inForce {
			t.Errorf("in force on every node after %s, want %s at most", took, inForce)
		}
		for _, n := range f.nodes {
			c := w.talk(t, n, chat)
			if _, err := c.ask(t.Context(), false, vendorsdk.Question{Model: name}); err != nil {
				t.Errorf("%s through %s after the change: %v", name, n.spec.Name, err)
			}
			if got, want := c.head("X-Gateway-Config-Generation"), strconv.FormatUint(result.GetGeneration(), 10); got != want {
				t.Errorf("%s served under generation %s, want %s", n.spec.Name, got, want)
			}
		}
	}
	f.atRest(t)
}

// TestG05RevokedKeyAndDisabledCredentialAreUsedNoMore on any node once the change is
// applied, and TestC23 on every role of the fleet: through both control planes.
func TestG05C23RevokedKeyIsRefusedByEveryNode(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, 2)
	w := f.newWorld(t, "revoke", oneUpstream())
	for i, p := range f.planes {
		key, id := w.newKey(t, fmt.Sprintf("key-%d", i))
		for _, sdk := range vendorsdk.All() {
			for _, n := range f.nodes {
				if _, err := w.talk(t, n, sdk).ask(t.Context(), true, vendorsdk.Question{Key: key}); err != nil {
					t.Fatalf("%s through %s before the revocation: %v", sdk.Protocol, n.spec.Name, err)
				}
			}
		}
		began := time.Now()
		revoked, err := p.client(t).consumers.RevokeAPIKey(t.Context(), &adminv1.RevokeAPIKeyRequest{Id: id, Change: onEveryNode()})
		if err != nil {
			t.Fatal(err)
		}
		f.acked(t, revoked.GetResult())
		if took := time.Since(began); took > inForce {
			t.Errorf("revoked on every node after %s, want %s at most", took, inForce)
		}
		before := f.provider.attempts(w.secretPrefix())
		for _, sdk := range vendorsdk.All() {
			for _, n := range f.nodes {
				_, err := w.talk(t, n, sdk).ask(t.Context(), true, vendorsdk.Question{Key: key})
				if got := sdk.Status(err); got != http.StatusUnauthorized {
					t.Errorf("%s through %s after the revocation: %v, want status 401", sdk.Protocol, n.spec.Name, err)
				}
			}
		}
		if n := f.provider.attempts(w.secretPrefix()); n != before {
			t.Errorf("%d requests with the revoked key reached the provider", n-before)
		}
	}
	// Nobody else is refused.
	for _, n := range f.nodes {
		if _, err := w.talk(t, n, vendorsdk.All()[0]).ask(t.Context(), false, vendorsdk.Question{}); err != nil {
			t.Errorf("the other key through %s: %v", n.spec.Name, err)
		}
	}
}

func TestG05DisabledCredentialIsNotUsedByAnyNode(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, 2)
	w := f.newWorld(t, "disable", oneUpstream())
	asked := 0
	ask := func(n int) {
		t.Helper()
		for range n {
			for _, node := range f.nodes {
				asked++ // each question begins a conversation, so that accounts take turns
				if _, err := w.talk(t, node, vendorsdk.All()[0]).ask(t.Context(), false, vendorsdk.Question{Text: fmt.Sprint("question ", asked)}); err != nil {
					t.Fatalf("through %s: %v", node.spec.Name, err)
				}
			}
		}
	}
	ask(4)
	if a, b := f.provider.attempts(w.secretOf("a")), f.provider.attempts(w.secretOf("b")); a == 0 || b == 0 {
		t.Fatalf("credentials a and b were used %d and %d times, want both used", a, b)
	}
	id := w.credential(t, "a")
	disabled, err := f.admin.upstreams.DisableCredential(t.Context(), &adminv1.DisableCredentialRequest{Id: id, Change: onEveryNode()})
	if err != nil {
		t.Fatal(err)
	}
	f.acked(t, disabled.GetResult())
	before := f.provider.attempts(w.secretOf("a"))
	ask(4)
	if n := f.provider.attempts(w.secretOf("a")) - before; n != 0 {
		t.Errorf("the disabled credential was used %d times", n)
	}
	enabled, err := f.admin.upstreams.EnableCredential(t.Context(), &adminv1.EnableCredentialRequest{Id: id, Change: onEveryNode()})
	if err != nil {
		t.Fatal(err)
	}
	f.acked(t, enabled.GetResult())
	ask(4)
	if n := f.provider.attempts(w.secretOf("a")) - before; n == 0 {
		t.Error("the credential was not used again after it was enabled")
	}
}

// TestG13RequestRunsUnderOneGeneration: a change that arrives between two attempts of a
// request changes nothing for it, and response and ledger rows name one generation.
func TestG13RequestRunsUnderOneGeneration(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, 2)
	w := f.newWorld(t, "one-generation", twoUpstreams())
	refuse := fakeprovider.Fail(fakeprovider.RateLimited)
	gate := make(chan struct{})
	refuse.HeaderGate = gate
	f.provider.Script(fakeprovider.Match{Key: w.secretOf("a")}, refuse)

	c := w.talk(t, f.nodes[0], vendorsdk.Of(fakeprovider.Chat))
	failed := make(chan error, 1)
	go func() {
		_, err := c.ask(t.Context(), true, vendorsdk.Question{})
		failed <- err
	}()
	f.provider.waitFor(t, patience, w.secretOf("a"), "the first attempt", func(seen []fakeprovider.Request) bool { return len(seen) == 1 })

	generation := f.nodes[0].policyGeneration(t)
	// Under the new generation the model is called otherwise at the second upstream.
	change := f.apply(t, &adminv1.BundleResource{Resource: &adminv1.BundleResource_UpstreamModel{UpstreamModel: &configv1.UpstreamModel{
		TenantId: w.name, UpstreamId: "second", Model: model, UpstreamModel: "fake-small",
	}}})
	if change.GetGeneration() <= generation {
		t.Fatalf("the change is generation %d, not after %d", change.GetGeneration(), generation)
	}
	close(gate)
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	if got, want := c.head("X-Gateway-Config-Generation"), strconv.FormatUint(generation, 10); got != want {
		t.Errorf("the response names generation %s, want %s: the one at admission", got, want)
	}
	if seen := f.provider.of(w.secretOf("b")); len(seen) != 1 || seen[0].Model != "fake-large" {
		t.Errorf("the second attempt asked for %q, want fake-large as the first generation has it", seen[0].Model)
	}
	rows := w.rows(t, 2)
	for _, e := range rows {
		if got := e.GetEvent().GetPolicyGeneration(); got != generation {
			t.Errorf("attempt %d is booked under generation %d, want %d", e.GetEvent().GetAttempt(), got, generation)
		}
		if e.GetEvent().GetIdentityGeneration() == 0 {
			t.Errorf("attempt %d is booked without an identity generation", e.GetEvent().GetAttempt())
		}
	}
	// The next request is under the new one.
	if _, err := c.ask(t.Context(), true, vendorsdk.Question{}); err != nil {
		t.Fatal(err)
	}
	if got, want := c.head("X-Gateway-Config-Generation"), strconv.FormatUint(change.GetGeneration(), 10); got != want {
		t.Errorf("the next response names generation %s, want %s", got, want)
	}
	if seen := f.provider.of(w.secretOf("b")); len(seen) != 2 || seen[1].Model != "fake-small" {
		t.Errorf("the provider saw %d requests of the second credential, want a second one for fake-small", len(seen))
	}
}

func (n *node) policyGeneration(t *testing.T) uint64 {
	t.Helper()
	s, err := n.status(t)
	if err != nil {
		t.Fatal(err)
	}
	return s.Configuration.Policy.Generation
}

// TestG05C25NoAttemptStartsAfterTheKeyIsRevoked: who may call is asked again before
// every attempt, under the newest identity.
func TestG05C25NoAttemptStartsAfterTheRevocation(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, 1)
	for name, revoke := range map[string]func(t *testing.T, w *world) *adminv1.ChangeResult{
		"of the key": func(t *testing.T, w *world) *adminv1.ChangeResult {
			r, err := f.admin.consumers.RevokeAPIKey(t.Context(), &adminv1.RevokeAPIKeyRequest{Id: w.keyID, Change: onEveryNode()})
			if err != nil {
				t.Fatal(err)
			}
			return r.GetResult()
		},
		"of the credential": func(t *testing.T, w *world) *adminv1.ChangeResult {
			r, err := f.admin.upstreams.DisableCredential(t.Context(), &adminv1.DisableCredentialRequest{Id: w.credential(t, "b"), Change: onEveryNode()})
			if err != nil {
				t.Fatal(err)
			}
			return r.GetResult()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := f.newWorld(t, named("late", name), twoUpstreams())
			refuse := fakeprovider.Fail(fakeprovider.RateLimited)
			gate := make(chan struct{})
			refuse.HeaderGate = gate
			f.provider.Script(fakeprovider.Match{Key: w.secretOf("a")}, refuse)
			c := w.talk(t, f.nodes[0], vendorsdk.Of(fakeprovider.Chat))
			failed := make(chan error, 1)
			go func() {
				_, err := c.ask(context.WithoutCancel(t.Context()), true, vendorsdk.Question{})
				failed <- err
			}()
			f.provider.waitFor(t, patience, w.secretOf("a"), "the first attempt", func(seen []fakeprovider.Request) bool { return len(seen) == 1 })
			f.acked(t, revoke(t, w))
			close(gate)
			if err := <-failed; err == nil {
				t.Error("the request was served, want it refused")
			}
			if n := f.provider.attempts(w.secretOf("b")); n != 0 {
				t.Errorf("%d attempts were started after the revocation was applied", n)
			}
		})
	}
}
