package peer

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/aidy-gateway/aidy-gateway/shared/ident"
	"github.com/aidy-gateway/aidy-gateway/shared/seal"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

func newCA(t testing.TB) *CA {
	t.Helper()
	ca, err := NewCA(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func node(t testing.TB, ca *CA, id string, now time.Time) *tls.Certificate {
	t.Helper()
	key, csr, err := NewRequest()
	if err != nil {
		t.Fatal(err)
	}
	der, err := ca.IssueNode(csr, id, now)
	if err != nil {
		t.Fatal(err)
	}
	cert, got, err := NodeCertificate(key, der)
	if err != nil || got != id {
		t.Fatalf("certificate of %q names %q, %v", id, got, err)
	}
	return &cert
}

// meet shakes hands over loopback and exchanges a byte each way, because a TLS
// 1.3 client learns only then that its certificate was refused. (Over net.Pipe,
// which has no buffer, two ends that write alerts would wait for each other.)
func meet(t testing.TB, server, client *tls.Config) (tls.ConnectionState, error, error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	b, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	a, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	_, _ = a.SetDeadline(deadline), b.SetDeadline(deadline)
	s, c := tls.Server(a, server), tls.Client(b, client)
	talk := func(conn *tls.Conn, raw net.Conn, first bool) error {
		defer raw.Close()
		if err := conn.Handshake(); err != nil {
			return err
		}
		buf := []byte{1}
		if !first {
			if _, err := conn.Read(buf); err != nil {
				return err
			}
		}
		if _, err := conn.Write(buf); err != nil {
			return err
		}
		if first {
			_, err := conn.Read(buf)
			return err
		}
		return nil
	}
	clientErr := make(chan error, 1)
	go func() { clientErr <- talk(c, b, true) }()
	serverErr := talk(s, a, false)
	return s.ConnectionState(), serverErr, <-clientErr
}

func nodeTLS(t testing.TB, ca *CA, cert *tls.Certificate) *tls.Config {
	t.Helper()
	cfg, err := NodeTLS(ca.DER(), func() *tls.Certificate { return cert })
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestEnrolledNodeIsKnownByItsCertificate(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	id := ident.New(ident.Node)
	state, serverErr, clientErr := meet(t, ca.ServerTLS("sync.example"), nodeTLS(t, ca, node(t, ca, id, time.Now())))
	if serverErr != nil || clientErr != nil {
		t.Fatal(serverErr, clientErr)
	}
	if got, err := NodeID(&state); err != nil || got != id {
		t.Errorf("node is %q, %v; want %q", got, err, id)
	}
	if state.Version != tls.VersionTLS13 {
		t.Errorf("version %x, want TLS 1.3", state.Version)
	}
}

func TestEnrolmentTrustsThePinnedAuthorityAlone(t *testing.T) {
	t.Parallel()
	ca, other := newCA(t), newCA(t)
	state, serverErr, clientErr := meet(t, ca.ServerTLS(), EnrolTLS(ca.Hash()))
	if serverErr != nil || clientErr != nil {
		t.Fatal(serverErr, clientErr)
	}
	if id, err := NodeID(&state); !errors.Is(err, ErrIdentity) {
		t.Errorf("a connection without certificate is node %q, %v", id, err)
	}
	if _, _, err := meet(t, other.ServerTLS(), EnrolTLS(ca.Hash())); err == nil || !strings.Contains(err.Error(), "join token") {
		t.Errorf("another authority: %v, want a refusal", err)
	}
}

// An impostor can show the real authority's certificate, which is public, behind
// a leaf of its own.
func TestEnrolmentVerifiesTheLeafUnderThePinnedAuthority(t *testing.T) {
	t.Parallel()
	ca, evil := newCA(t), newCA(t)
	cert, err := evil.IssueServer(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	cert.Certificate = append(cert.Certificate, ca.DER())
	server := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}}
	if _, _, err := meet(t, server, EnrolTLS(ca.Hash())); err == nil || !strings.Contains(err.Error(), "verify control plane") {
		t.Errorf("impostor: %v, want a refusal", err)
	}
}

// A node's own certificate must not serve to play control plane to other nodes.
func TestANodeCannotPlayControlPlane(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	cert := *node(t, ca, ident.New(ident.Node), time.Now())
	cert.Certificate = append(cert.Certificate, ca.DER())
	server := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}}
	for name, client := range map[string]*tls.Config{"enrolling": EnrolTLS(ca.Hash()), "enrolled": nodeTLS(t, ca, &cert)} {
		if _, _, err := meet(t, server, client); err == nil {
			t.Errorf("an %s node accepted another node as control plane", name)
		}
	}
}

// Name and purpose are each wanted, under the right authority too.
func TestAControlPlaneNeedsItsNameAndItsPurpose(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	for name, template := range map[string]*x509.Certificate{
		"another name":    {DNSNames: []string{"other.aidy.internal"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}},
		"another purpose": {DNSNames: []string{ServerName}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}},
	} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template.NotAfter = time.Now().Add(time.Hour)
		der, err := ca.issue(template, key.Public(), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		cert := tls.Certificate{Certificate: [][]byte{der, ca.DER()}, PrivateKey: key}
		server := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}}
		for who, client := range map[string]*tls.Config{"enrolling": EnrolTLS(ca.Hash()), "enrolled": nodeTLS(t, ca, nil)} {
			if _, _, err := meet(t, server, client); err == nil {
				t.Errorf("%s: an %s node accepted it", name, who)
			}
		}
	}
}

func TestTheServerRefusesCertificatesItDidNotIssue(t *testing.T) {
	t.Parallel()
	ca, other := newCA(t), newCA(t)
	id := ident.New(ident.Node)
	now := time.Now()
	server, err := ca.IssueServer(now)
	if err != nil {
		t.Fatal(err)
	}
	for name, cert := range map[string]*tls.Certificate{
		"another authority's": node(t, other, id, now),
		"expired":             node(t, ca, id, now.Add(-NodeLife-time.Minute)),
		"not yet valid":       node(t, ca, id, now.Add(Backdate+time.Minute)),
		"a server's":          &server,
	} {
		if _, err, _ := meet(t, ca.ServerTLS(), nodeTLS(t, ca, cert)); err == nil {
			t.Errorf("%s certificate was accepted", name)
		}
	}
}

func TestClocksBehindByLessThanTheBackdateAreFine(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	cert := node(t, ca, ident.New(ident.Node), time.Now())
	if _, err := cert.Leaf.Verify(x509.VerifyOptions{
		Roots: ca.pool(), CurrentTime: time.Now().Add(-10 * time.Minute), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	}); err != nil {
		t.Errorf("ten minutes behind: %v", err)
	}
}

func TestTheNameComesFromTheAuthorityNotFromTheRequest(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "admin"}, DNSNames: []string{ServerName}, URIs: []*url.URL{nodeURI(ident.New(ident.Node))},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	id := ident.New(ident.Node)
	der, err := ca.IssueNode(csr, id, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	cert, got, err := NodeCertificate(key, der)
	if err != nil || got != id || len(cert.Leaf.DNSNames) != 0 || cert.Leaf.IsCA || cert.Leaf.Subject.CommonName != id {
		t.Errorf("issued for %q (%v), names %v, authority %v", got, err, cert.Leaf.DNSNames, cert.Leaf.IsCA)
	}
}

func TestBadRequestsAreRefused(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	id := ident.New(ident.Node)
	_, good, err := NewRequest()
	if err != nil {
		t.Fatal(err)
	}
	_, ed, _ := ed25519.GenerateKey(rand.Reader)
	rsaKey, _ := rsa.GenerateKey(rand.Reader, 2048)
	p384, _ := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	requestOf := func(key any) []byte {
		csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
		if err != nil {
			t.Fatal(err)
		}
		return csr
	}
	forged := bytes.Clone(good)
	forged[len(forged)-1] ^= 1
	for name, tc := range map[string]struct {
		csr []byte
		id  string
	}{
		"empty": {nil, id}, "garbage": {[]byte("x"), id}, "forged": {forged, id}, "Ed25519": {requestOf(ed), id}, "RSA": {requestOf(rsaKey), id},
		"P-384": {requestOf(p384), id}, "authority's own key": {requestOf(ca.key), id}, "no id": {good, ""}, "another kind of id": {good, ident.New(ident.Tenant)},
		"path in the id": {good, id + "/../x"}, "too large": {make([]byte, MaxCSR+1), id},
	} {
		if _, err := ca.IssueNode(tc.csr, tc.id, time.Now()); !errors.Is(err, ErrRequest) {
			t.Errorf("%s: %v, want ErrRequest", name, err)
		}
	}
}

func TestSealedAuthorityComesBack(t *testing.T) {
	t.Parallel()
	ring, err := seal.NewLocalKeyring(secret.FromBytes(bytes.Repeat([]byte{1}, seal.KeySize)))
	if err != nil {
		t.Fatal(err)
	}
	ca := newCA(t)
	blob, err := ca.Seal(t.Context(), ring)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(blob, []byte("PRIVATE")) || bytes.Contains(blob, ca.cert.Raw) {
		t.Error("the sealed authority is readable")
	}
	back, err := OpenCA(t.Context(), ring, blob)
	if err != nil || back.Hash() != ca.Hash() {
		t.Fatalf("opened %v, want the same authority", err)
	}
	// What one issues, the other verifies.
	_, serverErr, clientErr := meet(t, back.ServerTLS(), nodeTLS(t, ca, node(t, ca, ident.New(ident.Node), time.Now())))
	if serverErr != nil || clientErr != nil {
		t.Error(serverErr, clientErr)
	}
	blob[len(blob)-1] ^= 1
	if _, err := OpenCA(context.Background(), ring, blob); !errors.Is(err, seal.ErrOpen) {
		t.Errorf("changed blob: %v, want seal.ErrOpen", err)
	}
}

func TestServerCertificateIsRenewedInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ca := newCA(t)
		cfg := ca.ServerTLS()
		first, err := cfg.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		at := RenewAt(first.Leaf.NotBefore, first.Leaf.NotAfter)
		time.Sleep(time.Until(at) - time.Second)
		if same, _ := cfg.GetCertificate(nil); same != first {
			t.Error("renewed before two thirds of its life")
		}
		time.Sleep(time.Second)
		next, err := cfg.GetCertificate(nil)
		if err != nil || next == first || !next.Leaf.NotAfter.After(first.Leaf.NotAfter) {
			t.Errorf("not renewed at two thirds of its life: %v", err)
		}
	})
}

func TestRenewalIsAtTwoThirds(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	if got, want := RenewAt(begin, begin.Add(24*time.Hour)), begin.Add(16*time.Hour); !got.Equal(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestJoinTokenTextIsReadBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var hash Hash
		copy(hash[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "hash"))
		tok := NewJoinToken(hash)
		got, err := ParseJoinToken(secret.New(" " + tok.Text().Reveal() + "\n"))
		if err != nil || got.ID != tok.ID || got.CA != hash || !got.Secret.Equal(tok.Secret) || got.SecretHash() != tok.SecretHash() {
			t.Fatalf("read back as %+v, %v", got, err)
		}
	})
}

func TestOtherTokensAreRefusedAndNotShown(t *testing.T) {
	t.Parallel()
	good := NewJoinToken(Hash{1}).Text().Reveal()
	parts := strings.Split(good, "_")
	for _, bad := range []string{
		"", "jt", good + "0", good[:len(good)-1], strings.ToUpper(good), "jx" + good[2:], good + "_x",
		strings.Join([]string{"jt", parts[1][1:], parts[2], parts[3]}, "_"),
		strings.Join([]string{"jt", parts[1], parts[2][1:], parts[3]}, "_"),
		strings.Join([]string{"jt", parts[1], parts[2], parts[3][:51] + "z"}, "_"), // its last four bits are not 0
	} {
		_, err := ParseJoinToken(secret.New(bad))
		if !errors.Is(err, ErrToken) || strings.Contains(err.Error(), parts[2]) {
			t.Errorf("%q: %v, want ErrToken without the secret", bad, err)
		}
	}
	if got := fmt.Sprintf("%+v %#v", NewJoinToken(Hash{}), NewJoinToken(Hash{}).Text()); !strings.Contains(got, secret.Redacted) {
		t.Errorf("a printed token: %s", got)
	}
}

func FuzzParseJoinToken(f *testing.F) {
	f.Add(NewJoinToken(Hash{1}).Text().Reveal())
	f.Fuzz(func(t *testing.T, s string) {
		tok, err := ParseJoinToken(secret.New(s))
		if err == nil && tok.Text().Reveal() != strings.TrimSpace(s) {
			t.Fatalf("%q was accepted and is written %q", s, tok.Text().Reveal())
		}
	})
}
