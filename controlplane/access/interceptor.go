package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connectproto"
	"github.com/rs/zerolog"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"

	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

// Directory finds tokens by their hash.
type Directory interface {
	// Authenticate returns the token of a hash and its account, or
	// store.ErrNotFound without a reason.
	Authenticate(ctx context.Context, sha256 [32]byte) (store.AdminToken, store.AdminAccount, error)
}

// Config tunes a Gate. A zero field takes the default it documents.
type Config struct {
	// FailureBurst is how many calls of one peer address may fail to
	// authenticate at once; further ones are refused unlooked at. Default 20.
	FailureBurst int
	// FailureInterval is the time in which one failure is forgotten. Default 3 s.
	FailureInterval time.Duration
	// Peers bounds the addresses that are remembered. Default 4,096.
	Peers int
}

// Gate authenticates and authorises calls of the admin API. Safe for concurrent
// use.
type Gate struct {
	dir     Directory
	table   Table
	limiter *limiter
	log     zerolog.Logger
}

// NewGate returns a gate over the tokens of a directory.
func NewGate(dir Directory, cfg Config, log zerolog.Logger) (*Gate, error) {
	if dir == nil {
		return nil, errors.New("access needs a directory of tokens")
	}
	if cfg.FailureBurst <= 0 {
		cfg.FailureBurst = 20
	}
	if cfg.FailureInterval <= 0 {
		cfg.FailureInterval = 3 * time.Second
	}
	if cfg.Peers <= 0 {
		cfg.Peers = 4096
	}
	return &Gate{
		dir: dir, table: NewTable(), limiter: newLimiter(cfg.FailureBurst, cfg.FailureInterval, cfg.Peers),
		log: log.With().Str("component", "access").Logger(),
	}, nil
}

// Interceptor authenticates every call by its bearer token, puts the Actor into
// the context and refuses what its role may not call. It answers unauthenticated,
// permission_denied with the missing permission as a detail, resource_exhausted
// for a peer that failed too often, and unavailable if tokens cannot be looked up.
func (g *Gate) Interceptor() connect.ServerInterceptor {
	return func(next connect.ServerFunc) connect.ServerFunc {
		return func(ctx context.Context, spec connect.Spec, stream connect.ServerStream) error {
			actor, err := g.authenticate(ctx)
			if err != nil {
				return err
			}
			if err := g.authorise(actor, spec.Procedure); err != nil {
				return err
			}
			return next(WithActor(ctx, actor), spec, stream)
		}
	}
}

// As is an interceptor for transports within the process: every call is made by
// one actor, and only what the role may do is asked.
func (g *Gate) As(actor Actor) connect.ServerInterceptor {
	return func(next connect.ServerFunc) connect.ServerFunc {
		return func(ctx context.Context, spec connect.Spec, stream connect.ServerStream) error {
			if err := g.authorise(actor, spec.Procedure); err != nil {
				return err
			}
			return next(WithActor(ctx, actor), spec, stream)
		}
	}
}

func (g *Gate) authenticate(ctx context.Context) (Actor, error) {
	info, ok := connect.CallInfoForServerContext(ctx)
	if !ok {
		return Actor{}, unauthenticated("this call has no headers; send it over HTTP with an Authorization header")
	}
	token, ok := bearer(info.RequestHeader().Get("Authorization"))
	if !ok {
		return Actor{}, unauthenticated("send the header Authorization: Bearer <admin token>")
	}
	peer, hash, now := hostOf(info.PeerAddr), HashToken(token), time.Now()
	if wait := g.limiter.wait(peer, hash, now); wait > 0 {
		return Actor{}, refuse(connect.CodeResourceExhausted, "too many calls from this address did not authenticate; wait and use a valid token",
			&adminv1.ErrorInfo{Reason: "LIMIT_EXCEEDED", Limit: "failed_authentications", RetryAfterMs: wait.Milliseconds() + 1})
	}
	found, account, err := g.dir.Authenticate(ctx, hash)
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && !same(found.SHA256, hash):
		g.limiter.failed(peer, now)
		g.log.Warn().Str("peer", peer).Msg("admin token refused")
		return Actor{}, unauthenticated("the token is unknown, expired or of a disabled account; ask an owner for a new one")
	case err != nil:
		wait := store.RetryAfter(err)
		if wait == 0 {
			wait = time.Second
		}
		g.log.Error().Err(err).Msg("admin tokens cannot be looked up")
		return Actor{}, refuse(connect.CodeUnavailable, "tokens cannot be looked up now; try again",
			&adminv1.ErrorInfo{Reason: "STORE_DOWN", RetryAfterMs: wait.Milliseconds()})
	}
	g.limiter.succeeded(hash, now)
	return Actor{
		AccountID: account.ID, Name: account.Name, TokenID: found.ID, Role: account.Role,
		Tenants: account.TenantIDs, Kind: "token", Remote: info.PeerAddr,
	}, nil
}

// same compares the stored hash once more, in constant time: what the database
// found by its index is not relied on alone.
func same(a, b [sha256.Size]byte) bool { return subtle.ConstantTimeCompare(a[:], b[:]) == 1 }

func (g *Gate) authorise(actor Actor, procedure string) error {
	need, ok := g.table.NeedOf(procedure)
	if !ok {
		// Not a method of ours: only who may call something learns so.
		if !actor.Can(ReadSelf) {
			return Denied(ReadSelf, "role %s may not use the admin API", roleName(actor.Role))
		}
		return connect.Errorf(connect.CodeUnimplemented, "%s is no procedure of this API", procedure)
	}
	if !actor.Can(need.Permission) {
		return Denied(need.Permission, "role %s lacks the permission %s; ask an owner", roleName(actor.Role), need.Permission)
	}
	if need.Fleet && !actor.AllTenants() {
		return Denied(need.Permission, "this account is limited to some tenants and may not call what concerns all of them")
	}
	return nil
}

// Denied is the error for a missing permission, which it names.
func Denied(p Permission, format string, args ...any) error {
	return refuse(connect.CodePermissionDenied, fmt.Sprintf(format, args...), &adminv1.ErrorInfo{Reason: "PERMISSION", Permission: string(p)})
}

func unauthenticated(message string) error {
	return refuse(connect.CodeUnauthenticated, message, &adminv1.ErrorInfo{Reason: "UNAUTHENTICATED"})
}

func refuse(code connect.Code, message string, info *adminv1.ErrorInfo) error {
	err := connect.NewError(code, message)
	if detail, derr := connectproto.NewErrorDetail(info); derr == nil {
		err = err.WithDetail(detail)
	}
	return err
}

func roleName(r adminv1.Role) string {
	switch r {
	case adminv1.Role_ROLE_OWNER:
		return "owner"
	case adminv1.Role_ROLE_EDITOR:
		return "editor"
	case adminv1.Role_ROLE_VIEWER:
		return "viewer"
	case adminv1.Role_ROLE_FINANCE:
		return "finance"
	case adminv1.Role_ROLE_NODE:
		return "node"
	}
	return "none"
}
