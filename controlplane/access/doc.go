// Package access decides who may use the admin API and for what: identities,
// roles, bearer tokens, the interceptor that asks for them at every call, and the
// first owner of an empty installation.
//
// A role is a fixed set of permissions, and one table says which permission each
// procedure needs. An account may be limited to some tenants: it then sees and
// changes nothing of others, and nothing that belongs to the fleet as a whole.
package access
