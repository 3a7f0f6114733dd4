package access

import (
	"context"
	"slices"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"

	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

// Actor is who makes a call. It is a value; nothing changes it.
type Actor struct {
	// AccountID is the admin account, or SystemID for the process itself.
	AccountID string
	// Name is the name of the account.
	Name string
	// TokenID is the token the call was made with, empty for the process itself.
	TokenID string
	Role    adminv1.Role
	// Tenants limits the role; empty = every tenant and what belongs to none.
	Tenants []string
	// Kind is the sort of proof: token or system.
	Kind string
	// Remote is the address the call came from, empty within the process.
	Remote string
}

// SystemID is the account of what the control plane does by itself.
const SystemID = "system"

// System is the process itself, acting as an owner.
func System() Actor {
	return Actor{AccountID: SystemID, Name: SystemID, Role: adminv1.Role_ROLE_OWNER, Kind: SystemID}
}

// Can reports whether the actor's role has a permission. Whether it may use it on
// a certain tenant is CanTenant's to say.
func (a Actor) Can(p Permission) bool { return roleCan(a.Role, p) }

// AllTenants reports whether the actor's role holds for every tenant and for what
// belongs to none.
func (a Actor) AllTenants() bool { return len(a.Tenants) == 0 }

// CanTenant reports whether the actor's role holds for a tenant. The empty id
// stands for what belongs to no tenant.
func (a Actor) CanTenant(id string) bool {
	return a.AllTenants() || (id != "" && slices.Contains(a.Tenants, id))
}

// Store returns the actor as the store records it.
func (a Actor) Store() store.Actor {
	return store.Actor{ID: a.AccountID, Kind: a.Kind, Remote: a.Remote}
}

type actorKey struct{}

// WithActor returns a context that carries the caller.
func WithActor(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// ActorOf returns the caller that the interceptor put into a context. Without one
// it returns an actor that may do nothing.
func ActorOf(ctx context.Context) Actor {
	a, _ := ctx.Value(actorKey{}).(Actor)
	return a
}
