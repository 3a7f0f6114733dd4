package distribute

import (
	"context"
	"errors"
	"net/http"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
	"github.com/aidy-gateway/aidy-gateway/shared/peer"
)

// identifyByCertificate returns the node id in the verified client certificate.
func identifyByCertificate(ctx context.Context) (string, error) {
	info, ok := connecthttp.ServerInfoForContext(ctx)
	if !ok {
		return "", peer.ErrIdentity
	}
	return peer.NodeID(info.TLS())
}

// identify returns the id of the node that calls. It fails for a node that says
// it is another, that is revoked, or that is not known.
func (h *Hub) identify(ctx context.Context, info *syncv1.NodeInfo) (string, error) {
	if h.cfg.TrustNodes {
		return h.trusted(ctx, info)
	}
	id, err := h.cfg.Identify(ctx)
	if err != nil {
		return "", connect.NewError(connect.CodeUnauthenticated, "no verified node identity: connect with the certificate got at enrolment").WithCause(err)
	}
	if stated := info.GetNodeId(); stated != id {
		return "", connect.Errorf(connect.CodePermissionDenied, "the certificate is of node %s, the request of %q: use the certificate that was issued to this node", id, clip(stated))
	}
	known, revoked := h.fleet.node(id)
	if !known {
		// Enrolled by another replica a moment ago, or never.
		askCtx, cancel := context.WithTimeout(ctx, headTimeout)
		n, err := h.nodes.GetNode(askCtx, id)
		cancel()
		switch {
		case errors.Is(err, ErrNoNode):
			return "", connect.Errorf(connect.CodePermissionDenied, "node %s is not known: enrol it again with a new join token", id)
		case err == nil:
			h.fleet.save(n)
			revoked = !n.RevokedAt.IsZero()
		default:
			// Its certificate was signed by us and the store cannot be asked: a node
			// gets the last view.
		}
	}
	if revoked {
		return "", connect.Errorf(connect.CodePermissionDenied, "node %s is revoked: enrol it again with a new join token if it shall serve", id)
	}
	return id, nil
}

func (h *Hub) trusted(ctx context.Context, info *syncv1.NodeInfo) (string, error) {
	id := info.GetNodeId()
	if !ident.Valid(ident.Node, id) {
		return "", connect.Errorf(connect.CodeInvalidArgument, "%q is no node id", clip(id))
	}
	known, revoked := h.fleet.node(id)
	if !known {
		n := Node{ID: id, Name: info.GetName(), Labels: info.GetLabels(), EnrolledAt: time.Now()}
		if err := h.nodes.SaveNode(ctx, n); err != nil {
			h.log.Warn().Err(err).Str("node", id).Msg("a node could not be saved")
		} else {
			h.fleet.save(n)
		}
	}
	if revoked {
		return "", connect.Errorf(connect.CodePermissionDenied, "node %s is revoked", id)
	}
	return id, nil
}

// Enroll implements aidy.sync.v1.ConfigSyncService.
func (h *Hub) Enroll(ctx context.Context, req *syncv1.EnrollRequest) (*syncv1.EnrollResponse, error) {
	if req.GetJoinToken() != "" {
		return h.enrol(ctx, req)
	}
	id, err := h.identify(ctx, req.GetNode())
	if err != nil {
		return nil, err
	}
	res, err := h.issue(req.GetCertificateRequest(), id)
	if err != nil {
		return nil, err
	}
	known := h.fleet.get(id)
	n := Node{ID: id, Name: known.Name, Labels: known.Labels, CertificateExpiresAt: res.GetExpireTime().AsTime()}
	if err := h.nodes.SaveNode(ctx, n); err != nil {
		// The certificate is good all the same; only the record of its end is not.
		h.log.Warn().Err(err).Str("node", id).Msg("a renewed certificate could not be recorded")
	}
	return res, nil
}

// deadlineKey is the key of a request's write deadline setter.
type deadlineKey struct{}

// Deadlines is the middleware that lets a Hub bound each message it sends over
// HTTP: a node that does not read loses its stream, and one that reads slowly
// but reads does not, however long it lives. Without it there is no such bound.
// The server's own WriteTimeout must be 0.
func Deadlines(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		ctx := context.WithValue(r.Context(), deadlineKey{}, c)
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// deadlineOf returns a function that begins the time of one message and returns
// what ends it. The end matters: HTTP/2 resets a stream whose deadline passes
// even if nothing is being written.
func deadlineOf(ctx context.Context) func(time.Duration) func() {
	c, ok := ctx.Value(deadlineKey{}).(*http.ResponseController)
	if !ok {
		return func(time.Duration) func() { return func() {} }
	}
	return func(d time.Duration) func() {
		// A connection without deadlines has none; the stream still ends with it.
		_ = c.SetWriteDeadline(time.Now().Add(d))
		return func() { _ = c.SetWriteDeadline(time.Time{}) }
	}
}

func clip(s string) string { return s[:min(len(s), 64)] }
