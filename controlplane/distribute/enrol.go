package distribute

import (
	"context"
	"crypto/x509"
	"errors"
	"time"

	"connectrpc.com/connect/v2"
	"google.golang.org/protobuf/types/known/timestamppb"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
	"github.com/aidy-gateway/aidy-gateway/shared/peer"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

// enrol turns a join token into a node. The certificate is signed first, so that
// a bad request does not cost the token.
func (h *Hub) enrol(ctx context.Context, req *syncv1.EnrollRequest) (*syncv1.EnrollResponse, error) {
	token, err := peer.ParseJoinToken(secret.New(req.GetJoinToken()))
	if err != nil {
		return nil, connect.NewError(connect.CodeUnauthenticated, "the join token is malformed: paste it whole, or make a new one").WithCause(err)
	}
	res, err := h.issue(req.GetCertificateRequest(), ident.New(ident.Node))
	if err != nil {
		return nil, err
	}
	n := Node{
		ID: res.GetNodeId(), Name: req.GetNode().GetName(), EnrolledAt: time.Now(),
		CertificateExpiresAt: res.GetExpireTime().AsTime(),
	}
	switch err := h.nodes.UseJoinToken(ctx, token.SecretHash(), n); {
	case errors.Is(err, ErrNoToken):
		return nil, connect.NewError(connect.CodeUnauthenticated, "the join token is unknown, used already or expired: make a new one")
	case err != nil:
		h.log.Error().Err(err).Str("token", token.ID).Msg("a node could not be enrolled")
		return nil, connect.NewError(connect.CodeUnavailable, "the join token cannot be checked now; try again").WithCause(err)
	}
	h.fleet.save(n)
	h.log.Info().Str("node", n.ID).Str("name", n.Name).Str("token", token.ID).Msg("node enrolled")
	return res, nil
}

func (h *Hub) issue(csr []byte, nodeID string) (*syncv1.EnrollResponse, error) {
	der, err := h.ca.IssueNode(csr, nodeID, time.Now())
	if errors.Is(err, peer.ErrRequest) {
		return nil, connect.Errorf(connect.CodeInvalidArgument, "%v: send a PKCS #10 request for an ECDSA P-256 key, DER", err)
	}
	if err != nil {
		h.log.Error().Err(err).Str("node", nodeID).Msg("a certificate could not be issued")
		return nil, connect.NewError(connect.CodeInternal, "the certificate could not be issued").WithCause(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, connect.NewError(connect.CodeInternal, "the certificate could not be issued").WithCause(err)
	}
	return &syncv1.EnrollResponse{NodeId: nodeID, Certificate: der, CaCertificate: h.ca.DER(), ExpireTime: timestamppb.New(cert.NotAfter)}, nil
}
