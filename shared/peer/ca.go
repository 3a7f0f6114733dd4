// Package peer gives nodes and control planes their identity: a private
// certificate authority, short-lived node certificates, join tokens that carry
// the authority's hash, and the TLS 1.3 settings of both ends.
//
// A node is named by the only URI of its certificate,
// spiffe://aidy/node/<node id>. Every control plane replica has a certificate of
// the same authority for ServerName, so a node needs to know no host name to be
// sure whom it talks to.
package peer

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"time"

	"github.com/aidy-gateway/aidy-gateway/shared/ident"
	"github.com/aidy-gateway/aidy-gateway/shared/seal"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

// Lives of what is issued.
const (
	CALife     = 10 * 365 * 24 * time.Hour
	NodeLife   = 24 * time.Hour
	ServerLife = 7 * 24 * time.Hour

	// Backdate is how long before its issue a certificate begins to be valid,
	// for nodes whose clocks are behind.
	Backdate = 15 * time.Minute
)

// ServerName is the name in the certificate of every control plane.
const ServerName = "controlplane.aidy.internal"

// MaxCSR bounds a certificate request in bytes.
const MaxCSR = 8 << 10

// Errors of this package; each is in the tree of what is returned.
var (
	// ErrRequest says that a certificate request is not acceptable.
	ErrRequest = errors.New("certificate request refused")
	// ErrToken says that a join token is malformed.
	ErrToken = errors.New("malformed join token")
	// ErrIdentity says that a connection carries no verified node identity.
	ErrIdentity = errors.New("no verified node identity")
)

// Hash is the SHA-256 of a certificate in DER.
type Hash [sha256.Size]byte

// CA is the authority of one installation. Safe for concurrent use.
type CA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewCA returns a new authority (ECDSA on P-256) valid from now for CALife.
func NewCA(now time.Time) (*CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make CA key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber:          serial(),
		Subject:               pkix.Name{CommonName: "aidy-gateway node CA"},
		NotBefore:             now.Add(-Backdate),
		NotAfter:              now.Add(CALife),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true, // it signs leaves and no further authority
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make CA certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make CA certificate: %w", err)
	}
	return &CA{cert, key}, nil
}

// caContext binds the sealed authority to its place.
var caContext = seal.Context{ID: "peer-ca", Version: 1}

// Seal returns the authority with its key, wrapped under the root key, to be
// stored. seal.Rewrap with SealContext moves it to a newer root key.
func (ca *CA) Seal(ctx context.Context, ring seal.Keyring) ([]byte, error) {
	key, err := x509.MarshalPKCS8PrivateKey(ca.key)
	if err != nil {
		return nil, fmt.Errorf("seal CA: %w", err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw})
	text = append(text, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...)
	plain := secret.FromBytes(text)
	defer plain.Wipe()
	blob, err := seal.Wrap(ctx, ring, plain, caContext)
	if err != nil {
		return nil, fmt.Errorf("seal CA: %w", err)
	}
	return blob, nil
}

// SealContext is the context of what CA.Seal returns, for seal.Rewrap.
func SealContext() seal.Context { return caContext }

// OpenCA returns the authority that Seal sealed.
func OpenCA(ctx context.Context, ring seal.Keyring, blob []byte) (*CA, error) {
	plain, err := seal.Unwrap(ctx, ring, blob, caContext)
	if err != nil {
		return nil, fmt.Errorf("open CA: %w", err)
	}
	defer plain.Wipe()
	var ca *CA
	plain.Use(func(text []byte) { ca, err = parseCA(text) })
	if err != nil {
		return nil, fmt.Errorf("open CA: %w", err)
	}
	return ca, nil
}

// parseCA says only that something is wrong: what it reads is secret.
func parseCA(text []byte) (*CA, error) {
	certBlock, rest := pem.Decode(text)
	keyBlock, _ := pem.Decode(rest)
	if certBlock == nil || keyBlock == nil {
		return nil, errors.New("the sealed text is no certificate with its key")
	}
	cert, err1 := x509.ParseCertificate(certBlock.Bytes)
	parsed, err2 := x509.ParsePKCS8PrivateKey(keyBlock.Bytes)
	key, ok := parsed.(*ecdsa.PrivateKey)
	if err1 != nil || err2 != nil || !ok || !cert.IsCA || !key.PublicKey.Equal(cert.PublicKey) {
		return nil, errors.New("the sealed certificate and key do not belong together")
	}
	return &CA{cert, key}, nil
}

// DER returns a copy of the authority's certificate, which is public.
func (ca *CA) DER() []byte { return bytes.Clone(ca.cert.Raw) }

// Hash returns the hash a join token pins the authority by.
func (ca *CA) Hash() Hash { return sha256.Sum256(ca.cert.Raw) }

// IssueNode signs the certificate of a node for NodeLife from now. The key comes
// from the request (DER, ECDSA on P-256, signed by itself), the name does not:
// whatever the request asks for, the certificate is for nodeID, which must be an
// id of kind ident.Node. It fails with ErrRequest. The result is DER.
func (ca *CA) IssueNode(csr []byte, nodeID string, now time.Time) ([]byte, error) {
	if !ident.Valid(ident.Node, nodeID) {
		return nil, fmt.Errorf("%w: %q is no node id", ErrRequest, nodeID)
	}
	if len(csr) > MaxCSR {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrRequest, len(csr), MaxCSR)
	}
	req, err := x509.ParseCertificateRequest(csr)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	if err := req.CheckSignature(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	key, ok := req.PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, fmt.Errorf("%w: want an ECDSA key on P-256", ErrRequest)
	}
	if key.Equal(ca.key.Public()) {
		return nil, fmt.Errorf("%w: the key is the authority's own", ErrRequest)
	}
	return ca.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: nodeID},
		URIs:        []*url.URL{nodeURI(nodeID)},
		NotAfter:    now.Add(NodeLife),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, key, now)
}

// IssueServer returns a certificate with a fresh key for a control plane, valid
// for ServerLife from now, for ServerName and the further hosts (names or IP
// addresses). The chain includes the authority, which an enrolling node has to
// see to compare its hash.
func (ca *CA) IssueServer(now time.Time, hosts ...string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make server key: %w", err)
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: ServerName},
		DNSNames:    []string{ServerName},
		NotAfter:    now.Add(ServerLife),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := ca.issue(template, key.Public(), now)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("issue server certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der, ca.DER()}, PrivateKey: key, Leaf: leaf}, nil
}

func (ca *CA) issue(template *x509.Certificate, public any, now time.Time) ([]byte, error) {
	template.SerialNumber = serial()
	template.NotBefore = now.Add(-Backdate)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.BasicConstraintsValid = true
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, public, ca.key)
	if err != nil {
		return nil, fmt.Errorf("sign certificate: %w", err)
	}
	return der, nil
}

// serial returns 127 random bits, positive and within the 20 octets of RFC 5280.
func serial() *big.Int {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	b[0] = b[0]&0x7f | 0x40
	return new(big.Int).SetBytes(b[:])
}

// RenewAt returns when a certificate that is valid in the given span should be
// renewed: when two thirds of its life are over.
func RenewAt(notBefore, notAfter time.Time) time.Time {
	return notBefore.Add(notAfter.Sub(notBefore) / 3 * 2)
}
