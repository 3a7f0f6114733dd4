package snapshot

import (
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync/atomic"
	"time"

	connect "connectrpc.com/connect/v2"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1/syncv1connect"
	"github.com/aidy-gateway/aidy-gateway/shared/peer"
)

const (
	identityFile  = "node-identity.pem"
	maxIdentity   = 64 << 10
	enrolDeadline = 20 * time.Second
)

// errNoIdentity says that the node has no certificate that is still valid.
var errNoIdentity = errors.New("the node has no valid certificate")

// credentials are a node's certificate, its key, and the authority it trusts.
type credentials struct {
	nodeID string
	cert   tls.Certificate
	leaf   *x509.Certificate
	ca     []byte // DER
	tls    *tls.Config
}

// enrolment gets, keeps and renews the identity of a node. Reading it is safe for
// concurrent use.
type enrolment struct {
	cfg     Config
	dial    Dial
	current atomic.Pointer[credentials] // nil before enrolment, and without TLS
}

// open reads the identity on disk. None there is no error.
func (e *enrolment) open() error {
	if e.cfg.Insecure {
		return nil
	}
	b, err := readFile(filepath.Join(e.cfg.DataDir, identityFile), maxIdentity)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the node's identity: %w", err)
	}
	key, cert, ca, err := parseIdentity(b)
	if err != nil {
		return fmt.Errorf("read the node's identity %s: %w", filepath.Join(e.cfg.DataDir, identityFile), err)
	}
	return e.take(key, cert, ca)
}

// identity returns the node's id and TLS settings; errNoIdentity if it has to enrol
// first. The settings are nil where the configuration is insecure.
func (e *enrolment) identity(now time.Time) (string, *tls.Config, error) {
	if e.cfg.Insecure {
		return e.cfg.NodeID, nil, nil
	}
	c := e.current.Load()
	if c == nil || now.After(c.leaf.NotAfter) {
		return "", nil, errNoIdentity
	}
	return c.nodeID, c.tls, nil
}

// nodeID returns the id that the node has or last had; empty before enrolment.
func (e *enrolment) nodeID() string {
	if e.cfg.Insecure {
		return e.cfg.NodeID
	}
	if c := e.current.Load(); c != nil {
		return c.nodeID
	}
	return ""
}

// renewAt returns when the certificate is due; zero if there is none.
func (e *enrolment) renewAt() time.Time {
	c := e.current.Load()
	if c == nil {
		return time.Time{}
	}
	return peer.RenewAt(c.leaf.NotBefore, c.leaf.NotAfter)
}

// enrol turns the join token into a certificate. Only a control plane whose
// authority has the hash in the token is talked to.
func (e *enrolment) enrol(ctx context.Context, endpoint string, node *syncv1.NodeInfo) error {
	if e.cfg.JoinToken.IsZero() {
		if e.current.Load() != nil {
			return fmt.Errorf("%w: it expired while the node was away; give it a new join token", errNoIdentity)
		}
		return fmt.Errorf("%w: give it a join token", errNoIdentity)
	}
	token, err := peer.ParseJoinToken(e.cfg.JoinToken)
	if err != nil {
		return fmt.Errorf("join token: %w", err)
	}
	return e.request(ctx, endpoint, peer.EnrolTLS(token.CA), &syncv1.EnrollRequest{
		JoinToken: e.cfg.JoinToken.Reveal(), Node: node,
	}, func(ca []byte) error {
		if peer.Hash(sha256.Sum256(ca)) != token.CA {
			return errors.New("the control plane sent another authority than the join token names")
		}
		return nil
	})
}

// renew gets a new certificate with the one the node has.
func (e *enrolment) renew(ctx context.Context, endpoint string, node *syncv1.NodeInfo) error {
	c := e.current.Load()
	if c == nil {
		return errNoIdentity
	}
	return e.request(ctx, endpoint, c.tls, &syncv1.EnrollRequest{Node: node}, func(ca []byte) error {
		if len(ca) > 0 && string(ca) != string(c.ca) {
			return errors.New("the control plane sent another authority than the node enrolled with")
		}
		return nil
	})
}

func (e *enrolment) request(ctx context.Context, endpoint string, conf *tls.Config, req *syncv1.EnrollRequest, trusted func(ca []byte) error) error {
	ctx, cancel := context.WithTimeout(ctx, enrolDeadline)
	defer cancel()
	key, csr, err := peer.NewRequest()
	if err != nil {
		return fmt.Errorf("make certificate request: %w", err)
	}
	req.CertificateRequest = csr
	transport, err := e.dial(endpoint, conf)
	if err != nil {
		return fmt.Errorf("dial %s: %w", endpoint, err)
	}
	defer closeTransport(transport)
	res, err := syncv1connect.NewConfigSyncServiceClient(connect.NewClient(transport)).Enroll(ctx, req)
	if err != nil {
		return fmt.Errorf("enrol at %s: %w", endpoint, err)
	}
	ca := res.GetCaCertificate()
	if len(ca) == 0 && e.current.Load() != nil {
		ca = e.current.Load().ca
	}
	if err := trusted(ca); err != nil {
		return fmt.Errorf("enrol at %s: %w", endpoint, err)
	}
	if len(res.GetCertificate())+len(ca) > maxIdentity/2 {
		return fmt.Errorf("enrol at %s: the certificate is too large", endpoint)
	}
	if err := e.take(key, res.GetCertificate(), ca); err != nil {
		return fmt.Errorf("enrol at %s: %w", endpoint, err)
	}
	b, err := formatIdentity(key, res.GetCertificate(), ca)
	if err != nil {
		return fmt.Errorf("keep the node's identity: %w", err)
	}
	// In use even if it cannot be kept: the token is spent already.
	return writeFile(filepath.Join(e.cfg.DataDir, identityFile), b)
}

// take makes a certificate the current one.
func (e *enrolment) take(key *ecdsa.PrivateKey, der, ca []byte) error {
	cert, nodeID, err := peer.NodeCertificate(key, der)
	if err != nil {
		return err
	}
	next := &credentials{nodeID: nodeID, cert: cert, leaf: cert.Leaf, ca: ca}
	next.tls, err = peer.NodeTLS(ca, func() *tls.Certificate {
		// Connections made later show the certificate that is current then.
		return &e.current.Load().cert
	})
	if err != nil {
		return fmt.Errorf("node certificate: %w", err)
	}
	e.current.Store(next)
	return nil
}

// The identity file holds the key, the node's certificate and the authority's, in
// this order, so that it can only be replaced as a whole.

func formatIdentity(key *ecdsa.PrivateKey, cert, ca []byte) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	b := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	b = append(b, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})...)
	return append(b, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca})...), nil
}

var errIdentityFile = errors.New("the file is damaged; remove it and give the node a new join token")

func parseIdentity(b []byte) (key *ecdsa.PrivateKey, cert, ca []byte, err error) {
	var blocks [][]byte
	for _, kind := range []string{"PRIVATE KEY", "CERTIFICATE", "CERTIFICATE"} {
		block, rest := pem.Decode(b)
		if block == nil || block.Type != kind {
			return nil, nil, nil, errIdentityFile
		}
		blocks, b = append(blocks, block.Bytes), rest
	}
	parsed, err := x509.ParsePKCS8PrivateKey(blocks[0])
	if err != nil {
		return nil, nil, nil, errIdentityFile
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, nil, nil, errIdentityFile
	}
	return key, blocks[1], blocks[2], nil
}

func closeTransport(t connect.Transport) {
	if c, ok := t.(io.Closer); ok {
		_ = c.Close() // nothing is in flight
	}
}
