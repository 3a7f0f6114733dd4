package store

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// MaxPage is the most rows List returns at once.
const MaxPage = 1000

const maxReferrers = 100

// statements are the texts of one kind, made once.
type statements struct {
	selectRow string // … FROM table, no condition
	insert    string
	update    string
	delete    string
	referrers string
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

func (c *catalog) statementsOf(k *kind) statements {
	table := quote(k.Table)
	var names, params, sets []string
	for i, col := range k.columns {
		names = append(names, quote(col.name))
		params = append(params, fmt.Sprintf("$%d", i+1))
		if col.name != "id" {
			sets = append(sets, fmt.Sprintf("%s = $%d", quote(col.name), i+1))
		}
	}
	n := len(k.columns)
	return statements{
		selectRow: "SELECT " + strings.Join(names, ", ") + ", revision, created_at, updated_at FROM " + table,
		insert: fmt.Sprintf("INSERT INTO %s (%s, revision, created_at, updated_at) VALUES (%s, $%d, $%d, $%d)",
			table, strings.Join(names, ", "), strings.Join(params, ", "), n+1, n+2, n+2),
		// Every message begins with its id, so $1 is the id.
		update: fmt.Sprintf("UPDATE %s SET %s, revision = $%d, updated_at = $%d WHERE id = $1",
			table, strings.Join(sets, ", "), n+1, n+2),
		delete:    "DELETE FROM " + table + " WHERE id = $1",
		referrers: c.referrersOf(k),
	}
}

// referrersOf is a query for every row that names $1, a resource of kind k.
func (c *catalog) referrersOf(k *kind) string {
	var parts []string
	for _, other := range c.ordered {
		label := "''"
		for _, col := range other.columns {
			if col.name == "name" {
				label = "name"
			}
		}
		for _, r := range other.refs {
			if r.column && r.Target == k.name {
				parts = append(parts, fmt.Sprintf("(SELECT '%s' AS kind, id, %s AS name, '%s' AS field FROM %s WHERE %s = $1 LIMIT %d)",
					other.name, label, r.Path, quote(other.Table), quote(r.Path), maxReferrers))
			}
		}
	}
	if referable[k.name] {
		parts = append(parts, fmt.Sprintf("(SELECT referrer_kind, referrer_id, '', field FROM resource_reference WHERE %s = $1 LIMIT %d)",
			quote("target_"+k.Table), maxReferrers))
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("SELECT * FROM (%s) AS r ORDER BY 1, 2, 4 LIMIT %d", strings.Join(parts, " UNION ALL "), maxReferrers)
}

// scan reads one row of selectRow.
func (k *kind) scan(row pgx.Row) (proto.Message, int64, error) {
	msg := k.Message.ProtoReflect().New()
	targets := make([]any, 0, len(k.columns)+3)
	setters := make([]func(protoreflect.Message) error, len(k.columns))
	for i, col := range k.columns {
		target, set := col.dest()
		targets = append(targets, target)
		setters[i] = set
	}
	var revision int64
	var created, updated pgtype.Timestamptz
	targets = append(targets, &revision, &created, &updated)
	if err := row.Scan(targets...); err != nil {
		return nil, 0, err
	}
	for i, set := range setters {
		if err := set(msg); err != nil {
			return nil, 0, fmt.Errorf("read %s.%s: %w", k.name, k.columns[i].name, err)
		}
	}
	msg.Set(k.desc.Fields().ByName(fieldEtag), protoreflect.ValueOfString(etagOf(revision)))
	msg.Set(k.desc.Fields().ByName(fieldCreate), protoreflect.ValueOfMessage(timestamppb.New(created.Time).ProtoReflect()))
	msg.Set(k.desc.Fields().ByName(fieldUpdate), protoreflect.ValueOfMessage(timestamppb.New(updated.Time).ProtoReflect()))
	return msg.Interface(), revision, nil
}

func (k *kind) values(m proto.Message) ([]any, error) {
	values := make([]any, 0, len(k.columns)+3)
	for _, col := range k.columns {
		v, err := col.encode(m.ProtoReflect())
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, nil
}

// Filter narrows a List. The zero Filter lists everything.
type Filter struct {
	// Tenants keeps rows of these tenants; nil keeps all, an empty list none.
	// "" stands for what belongs to no tenant.
	Tenants []string
	// ParentID keeps rows of one parent (see Kind.Parent).
	ParentID string
	// Name keeps rows of exactly this name.
	Name string
	// Labels keeps rows that carry all of these.
	Labels map[string]string
	// Disabled keeps rows that are switched off, or those that are not.
	Disabled *bool
	// Equal keeps rows whose scalar columns have these values, by field name.
	Equal map[string]any
	// Stated keeps rows whose text columns of these names are not empty.
	Stated []string
}

// Page is one answer of List.
type Page[M proto.Message] struct {
	Items []M
	// Next continues the list; empty at its end.
	Next string
}

func zero[M proto.Message]() M {
	var m M
	return m
}

// Get returns the resource with an id. It fails with *NotFoundError.
func Get[M proto.Message](ctx context.Context, tx *Tx, id string) (M, error) {
	k, err := tx.cat.of(zero[M]())
	if err != nil {
		return zero[M](), err
	}
	m, err := tx.get(ctx, k, id)
	if err != nil {
		return zero[M](), err
	}
	return m.(M), nil
}

func (tx *Tx) get(ctx context.Context, k *kind, id string) (proto.Message, error) {
	m, _, err := k.scan(tx.pg.QueryRow(ctx, k.sql.selectRow+" WHERE id = $1", id))
	if err != nil {
		if err = tx.cat.classify(err, k); errors.Is(err, ErrNotFound) {
			return nil, &NotFoundError{k.name, id}
		}
		return nil, fmt.Errorf("read %s %s: %w", k.name, id, err)
	}
	return m, nil
}

// List returns rows in the order of their ids, which is that of their creation.
// limit is between 1 and MaxPage, 0 means MaxPage; cursor is Page.Next of the
// page before, empty for the first.
func List[M proto.Message](ctx context.Context, tx *Tx, f Filter, limit int, cursor string) (Page[M], error) {
	if limit < 0 || limit > MaxPage {
		return Page[M]{}, &InvalidError{Field: "page_size", Reason: fmt.Sprintf("must be between 1 and %d", MaxPage)}
	}
	if limit == 0 {
		limit = MaxPage
	}
	after, err := decodeCursor(cursor)
	if err != nil {
		return Page[M]{}, err
	}
	items, err := listRows[M](ctx, tx, f, limit+1, after)
	if err != nil {
		return Page[M]{}, err
	}
	page := Page[M]{Items: items}
	if len(items) > limit {
		page.Items = items[:limit]
		page.Next = encodeCursor(ID(items[limit-1]))
	}
	return page, nil
}

// All returns every row of a filter in the order of ids. It is what compiling
// needs; answers to callers are paged.
func All[M proto.Message](ctx context.Context, tx *Tx, f Filter) ([]M, error) {
	return listRows[M](ctx, tx, f, 0, "")
}

func listRows[M proto.Message](ctx context.Context, tx *Tx, f Filter, limit int, after string) ([]M, error) {
	k, err := tx.cat.of(zero[M]())
	if err != nil {
		return nil, err
	}
	where, args, err := k.where(f)
	if err != nil {
		return nil, err
	}
	if after != "" {
		args = append(args, after)
		where = append(where, fmt.Sprintf("id > $%d", len(args)))
	}
	sql := k.sql.selectRow
	if len(where) > 0 {
		sql += " WHERE " + strings.Join(where, " AND ")
	}
	sql += " ORDER BY id"
	if limit > 0 {
		sql += fmt.Sprintf(" LIMIT %d", limit)
	}
	rows, err := tx.pg.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", k.name, tx.cat.classify(err, k))
	}
	items, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (M, error) {
		m, _, err := k.scan(row)
		if err != nil {
			return zero[M](), err
		}
		return m.(M), nil
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", k.name, tx.cat.classify(err, k))
	}
	return items, nil
}

func (k *kind) where(f Filter) (where []string, args []any, err error) {
	arg := func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("$%d", len(args))
	}
	has := func(name string) bool {
		return slices.ContainsFunc(k.columns, func(c column) bool { return c.name == name })
	}
	if f.Tenants != nil {
		column := "id"
		if k.hasTenant {
			column = "coalesce(tenant_id, '')"
		}
		if len(f.Tenants) == 1 && k.hasTenant && f.Tenants[0] != "" {
			where = append(where, "tenant_id = "+arg(f.Tenants[0])) // uses the index
		} else {
			where = append(where, column+" = ANY("+arg(f.Tenants)+")")
		}
	}
	if f.ParentID != "" {
		if k.Parent == "" {
			return nil, nil, &InvalidError{Kind: k.name, Field: "parent_id", Reason: "this kind has no parent"}
		}
		where = append(where, quote(k.Parent)+" = "+arg(f.ParentID))
	}
	if f.Name != "" {
		if !has("name") {
			return nil, nil, &InvalidError{Kind: k.name, Field: "name", Reason: "this kind has no name"}
		}
		where = append(where, "name = "+arg(f.Name))
	}
	if len(f.Labels) > 0 {
		pairs := make([]string, 0, len(f.Labels))
		for key, v := range f.Labels {
			pairs = append(pairs, key+"="+v)
		}
		slices.Sort(pairs)
		where = append(where, "labels @> "+arg(pairs))
	}
	if f.Disabled != nil {
		where = append(where, "disabled = "+arg(*f.Disabled))
	}
	for _, name := range slices.Sorted(maps.Keys(f.Equal)) {
		if !has(name) {
			return nil, nil, &InvalidError{Kind: k.name, Field: name, Reason: "no such column"}
		}
		where = append(where, quote(name)+" = "+arg(f.Equal[name]))
	}
	for _, name := range f.Stated {
		if !has(name) {
			return nil, nil, &InvalidError{Kind: k.name, Field: name, Reason: "no such column"}
		}
		where = append(where, "coalesce("+quote(name)+", '') <> ''")
	}
	return where, args, nil
}

func encodeCursor(id string) string { return base64.RawURLEncoding.EncodeToString([]byte(id)) }

func decodeCursor(cursor string) (string, error) {
	if len(cursor) > 128 {
		return "", &InvalidError{Field: "page_token", Reason: "not a token of an earlier page"}
	}
	id, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || strings.IndexFunc(string(id), func(r rune) bool { return r < '0' || r > 'z' }) >= 0 {
		return "", &InvalidError{Field: "page_token", Reason: "not a token of an earlier page"}
	}
	return string(id), nil
}
