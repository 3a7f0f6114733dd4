package admin

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"connectrpc.com/connect/v2"
	"google.golang.org/protobuf/proto"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/configcheck"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"

	"github.com/aidy-gateway/aidy-gateway/controlplane/access"
	"github.com/aidy-gateway/aidy-gateway/controlplane/compile"
	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

// confirmFreeze lets an owner commit one policy change through a freeze.
const confirmFreeze = "FREEZE"

// write is one change while its transaction runs. It belongs to one goroutine.
type write struct {
	ctx    context.Context //nolint:containedctx // lives within one transaction
	api    *API
	tx     *store.Tx
	actor  access.Actor
	review *review
	// bundle: the change is a bundle, whose author makes keys and omits secrets.
	bundle bool
	// mask are the fields an update names; nil for what is written whole.
	mask []string
	// shown is a secret made by this change, for the author's eyes alone.
	shown secret.Text
}

// transact runs fn as one change and says what it did. res is the answer of the
// call: fn fills it, and a repetition of the call with the same idempotency key
// finds it filled with what the first call was answered, without its secret.
func (a *API) transact(ctx context.Context, req proto.Message, cc *adminv1.ChangeContext, res proto.Message, fn func(w *write) error) (*write, *adminv1.ChangeResult, error) {
	if cc.GetRollout() == "canary" {
		return nil, nil, unavailable("rollouts", "ChangeContext.rollout canary")
	}
	actor := access.ActorOf(ctx)
	hash, err := requestHash(req)
	if err != nil {
		return nil, nil, err
	}
	rev := &review{confirm: cc.GetConfirm(), preview: cc.GetValidateOnly()}
	w := &write{api: a, actor: actor, review: rev}
	done, err := a.store.Commit(withReview(ctx, rev), store.Change{
		Actor: actor.Store(), Message: cc.GetMessage(), Rollout: "immediate",
		IdempotencyKey: cc.GetIdempotencyKey(), RequestHash: hash,
		IfMatchGeneration: cc.GetIfMatchGeneration(), ValidateOnly: cc.GetValidateOnly(),
		OverrideFreeze: slices.Contains(cc.GetConfirm(), confirmFreeze) && actor.Can(access.OverrideFreeze),
	}, func(tx *store.Tx) error {
		w.ctx, w.tx = withReview(ctx, rev), tx
		if err := fn(w); err != nil {
			return err
		}
		kept, err := store.Marshal(res)
		if err != nil {
			return fmt.Errorf("encode the answer: %w", err)
		}
		tx.Respond(kept)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	result := &adminv1.ChangeResult{Generation: done.Generation, Unchanged: done.Unchanged, ValidatedOnly: done.ValidatedOnly}
	if done.Replayed {
		if err := proto.Unmarshal(done.Response, res); err != nil {
			return nil, nil, fmt.Errorf("decode the kept answer: %w", err)
		}
		if result.Diff, result.Shards, err = a.changesOf(ctx, done.Generation); err != nil {
			return nil, nil, err
		}
	} else {
		describeChange(result, done, rev)
	}
	if done.ValidatedOnly {
		w.shown = secret.Text{} // of a key that was not made
	}
	if !done.Unchanged && !done.ValidatedOnly {
		a.fleet.Poke(done.Generation)
		a.wait(ctx, actor, cc.GetWait(), result)
	}
	return w, result, nil
}

func describeChange(result *adminv1.ChangeResult, done store.Result, rev *review) {
	for _, row := range done.Rows {
		result.Diff = append(result.Diff, compile.Diff(row.Before, row.After)...)
	}
	sizes := map[string]compile.Size{}
	for _, s := range rev.sizes() {
		sizes[s.Key] = s
	}
	for _, c := range done.Shards {
		result.Shards = append(result.Shards, &adminv1.ShardChange{
			Key: c.Key, OldBytes: sizes[c.Key].Old, NewBytes: int64(len(c.Bytes)), Removed: c.NewHash == nil,
		})
	}
	result.Impact, result.Warnings = rev.impact()
	for _, row := range done.Rows {
		if row.After == nil {
			continue
		}
		if why := configcheck.Unenforced(row.After); why != "" {
			result.Warnings = append(result.Warnings, &adminv1.Warning{Code: configcheck.NotEnforced, Message: why, Kind: row.Kind, Id: row.ID})
		}
	}
}

// wait waits until enough nodes run the change. That they do not in time is no
// error: the answer lists them.
func (a *API) wait(ctx context.Context, actor access.Actor, w *adminv1.Wait, result *adminv1.ChangeResult) {
	if w == nil {
		return
	}
	timeout := time.Duration(w.GetTimeoutMs()) * time.Millisecond
	if timeout <= 0 {
		timeout = 5 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	quorum := int(w.GetQuorumPercent())
	if quorum == 0 {
		quorum = 100
	}
	applied := a.fleet.WaitApplied(ctx, result.GetGeneration(), quorum)
	result.AckedNodes, result.PendingNodes = applied.Acked, applied.Pending
	for _, r := range applied.Refused {
		result.RefusedNodes = append(result.RefusedNodes, &adminv1.NodeRefusal{NodeId: r.GetNodeId(), Violations: visibleViolations(actor, r.GetViolations())})
	}
}

// visibleViolations keeps from an actor what concerns tenants of others.
func visibleViolations(actor access.Actor, all []*syncv1.Violation) []*syncv1.Violation {
	if actor.AllTenants() {
		return all
	}
	var out []*syncv1.Violation
	for _, v := range all {
		if tenant := tenantOfShard(v.GetShardKey()); tenant != "" && actor.CanTenant(tenant) {
			out = append(out, v)
		}
	}
	return out
}

// requestHash tells a repetition from another request under the same idempotency
// key. Secrets go in by their fingerprints: a hash over a guessable password
// would confirm guesses.
func requestHash(req proto.Message) ([]byte, error) {
	m := proto.Clone(req)
	redact(m.ProtoReflect(), 0)
	clearWait(m)
	raw, err := store.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	sum := sha256.Sum256(append([]byte(m.ProtoReflect().Descriptor().FullName()+"\x00"), raw...))
	return sum[:], nil
}

func clearWait(m proto.Message) {
	if fd := m.ProtoReflect().Descriptor().Fields().ByName("change"); fd != nil && m.ProtoReflect().Has(fd) {
		if cc, ok := m.ProtoReflect().Get(fd).Message().Interface().(*adminv1.ChangeContext); ok {
			cc.Wait = nil
		}
	}
}

// create stores a new resource.
func (w *write) create(r *resource, m proto.Message) (proto.Message, error) {
	if !w.bundle {
		if err := w.refuseDerived(r, m); err != nil {
			return nil, err
		}
		if store.ID(m) != "" {
			return nil, wrong(m, "id", "derived", "is made by the control plane; leave it out")
		}
	}
	clearField(m, "etag")
	if err := w.mayWrite(m); err != nil {
		return nil, err
	}
	if err := w.ready(r, nil, m); err != nil {
		return nil, err
	}
	stored, err := r.insert(w.ctx, w.tx, m)
	if err != nil {
		return nil, err
	}
	w.review.pairs = append(w.review.pairs, compile.Pair{New: stored})
	return stored, w.settle(r, nil, m, stored)
}

// replace stores m, which holds every field, in place of old.
func (w *write) replace(r *resource, old, m proto.Message) (proto.Message, error) {
	if err := w.mayWrite(old); err != nil {
		return nil, err
	}
	if err := w.ready(r, old, m); err != nil {
		return nil, err
	}
	stored, err := r.update(w.ctx, w.tx, m)
	if err != nil {
		return nil, err
	}
	w.review.pairs = append(w.review.pairs, compile.Pair{Old: old, New: stored})
	return stored, w.settle(r, old, m, stored)
}

// settle writes what belongs to a resource that was stored. m is what the author
// sent, with its secrets, and gets the id.
func (w *write) settle(r *resource, old, m, stored proto.Message) error {
	if r.rules.after == nil {
		return nil
	}
	setText(m, "id", store.ID(stored))
	return r.rules.after(w, old, m)
}

// destroy removes a resource.
func (w *write) destroy(r *resource, old proto.Message, etag string) error {
	if err := w.mayWrite(old); err != nil {
		return err
	}
	if err := r.remove(w.ctx, w.tx, store.ID(old), etag); err != nil {
		return err
	}
	w.review.pairs = append(w.review.pairs, compile.Pair{Old: old})
	if r.rules.gone != nil {
		return r.rules.gone(w, old)
	}
	return nil
}

// ready fills in what the control plane sets and checks the resource alone.
func (w *write) ready(r *resource, old, m proto.Message) error {
	if r.rules.before != nil {
		if err := r.rules.before(w, old, m); err != nil {
			return err
		}
	}
	if found := w.api.check.CheckResource(m); len(found) > 0 {
		return &invalidError{found}
	}
	return nil
}

// mayWrite refuses what belongs to a tenant that the actor may not touch.
func (w *write) mayWrite(m proto.Message) error {
	owner := store.TenantID(m)
	if w.actor.CanTenant(owner) {
		return nil
	}
	if owner == "" {
		return access.Denied(access.WriteConfig, "this account is limited to some tenants and may not change what belongs to all of them")
	}
	return access.Denied(access.WriteConfig, "this account may not change tenant %s", owner)
}

func (w *write) refuseDerived(r *resource, m proto.Message) error {
	var found []*syncv1.Violation
	for _, name := range r.rules.derived {
		fd := m.ProtoReflect().Descriptor().Fields().ByTextName(name)
		if fd != nil && m.ProtoReflect().Has(fd) {
			found = append(found, &syncv1.Violation{
				Kind: r.name, Name: text(m, "name"), FieldPath: name, Rule: "derived", Hint: "is set by the control plane; leave it out",
			})
		}
	}
	if len(found) > 0 {
		return &invalidError{found}
	}
	return nil
}

// named reports whether the author said something about a field: everything, in
// what is written whole; else what the mask names, or a part or the whole of it.
func (w *write) named(path string) bool {
	if w.mask == nil {
		return true
	}
	for _, p := range w.mask {
		if p == path || len(p) < len(path) && path[:len(p)] == p && path[len(p)] == '.' {
			return true
		}
	}
	return false
}

func unavailable(capability, where string) error {
	return connect.Errorf(connect.CodeUnimplemented, "%s are not available in this version (%s)", capability, where)
}
