package e2e

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider/vendorsdk"
	"github.com/aidy-gateway/aidy-gateway/shared/peer"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

// joinToken makes one through the admin API.
func (f *fleet) joinToken(t *testing.T) (token, id string) {
	t.Helper()
	made, err := f.admin.nodes.CreateJoinToken(t.Context(), &adminv1.CreateJoinTokenRequest{Name: "e2e"})
	if err != nil {
		t.Fatal(err)
	}
	return made.GetToken(), made.GetJoinToken().GetId()
}

// joining makes a node that has no identity yet.
func (f *fleet) joining(t *testing.T, name, token string) nodeSpec {
	s := f.spec(t, name)
	s.ID, s.JoinToken = "", token
	return s
}

// known is a node as the admin API lists it; nil if it does not.
func (f *fleet) known(t *testing.T, id string) *adminv1.Node {
	t.Helper()
	list, err := f.admin.nodes.ListNodes(t.Context(), &adminv1.ListNodesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range list.GetNodes() {
		if n.GetId() == id {
			return n
		}
	}
	return nil
}

// TestEndToEndANodeEnrolsOnceAndServes over mutual TLS, and a revoked one is sent away
// for good.
func TestEndToEndANodeEnrolsOnceAndServesUntilItIsRevoked(t *testing.T) {
	t.Parallel()
	f := newPlanes(t, pg.URL(t), 2, planeOptions{mutualTLS: true})
	token, _ := f.joinToken(t)
	n := f.joining(t, "joins", token).start(t)
	n.waitCurrent(t)
	f.nodes = []*node{n}
	w := f.newWorld(t, "enrol", oneUpstream())
	if _, err := w.talk(t, n, anySDK()).ask(t.Context(), true, vendorsdk.Question{}); err != nil {
		t.Fatal(err)
	}
	w.rows(t, 1)
	s, err := n.status(t)
	if err != nil {
		t.Fatal(err)
	}
	id := s.Configuration.NodeID
	if k := f.known(t, id); k.GetState() != adminv1.NodeState_NODE_STATE_CURRENT || k.GetCertificateExpireTime() == nil {
		t.Errorf("the enrolled node is listed as %v, want current and with a certificate", k)
	}

	t.Run("the token works once", func(t *testing.T) {
		second := f.joining(t, "second", token).start(t)
		second.waitStatus(t, "refused", func(s nodeStatus) bool { return strings.Contains(s.Configuration.LastError, "token") })
		if s, err := second.status(t); err != nil || s.Configuration.NodeID != "" || s.Ready {
			t.Errorf("a node with a spent token is %+v (%v), want without an identity", s, err)
		}
	})

	// A restart needs no token.
	n.stop()
	again := n.spec
	again.JoinToken = ""
	n = again.start(t)
	n.waitCurrent(t)
	f.nodes[0] = n
	if s, err := n.status(t); err != nil || s.Configuration.NodeID != id {
		t.Errorf("after the restart the node is %q (%v), want %q", s.Configuration.NodeID, err, id)
	}

	t.Run("a revoked node's stream ends", func(t *testing.T) {
		if _, err := f.admin.nodes.RevokeNode(t.Context(), &adminv1.RevokeNodeRequest{Id: id, Reason: "end to end"}); err != nil {
			t.Fatal(err)
		}
		n.waitStatus(t, "sent away", func(s nodeStatus) bool {
			return s.Configuration.State == "DETACHED" && strings.Contains(s.Configuration.LastError, "revoked")
		})
		eventually(t, "the node is listed as revoked", func() error {
			if k := f.known(t, id); k.GetState() != adminv1.NodeState_NODE_STATE_REVOKED {
				return fmt.Errorf("listed as %v", k)
			}
			return nil
		})
		// It learns of no change any more, and nobody waits for it.
		f.nodes = nil
		key, _ := w.newKey(t, "unheard")
		if _, err := w.talk(t, n, anySDK()).ask(t.Context(), false, vendorsdk.Question{Key: key}); anySDK().Status(err) != http.StatusUnauthorized {
			t.Errorf("a key made after the revocation: %v, want status 401", err)
		}
	})
}

// TestEndToEndAWrongAuthorityIsRefused: the token names the authority, so a node tells
// its token to no one else.
func TestEndToEndAWrongAuthorityIsRefused(t *testing.T) {
	t.Parallel()
	f := newPlanes(t, pg.URL(t), 1, planeOptions{mutualTLS: true})
	token, id := f.joinToken(t)
	parsed, err := peer.ParseJoinToken(secret.New(token))
	if err != nil {
		t.Fatal(err)
	}
	parsed.CA = sha256.Sum256([]byte("another authority"))
	n := f.joining(t, "deceived", parsed.Text().Reveal()).start(t)
	n.waitStatus(t, "refuses", func(s nodeStatus) bool { return strings.Contains(s.Configuration.LastError, "authority") })
	if s, err := n.status(t); err != nil || s.Configuration.NodeID != "" || s.Ready {
		t.Errorf("the node is %+v (%v), want without an identity", s, err)
	}
	list, err := f.admin.nodes.ListJoinTokens(t.Context(), &adminv1.ListJoinTokensRequest{})
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, j := range list.GetJoinTokens() {
		if j.GetId() == id {
			found = true
			if j.GetUseTime() != nil {
				t.Error("the token was spent at an authority that it does not name")
			}
		}
	}
	if !found {
		t.Error(errors.New("the token is not listed"))
	}
}
