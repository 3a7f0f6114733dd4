package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/aidy-gateway/aidy-gateway/shared/ident"
)

// Tx is one transaction: what Get, List, Insert, Update and Delete go through.
// It belongs to the function it was given to and to one goroutine. After an
// error of a write the transaction is lost: return the error.
type Tx struct {
	pg       pgx.Tx
	cat      *catalog
	head     Head
	readOnly bool

	changes     map[rowKey]*RowChange
	touched     map[string]struct{} // shards touched by what is no resource
	revocations []Revocation
	events      []AuditEvent
	dirty       bool // something was written that is no resource
	response    []byte
	compiled    map[string][]byte // what this transaction's shards hold, once compiled
}

type rowKey struct{ kind, id string }

// RowChange is the difference one transaction makes to one resource. Before is
// nil for a new one, After for a deleted one; neither holds secrets.
type RowChange struct {
	Kind, ID, Name, TenantID string
	Before, After            proto.Message
	Revision                 int64
}

func newTx(pg pgx.Tx, cat *catalog) *Tx {
	return &Tx{pg: pg, cat: cat, changes: map[rowKey]*RowChange{}, touched: map[string]struct{}{}}
}

// Head is the state that the transaction builds on. Head().Now is the time that
// everything it writes carries.
func (tx *Tx) Head() Head { return tx.head }

// Now is the time, of the database's clock, that everything written carries.
func (tx *Tx) Now() time.Time { return tx.head.Now }

// SQL is the transaction itself, for the packages that own tables of their own
// and must write them together with a resource.
func (tx *Tx) SQL() pgx.Tx { return tx.pg }

// Respond sets what a repeated call with the same idempotency key is answered
// with (Result.Response). It must hold no secret.
func (tx *Tx) Respond(response []byte) { tx.response = response }

// Touch marks shards for compilation that depend on something else than a
// resource.
func (tx *Tx) Touch(keys ...string) {
	for _, key := range keys {
		tx.touched[key] = struct{}{}
	}
}

// Revoke adds something that must be denied at once and does not follow from a
// change of a resource.
func (tx *Tx) Revoke(r Revocation) { tx.revocations = append(tx.revocations, r) }

// Audit adds an event that does not follow from a change of a resource. Actor,
// time, message and generation are filled in.
func (tx *Tx) Audit(e AuditEvent) { tx.events = append(tx.events, e) }

// Insert creates a resource and returns it as stored: with id (made here if m
// has none), etag and times, without secrets. m is left as it is.
//
// It fails with *ExistsError if a unique value is taken. That everything it
// names exists is checked when the function given to Commit has returned, so
// the order of writes does not matter.
func Insert[M proto.Message](ctx context.Context, tx *Tx, m M) (M, error) {
	k, err := tx.writable(m)
	if err != nil {
		return zero[M](), err
	}
	stored := k.withoutSecrets(m)
	normalise(stored)
	if ID(stored) == "" {
		setString(stored, "id", ident.New(k.Prefix))
	}
	id := ID(stored)
	if !ident.Valid(k.Prefix, id) {
		return zero[M](), &InvalidError{Kind: k.name, ID: id, Field: "id", Reason: "is no id of this kind"}
	}
	const first = 1
	stamp(stored, first, tx.Now(), tx.Now())
	values, err := k.values(stored)
	if err != nil {
		return zero[M](), err
	}
	if _, err := tx.pg.Exec(ctx, k.sql.insert, append(values, first, tx.Now())...); err != nil {
		return zero[M](), fmt.Errorf("create %s: %w", k.name, tx.cat.classify(err, k))
	}
	if err := tx.writeReferences(ctx, k, stored); err != nil {
		return zero[M](), err
	}
	tx.record(k, id, nil, stored, first)
	return proto.Clone(stored).(M), nil
}

// Update replaces a resource with m, which holds every field: masks are applied
// by the caller. If m has an etag it must be the row's, else *ETagError. The
// tenant cannot change. An update that changes nothing writes nothing, and the
// row keeps its etag.
func Update[M proto.Message](ctx context.Context, tx *Tx, m M) (M, error) {
	k, err := tx.writable(m)
	if err != nil {
		return zero[M](), err
	}
	id := ID(m)
	before, revision, err := tx.current(ctx, k, id, stringField(m, fieldEtag))
	if err != nil {
		return zero[M](), err
	}
	if TenantID(m) != TenantID(before) {
		return zero[M](), &InvalidError{Kind: k.name, ID: id, Field: "tenant_id", Reason: "cannot change"}
	}
	after := k.withoutSecrets(m)
	normalise(after)
	created := timeOf(before, fieldCreate)
	stamp(after, revision, created, timeOf(before, fieldUpdate))
	if proto.Equal(before, after) {
		return before.(M), nil
	}
	revision++
	stamp(after, revision, created, tx.Now())
	values, err := k.values(after)
	if err != nil {
		return zero[M](), err
	}
	if _, err := tx.pg.Exec(ctx, k.sql.update, append(values, revision, tx.Now())...); err != nil {
		return zero[M](), fmt.Errorf("change %s %s: %w", k.name, id, tx.cat.classify(err, k))
	}
	if err := tx.writeReferences(ctx, k, after); err != nil {
		return zero[M](), err
	}
	tx.record(k, id, before, after, revision)
	return proto.Clone(after).(M), nil
}

// Delete removes a resource and its sealed secrets. A non-empty etag must be the row's. If others still
// name it when the function given to Commit has returned, Commit fails with
// *ReferencedError.
func Delete[M proto.Message](ctx context.Context, tx *Tx, id, etag string) error {
	k, err := tx.writable(zero[M]())
	if err != nil {
		return err
	}
	before, revision, err := tx.current(ctx, k, id, etag)
	if err != nil {
		return err
	}
	batch := &pgx.Batch{}
	batch.Queue("DELETE FROM resource_reference WHERE referrer_id = $1", id)
	if len(k.Secrets) > 0 {
		batch.Queue("DELETE FROM sealed_secret WHERE owner_id = $1", id)
	}
	batch.Queue(k.sql.delete, id)
	if err := tx.pg.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("delete %s %s: %w", k.name, id, tx.cat.classify(err, k))
	}
	tx.record(k, id, before, nil, revision+1)
	return nil
}

func (tx *Tx) writable(m proto.Message) (*kind, error) {
	if tx.readOnly {
		return nil, errors.New("a write in a transaction that only reads")
	}
	return tx.cat.of(m)
}

func (tx *Tx) current(ctx context.Context, k *kind, id, etag string) (proto.Message, int64, error) {
	m, revision, err := k.scan(tx.pg.QueryRow(ctx, k.sql.selectRow+" WHERE id = $1", id))
	if err != nil {
		if err = tx.cat.classify(err, k); errors.Is(err, ErrNotFound) {
			return nil, 0, &NotFoundError{k.name, id}
		}
		return nil, 0, fmt.Errorf("read %s %s: %w", k.name, id, err)
	}
	if etag != "" && etag != etagOf(revision) {
		return nil, 0, &ETagError{k.name, id, etagOf(revision)}
	}
	return m, revision, nil
}

// record joins several writes of one row into one change.
func (tx *Tx) record(k *kind, id string, before, after proto.Message, revision int64) {
	key := rowKey{k.name, id}
	if earlier, ok := tx.changes[key]; ok {
		before = earlier.Before
	}
	shown := after
	if shown == nil {
		shown = before
	}
	if shown == nil { // made and deleted in this transaction
		delete(tx.changes, key)
		return
	}
	tx.changes[key] = &RowChange{
		Kind: k.name, ID: id, Name: stringField(shown, "name"), TenantID: TenantID(shown),
		Before: before, After: after, Revision: revision,
	}
}

// rowChanges returns what remains of all writes, by kind and id. Writes that
// cancel each other are gone; their revision counts up all the same.
func (tx *Tx) rowChanges() []*RowChange {
	var out []*RowChange
	for _, c := range tx.changes {
		if c.Before != nil && c.After != nil && sameContent(c.Before, c.After) {
			continue
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b *RowChange) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID)) })
	return out
}

func sameContent(a, b proto.Message) bool {
	a, b = proto.Clone(a), proto.Clone(b)
	for _, m := range []proto.Message{a, b} {
		r := m.ProtoReflect()
		for _, name := range []protoreflect.Name{fieldEtag, fieldCreate, fieldUpdate} {
			r.Clear(r.Descriptor().Fields().ByName(name))
		}
	}
	return proto.Equal(a, b)
}

// touchedShards lists, sorted, every shard that a change may alter.
func (tx *Tx) touchedShards(changes []*RowChange) []string {
	keys := maps.Clone(tx.touched)
	for _, c := range changes {
		for _, key := range tx.shardsOf(c) {
			keys[key] = struct{}{}
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

func (tx *Tx) shardsOf(c *RowChange) []string {
	k := tx.cat.byName[c.Kind]
	var keys []string
	for _, m := range []proto.Message{c.Before, c.After} {
		if m != nil {
			keys = append(keys, k.Shards(m)...)
		}
	}
	return keys
}

func stamp(m proto.Message, revision int64, created, updated time.Time) {
	r := m.ProtoReflect()
	fields := r.Descriptor().Fields()
	r.Set(fields.ByName(fieldEtag), protoreflect.ValueOfString(etagOf(revision)))
	r.Set(fields.ByName(fieldCreate), protoreflect.ValueOfMessage(timestamppb.New(created).ProtoReflect()))
	r.Set(fields.ByName(fieldUpdate), protoreflect.ValueOfMessage(timestamppb.New(updated).ProtoReflect()))
}

func timeOf(m proto.Message, name protoreflect.Name) time.Time {
	fd := m.ProtoReflect().Descriptor().Fields().ByName(name)
	ts, _ := m.ProtoReflect().Get(fd).Message().Interface().(*timestamppb.Timestamp)
	return ts.AsTime()
}
