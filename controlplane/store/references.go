package store

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"

	"github.com/aidy-gateway/aidy-gateway/shared/ident"
)

// writeReferences keeps the rows of resource_reference: every reference that is
// no column of its own, so that those have foreign keys too.
func (tx *Tx) writeReferences(ctx context.Context, k *kind, m proto.Message) error {
	id := ID(m)
	batch := &pgx.Batch{}
	batch.Queue("DELETE FROM resource_reference WHERE referrer_id = $1", id)
	for i := range k.refs {
		r := &k.refs[i]
		if r.column {
			continue
		}
		for n, target := range r.named(m) {
			t := tx.cat.targetOf(r, target)
			if t == nil {
				continue
			}
			batch.Queue("INSERT INTO resource_reference (referrer_kind, referrer_id, field, ordinal, "+quote("target_"+t.Table)+
				") VALUES ($1, $2, $3, $4, $5)", k.name, id, r.Path, n, target)
		}
	}
	if len(k.refs) == 0 {
		return nil
	}
	if err := tx.pg.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("write references of %s %s: %w", k.name, id, tx.cat.classify(err, k))
	}
	return nil
}

// referable are the kinds that lists and nested messages may name: those with a
// column in resource_reference.
var referable = map[string]bool{
	"Tenant": true, "Project": true, "Provider": true, "Group": true, "Upstream": true, "UpstreamCredential": true,
	"UpstreamModel": true, "JWTIssuer": true, "Route": true, "Consumer": true, "ConsumerAPIKey": true,
}

// targetOf is the kind that an id names. An open reference tells it by prefix; a
// value there that is no id of a resource, such as an end user, names nothing.
func (c *catalog) targetOf(r *reference, target string) *kind {
	if r.Target != "" {
		return c.byName[r.Target]
	}
	prefix, _, err := ident.Parse(target)
	if k, ok := c.byPrefix[prefix]; err == nil && ok && referable[k.name] {
		return k
	}
	return nil
}

// checkReferences makes sure that what changed rows name exists and belongs to
// the same tenant or to all, and that nothing names what is gone. The foreign
// keys would refuse the first and the last too, but cannot say who refers.
func (tx *Tx) checkReferences(ctx context.Context, changes []*RowChange) error {
	for _, c := range changes {
		if c.After != nil {
			continue
		}
		k := tx.cat.byName[c.Kind]
		if k.sql.referrers == "" {
			continue
		}
		rows, err := tx.pg.Query(ctx, k.sql.referrers, c.ID)
		if err != nil {
			return fmt.Errorf("look for referrers of %s %s: %w", c.Kind, c.ID, tx.cat.classify(err, k))
		}
		referrers, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Referrer, err error) {
			err = row.Scan(&r.Kind, &r.ID, &r.Name, &r.Field)
			return r, err
		})
		if err != nil {
			return fmt.Errorf("look for referrers of %s %s: %w", c.Kind, c.ID, tx.cat.classify(err, k))
		}
		if len(referrers) > 0 {
			return &ReferencedError{Kind: c.Kind, ID: c.ID, Referrers: referrers}
		}
	}

	type use struct {
		c    *RowChange
		path string
	}
	wanted := map[string]map[string][]use{} // target kind -> id -> who names it
	for _, c := range changes {
		if c.After == nil {
			continue
		}
		k := tx.cat.byName[c.Kind]
		for i := range k.refs {
			r := &k.refs[i]
			for _, id := range r.named(c.After) {
				t := tx.cat.targetOf(r, id)
				if t == nil {
					continue
				}
				if wanted[t.name] == nil {
					wanted[t.name] = map[string][]use{}
				}
				wanted[t.name][id] = append(wanted[t.name][id], use{c, r.Path})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		t := tx.cat.byName[name]
		owner := "id"
		if t.hasTenant {
			owner = "coalesce(tenant_id, '')"
		}
		ids := slices.Sorted(maps.Keys(wanted[name]))
		rows, err := tx.pg.Query(ctx, "SELECT id, "+owner+" FROM "+quote(t.Table)+" WHERE id = ANY($1)", ids)
		if err != nil {
			return fmt.Errorf("look for named resources: %w", tx.cat.classify(err, t))
		}
		owners := map[string]string{}
		var id, tenant string
		if _, err := pgx.ForEachRow(rows, []any{&id, &tenant}, func() error { owners[id] = tenant; return nil }); err != nil {
			return fmt.Errorf("look for named resources: %w", tx.cat.classify(err, t))
		}
		for _, id := range ids {
			tenant, exists := owners[id]
			for _, u := range wanted[name][id] {
				// A stranger's resource is answered like a missing one, so that
				// ids of other tenants cannot be probed.
				// What belongs to all tenants may name any: a shared route accepts
				// the issuers of several.
				if !exists || (tenant != "" && u.c.TenantID != "" && u.c.TenantID != tenant) {
					return &InvalidError{Kind: u.c.Kind, ID: u.c.ID, Field: u.path, Reason: fmt.Sprintf("names %s %s, which does not exist", t.name, id)}
				}
			}
		}
	}
	return nil
}
