// Package shard names the pieces of configuration and hashes sets of them, so
// that control plane and node can tell by 32 bytes whether they hold the same,
// and by 1,024 times 32 bytes where they differ.
//
// # Hashing
//
// All hashes are SHA-256. The hash of a shard is that of its bytes as stored;
// nobody marshals again to compare. A set is hashed like this:
//
//	bucket of a key   the first 10 bits of sha256(key), most significant first: 0 to 1,023
//	bucket hash       sha256 over the bucket's shards in byte order of their keys, for each:
//	                  length of the key in 2 bytes big endian, the key, the 32 bytes of the shard's hash
//	root              sha256 over the 1,024 bucket hashes in order of their buckets
//
// An empty bucket hashes to sha256 of nothing. Every field has a fixed length or
// carries it, so different sets are never the same input.
package shard

import (
	"errors"
	"fmt"
	"strings"
)

// ErrKey is in the tree of every error that Parse and DomainOf return.
var ErrKey = errors.New("malformed shard key")

// MaxKeyLen is the length of the longest key in bytes.
const MaxKeyLen = 128

// maxIDLen bounds an id within a key.
const maxIDLen = 64

// Domain is one of the two streams of configuration.
type Domain uint8

// The domains. Identity is delivered first, at once, and is never canaried.
const (
	Identity Domain = iota + 1 // who may call and which secrets are alive
	Policy                     // everything else
)

// String returns "identity" or "policy".
func (d Domain) String() string {
	switch d {
	case Identity:
		return "identity"
	case Policy:
		return "policy"
	}
	return fmt.Sprintf("domain(%d)", uint8(d))
}

// Kind is the first part of a key.
type Kind string

// The kinds of shard.
const (
	KindGlobal      Kind = "global"  // what belongs to no tenant
	KindTenant      Kind = "tenant"  // policy of one tenant
	KindCredentials Kind = "cred"    // sealed upstream secrets of one tenant
	KindSubject     Kind = "subject" // record of a tenant, project or consumer
	KindKey         Kind = "key"     // record of one consumer key or legacy route token
	KindIssuer      Kind = "issuer"  // record of one JWT issuer
)

// SubjectKind says what a subject shard is about.
type SubjectKind string

// The kinds of subject.
const (
	SubjectTenant   SubjectKind = "tenant"
	SubjectProject  SubjectKind = "project"
	SubjectConsumer SubjectKind = "consumer"
)

// Global returns the key of the shard that belongs to no tenant.
func Global() string { return string(KindGlobal) }

// Tenant returns the key of a tenant's policy.
func Tenant(id string) string { return string(KindTenant) + "/" + id }

// Credentials returns the key of a tenant's sealed upstream secrets.
func Credentials(tenant string) string { return string(KindCredentials) + "/" + tenant }

// Subject returns the key of the record of a tenant, project or consumer.
func Subject(kind SubjectKind, id string) string {
	return string(KindSubject) + "/" + string(kind) + "/" + id
}

// Key returns the key of the record of a caller's key; sha256Hex is the key's
// digest in 64 lower-case hex digits.
func Key(sha256Hex string) string { return string(KindKey) + "/" + sha256Hex }

// Issuer returns the key of the record of a JWT issuer.
func Issuer(id string) string { return string(KindIssuer) + "/" + id }

// Name is a key taken apart.
type Name struct {
	Kind    Kind
	Subject SubjectKind // only with KindSubject
	ID      string      // tenant, subject or issuer id; digest in hex with KindKey; "" with KindGlobal
}

// String returns the key of n.
func (n Name) String() string {
	switch n.Kind {
	case KindGlobal:
		return string(n.Kind)
	case KindSubject:
		return Subject(n.Subject, n.ID)
	}
	return string(n.Kind) + "/" + n.ID
}

// Domain returns the domain that n belongs to.
func (n Name) Domain() Domain {
	if n.Kind == KindGlobal || n.Kind == KindTenant {
		return Policy
	}
	return Identity
}

// Parse takes a key apart. It accepts exactly what the constructors make of ids
// of 1 to 64 lower-case letters, digits, "_" and "-", and of digests of 64
// lower-case hex digits; anything else is ErrKey.
func Parse(key string) (Name, error) {
	if len(key) > MaxKeyLen {
		return Name{}, fmt.Errorf("%w of %d bytes: want at most %d", ErrKey, len(key), MaxKeyLen)
	}
	head, rest, cut := strings.Cut(key, "/")
	n := Name{Kind: Kind(head), ID: rest}
	switch n.Kind {
	case KindGlobal:
		if cut {
			return Name{}, fmt.Errorf("%w %q: nothing may follow %q", ErrKey, key, KindGlobal)
		}
		return n, nil
	case KindKey:
		if !isDigest(rest) {
			return Name{}, fmt.Errorf("%w %q: want 64 lower-case hex digits after %q", ErrKey, key, "key/")
		}
		return n, nil
	case KindSubject:
		kind, id, _ := strings.Cut(rest, "/")
		n.Subject, n.ID = SubjectKind(kind), id
		switch n.Subject {
		case SubjectTenant, SubjectProject, SubjectConsumer:
		default:
			return Name{}, fmt.Errorf("%w %q: subject is one of tenant, project, consumer", ErrKey, key)
		}
	case KindTenant, KindCredentials, KindIssuer:
	default:
		return Name{}, fmt.Errorf("%w %q: want one of global, tenant, cred, subject, key, issuer first", ErrKey, key)
	}
	if !isID(n.ID) {
		return Name{}, fmt.Errorf("%w %q: want an id of 1 to %d lower-case letters, digits, _ and -", ErrKey, key, maxIDLen)
	}
	return n, nil
}

// DomainOf returns the domain of a key, or ErrKey.
func DomainOf(key string) (Domain, error) {
	n, err := Parse(key)
	if err != nil {
		return 0, err
	}
	return n.Domain(), nil
}

func isID(s string) bool {
	if s == "" || len(s) > maxIDLen {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

func isDigest(s string) bool {
	if len(s) != 64 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
