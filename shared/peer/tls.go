package peer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/aidy-gateway/aidy-gateway/shared/ident"
)

// uriStart stands before the node id in a certificate.
const uriStart = "spiffe://aidy/node/"

func nodeURI(id string) *url.URL {
	return &url.URL{Scheme: "spiffe", Host: "aidy", Path: "/node/" + id}
}

// NewRequest returns a fresh key of a node and the certificate request (DER)
// for it.
func NewRequest() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make node key: %w", err)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return nil, nil, fmt.Errorf("make certificate request: %w", err)
	}
	return key, csr, nil
}

// NodeCertificate joins a node's key and the certificate issued for it (DER). It
// fails if they do not belong together or if the certificate names no node.
func NodeCertificate(key *ecdsa.PrivateKey, der []byte) (tls.Certificate, string, error) {
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, "", fmt.Errorf("node certificate: %w", err)
	}
	if !key.PublicKey.Equal(leaf.PublicKey) {
		return tls.Certificate{}, "", errors.New("node certificate: it is for another key")
	}
	id, err := nodeID(leaf)
	if err != nil {
		return tls.Certificate{}, "", fmt.Errorf("node certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, id, nil
}

// ServerTLS returns the settings of the node sync listener. Its certificate, for
// ServerName and hosts, is issued at the first connection and renewed in time.
//
// A client certificate is not demanded, because a node has none when it enrols,
// but one that is shown must verify. Everything but enrolment must therefore ask
// NodeID. Sessions are not resumed, so an expired certificate ends with its
// connection.
func (ca *CA) ServerTLS(hosts ...string) *tls.Config {
	issuer := &serverIssuer{ca: ca, hosts: hosts}
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		NextProtos:             []string{"h2", "http/1.1"},
		GetCertificate:         issuer.certificate,
		ClientAuth:             tls.VerifyClientCertIfGiven,
		ClientCAs:              ca.pool(),
		SessionTicketsDisabled: true,
	}
}

func (ca *CA) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	return pool
}

// serverIssuer keeps the current server certificate.
type serverIssuer struct {
	ca    *CA
	hosts []string

	mu   sync.Mutex
	cert *tls.Certificate // guarded by mu
}

func (s *serverIssuer) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.cert != nil && now.Before(RenewAt(s.cert.Leaf.NotBefore, s.cert.Leaf.NotAfter)) {
		return s.cert, nil
	}
	cert, err := s.ca.IssueServer(now, s.hosts...)
	if err != nil {
		return nil, err
	}
	s.cert = &cert
	return s.cert, nil
}

// EnrolTLS returns the settings of a node that holds nothing but a join token:
// it talks to a control plane whose chain contains the authority with this hash
// and verifies under it, and to nobody else.
func EnrolTLS(ca Hash) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{"h2", "http/1.1"},
		ServerName: ServerName,
		// The authority is not known before the handshake, so the built-in check
		// has nothing to check against; VerifyConnection does the whole of it.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			for _, cert := range state.PeerCertificates {
				if sha256.Sum256(cert.Raw) == ca {
					return verifyServer(state, cert)
				}
			}
			return errors.New("the control plane's authority is not the one the join token names: check the address and the token")
		},
	}
}

func verifyServer(state tls.ConnectionState, ca *x509.Certificate) error {
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{
		DNSName:   ServerName,
		Roots:     pool,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return fmt.Errorf("verify control plane: %w", err)
	}
	return nil
}

// NodeTLS returns the settings of an enrolled node: it trusts the authority whose
// certificate (DER) it got at enrolment, and shows what current returns at each
// new connection, so a renewed certificate is used without a restart. current
// must be safe for concurrent use.
func NodeTLS(ca []byte, current func() *tls.Certificate) (*tls.Config, error) {
	cert, err := x509.ParseCertificate(ca)
	if err != nil {
		return nil, fmt.Errorf("authority's certificate: %w", err)
	}
	if !cert.IsCA {
		return nil, errors.New("authority's certificate: it is not an authority's")
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{"h2", "http/1.1"},
		ServerName: ServerName,
		RootCAs:    pool,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if cert := current(); cert != nil {
				return cert, nil
			}
			return nil, errors.New("this node has no certificate: enrol it first")
		},
	}, nil
}

// NodeID returns the id of the node at the other end of a server's connection,
// as its verified certificate names it. It fails with ErrIdentity if the
// connection has no verified certificate or that names no node.
func NodeID(state *tls.ConnectionState) (string, error) {
	if state == nil || !state.HandshakeComplete || len(state.VerifiedChains) == 0 {
		return "", fmt.Errorf("%w: the connection shows no certificate", ErrIdentity)
	}
	return nodeID(state.VerifiedChains[0][0])
}

// RequestNodeID is NodeID of the connection a request came on.
func RequestNodeID(r *http.Request) (string, error) { return NodeID(r.TLS) }

// nodeID wants exactly one name in the certificate, so that two readers cannot
// see two nodes in it.
func nodeID(cert *x509.Certificate) (string, error) {
	if len(cert.URIs) != 1 || len(cert.DNSNames)+len(cert.EmailAddresses)+len(cert.IPAddresses) != 0 {
		return "", fmt.Errorf("%w: the certificate does not have one URI as its only name", ErrIdentity)
	}
	id, ok := strings.CutPrefix(cert.URIs[0].String(), uriStart)
	if !ok || !ident.Valid(ident.Node, id) {
		return "", fmt.Errorf("%w: the certificate is not a node's", ErrIdentity)
	}
	return id, nil
}
