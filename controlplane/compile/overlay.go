package compile

import (
	"iter"
	"slices"

	"google.golang.org/protobuf/proto"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/configcheck"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

// Source reads stored shards for an Overlay, as the transaction sees them that
// wants to change them.
type Source interface {
	// Shard returns the bytes of a shard as it would be after the change, nil if
	// there is none.
	Shard(key string) ([]byte, error)
	// RoutesAt lists the routes at a host and path after the change.
	RoutesAt(p configcheck.Place) ([]configcheck.RouteRef, error)
	// IssuersAt lists the ids of a tenant's issuers with that iss claim after the
	// change.
	IssuersAt(tenantID, issuer string) ([]string, error)
	// KeysOf lists the hashes of a consumer's keys after the change.
	KeysOf(consumerID string) ([]string, error)
}

// Overlay lets configcheck look at a configuration as it would be, reading only
// the shards that the check asks for. Its methods cannot fail, as the check has
// no use for a failure; after the check, Err says whether what it saw was whole.
// Not safe for concurrent use.
type Overlay struct {
	src  Source
	seen map[string]proto.Message
	err  error
}

var (
	_ configcheck.Lookup    = (*Overlay)(nil)
	_ configcheck.KeyLister = (*Overlay)(nil)
)

// NewOverlay returns an Overlay that has read nothing.
func NewOverlay(src Source) *Overlay { return &Overlay{src: src, seen: map[string]proto.Message{}} }

// Err returns the first failure to read. If there is one, the result of the check
// means nothing.
func (o *Overlay) Err() error { return o.err }

func (o *Overlay) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

func (o *Overlay) read(key string) proto.Message {
	if m, ok := o.seen[key]; ok {
		return m
	}
	raw, err := o.src.Shard(key)
	if err != nil {
		o.fail(err)
		return nil
	}
	var m proto.Message
	if raw != nil {
		if m, err = configcheck.Decode(key, raw); err != nil {
			o.fail(err)
			return nil
		}
	}
	o.seen[key] = m
	return m
}

// Global implements configcheck.Lookup.
func (o *Overlay) Global() *syncv1.GlobalShard {
	m, _ := o.read(shard.Global()).(*syncv1.GlobalShard)
	return m
}

// Tenant implements configcheck.Lookup.
func (o *Overlay) Tenant(id string) *syncv1.TenantShard {
	m, _ := o.read(shard.Tenant(id)).(*syncv1.TenantShard)
	return m
}

// CredentialShard implements configcheck.Lookup.
func (o *Overlay) CredentialShard(tenantID string) *syncv1.CredentialShard {
	m, _ := o.read(shard.Credentials(tenantID)).(*syncv1.CredentialShard)
	return m
}

// Subject implements configcheck.Lookup.
func (o *Overlay) Subject(kind syncv1.SubjectKind, id string) *syncv1.SubjectRecord {
	word := map[syncv1.SubjectKind]shard.SubjectKind{
		syncv1.SubjectKind_SUBJECT_KIND_TENANT:   shard.SubjectTenant,
		syncv1.SubjectKind_SUBJECT_KIND_PROJECT:  shard.SubjectProject,
		syncv1.SubjectKind_SUBJECT_KIND_CONSUMER: shard.SubjectConsumer,
	}[kind]
	if word == "" {
		return nil
	}
	m, _ := o.read(shard.Subject(word, id)).(*syncv1.SubjectRecord)
	return m
}

// Key implements configcheck.Lookup.
func (o *Overlay) Key(sha256 string) *syncv1.KeyRecord {
	m, _ := o.read(shard.Key(sha256)).(*syncv1.KeyRecord)
	return m
}

// Issuer implements configcheck.Lookup.
func (o *Overlay) Issuer(id string) *syncv1.IssuerRecord {
	m, _ := o.read(shard.Issuer(id)).(*syncv1.IssuerRecord)
	return m
}

// RoutesAt implements configcheck.Lookup.
func (o *Overlay) RoutesAt(p configcheck.Place) []configcheck.RouteRef {
	refs, err := o.src.RoutesAt(p)
	if err != nil {
		o.fail(err)
	}
	return refs
}

// IssuersAt implements configcheck.Lookup.
func (o *Overlay) IssuersAt(tenantID, issuer string) []string {
	ids, err := o.src.IssuersAt(tenantID, issuer)
	if err != nil {
		o.fail(err)
	}
	return ids
}

// ProvidersInUse implements configcheck.Lookup. It yields none: foreign keys keep
// a provider that is in use.
func (o *Overlay) ProvidersInUse() iter.Seq2[string, string] {
	return func(func(string, string) bool) {}
}

// KeysOf implements configcheck.KeyLister.
func (o *Overlay) KeysOf(consumerID string) iter.Seq[*syncv1.KeyRecord] {
	sums, err := o.src.KeysOf(consumerID)
	if err != nil {
		o.fail(err)
	}
	sums = slices.Sorted(slices.Values(sums))
	return func(yield func(*syncv1.KeyRecord) bool) {
		for _, sum := range sums {
			if rec := o.Key(sum); rec != nil && !yield(rec) {
				return
			}
		}
	}
}
