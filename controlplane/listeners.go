package controlplane

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"connectrpc.com/validate"
	"github.com/rs/zerolog"

	"github.com/aidy-gateway/aidy-gateway/shared/lifecycle"
	"github.com/aidy-gateway/aidy-gateway/shared/peer"

	"github.com/aidy-gateway/aidy-gateway/controlplane/distribute"
	"github.com/aidy-gateway/aidy-gateway/controlplane/ledger"
	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

const (
	// maxAdminMessage is a bundle of the largest allowed size and what is around it.
	maxAdminMessage = 16<<20 + 64<<10
	// maxSyncMessage bounds what a node sends: a batch of usage is the largest.
	maxSyncMessage = 8 << 20
	maxHeader      = 64 << 10
	headerTimeout  = 10 * time.Second
	idleTimeout    = 2 * time.Minute
)

func validated() connect.ServerInterceptor { return validate.NewServerInterceptor() }

// fronts opens the listeners and returns the parts that serve them, the operations
// listener first: it answers while the others drain.
func (s *Server) fronts(p *parts) ([]lifecycle.Part, error) {
	var err error
	listen := func(l *net.Listener, addr, setting string) {
		if *l != nil || err != nil {
			return
		}
		var open net.Listener
		if open, err = net.Listen("tcp", addr); err != nil {
			err = fmt.Errorf("%s: %w; choose another address", setting, err)
			return
		}
		*l = open
	}
	listen(&s.cfg.OpsListener, s.cfg.OpsAddr, "ops_addr")
	listen(&s.cfg.SyncListener, s.cfg.SyncAddr, "sync_addr")
	listen(&s.cfg.AdminListener, s.cfg.AdminAddr, "admin_addr")
	if err != nil {
		return nil, err
	}
	syncListener := s.cfg.SyncListener
	if !s.cfg.SyncInsecure {
		cfg := p.ca.ServerTLS(s.cfg.SyncHosts...)
		cfg.NextProtos = []string{"h2", "http/1.1"}
		syncListener = tls.NewListener(syncListener, cfg)
	}
	s.log.Info().Str("admin", s.cfg.AdminListener.Addr().String()).Str("sync", s.cfg.SyncListener.Addr().String()).
		Str("ops", s.cfg.OpsListener.Addr().String()).Bool("sync_tls", !s.cfg.SyncInsecure).Msg("listening")
	return []lifecycle.Part{
		front("operations", s.cfg.OpsListener, s.ops(p), s.log),
		front("sync", syncListener, distribute.Deadlines(mounted(p.sync, maxSyncMessage)), s.log),
		front("admin", s.cfg.AdminListener, within(requestTime, mounted(p.admin, maxAdminMessage)), s.log),
	}, nil
}

func (s *Server) closeListeners() {
	for _, l := range []net.Listener{s.cfg.AdminListener, s.cfg.SyncListener, s.cfg.OpsListener} {
		if l != nil {
			_ = l.Close() // nothing was served on it
		}
	}
}

func mounted(server *connect.Server, maxMessage int) http.Handler {
	mux := http.NewServeMux()
	connecthttp.Mount(mux, server, connecthttp.WithReadMaxBytes(maxMessage))
	return mux
}

// front is a part that serves HTTP/1.1 and HTTP/2, with TLS or without, on one
// listener. Streams live long, so there is no deadline for whole responses.
func front(name string, l net.Listener, handler http.Handler, log zerolog.Logger) lifecycle.Part {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Handler: handler, Protocols: protocols, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: quiet(log.With().Str("listener", name).Logger()),
	}
	return lifecycle.Part{
		Name: name,
		Run: func(ctx context.Context) error {
			// Handlers of streams end with this, which Shutdown waits for.
			serving, stop := context.WithCancel(context.WithoutCancel(ctx))
			defer stop()
			server.BaseContext = func(net.Listener) context.Context { return serving }
			done := make(chan error, 1)
			go func() { done <- server.Serve(l) }()
			select {
			case err := <-done:
				return err
			case <-ctx.Done():
			}
			stop()
			grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
			defer cancel()
			if err := server.Shutdown(grace); err != nil {
				_ = server.Close() // what did not end in time is cut
			}
			if err := <-done; !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		},
	}
}

// shutdownGrace is what calls in flight get once their part is told to stop.
const shutdownGrace = 5 * time.Second

// certificateCaller knows a node by its certificate, and refuses it once it is
// revoked.
func certificateCaller(st *store.Store) ledger.Caller {
	return func(ctx context.Context) (string, error) {
		info, ok := connecthttp.ServerInfoForContext(ctx)
		if !ok {
			return "", peer.ErrIdentity
		}
		id, err := peer.NodeID(info.TLS())
		if err != nil {
			return "", err
		}
		n, err := st.GetNode(ctx, id)
		if err != nil && !errors.Is(err, store.ErrStoreDown) {
			return "", err
		}
		if !n.RevokedAt.IsZero() {
			return "", fmt.Errorf("%w: node %s is revoked", peer.ErrIdentity, id)
		}
		return id, nil
	}
}

// Without TLS nodes are believed: who sends a message is whom it names.

type statedKey struct{}

type statedNode struct{ id string }

// believeNodes notes the node that each message names.
func believeNodes(next connect.ServerFunc) connect.ServerFunc {
	return func(ctx context.Context, spec connect.Spec, stream connect.ServerStream) error {
		stated := &statedNode{}
		return next(context.WithValue(ctx, statedKey{}, stated), spec, believing{stream, stated})
	}
}

type believing struct {
	connect.ServerStream
	stated *statedNode
}

// Receive implements connect.ServerStream.
func (b believing) Receive(msg any) error {
	if err := b.ServerStream.Receive(msg); err != nil {
		return err
	}
	if named, ok := msg.(interface{ GetNodeId() string }); ok {
		b.stated.id = named.GetNodeId()
	}
	return nil
}

func statedCaller(ctx context.Context) (string, error) {
	if stated, ok := ctx.Value(statedKey{}).(*statedNode); ok && stated.id != "" {
		return stated.id, nil
	}
	return "", peer.ErrIdentity
}
