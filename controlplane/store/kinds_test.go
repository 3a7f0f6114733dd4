package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/aidy-gateway/aidy-gateway/shared/ident"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

func testCatalog(t testing.TB) *catalog {
	t.Helper()
	c, err := newCatalog()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The migrations and the messages say the same: every field has its column of
// the right type, every reference its foreign key, every unique rule its index.
func TestSchemaFollowsTheMessages(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := pg.Pool(t)
	pgTypes := map[string]string{"smallint[]": "ARRAY smallint", "integer[]": "ARRAY integer", "bigint[]": "ARRAY bigint", "text[]": "ARRAY text", "timestamptz": "timestamp with time zone"}
	c := testCatalog(t)
	for _, k := range c.ordered {
		rows, err := pool.Query(ctx, `SELECT column_name, CASE data_type WHEN 'ARRAY' THEN 'ARRAY ' || format_type(to_regtype(substr(udt_name, 2)), -1) ELSE data_type END, is_nullable = 'YES'
			FROM information_schema.columns WHERE table_name = $1`, k.Table)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		nullable := map[string]bool{}
		var name, typ string
		var null bool
		if _, err := pgx.ForEachRow(rows, []any{&name, &typ, &null}, func() error { got[name], nullable[name] = typ, null; return nil }); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"revision": "bigint", "created_at": "timestamp with time zone", "updated_at": "timestamp with time zone"}
		for _, col := range k.columns {
			want[col.name] = col.sqlType
			if other, ok := pgTypes[col.sqlType]; ok {
				want[col.name] = other
			}
			if !col.null && nullable[col.name] {
				t.Errorf("%s.%s may be null, but its field has no presence", k.Table, col.name)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", k.Table, diff)
		}
		for _, r := range k.refs {
			if !r.column {
				if r.Target != "" && !referable[r.Target] {
					t.Errorf("%s.%s names %s, which resource_reference has no column for", k.name, r.Path, r.Target)
				}
				continue
			}
			var there bool
			if err := pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_constraint f JOIN pg_attribute a ON a.attrelid = f.conrelid AND a.attnum = f.conkey[1]
				WHERE f.contype = 'f' AND f.conrelid = $1::regclass AND f.confrelid = $2::regclass AND a.attname = $3 AND f.condeferred)`,
				quote(k.Table), quote(c.byName[r.Target].Table), r.Path).Scan(&there); err != nil || !there {
				t.Errorf("%s.%s has no deferred foreign key to %s (%v)", k.Table, r.Path, r.Target, err)
			}
		}
		for name := range k.Unique {
			var unique bool
			if err := pool.QueryRow(ctx, `SELECT coalesce(bool_or(i.indisunique OR i.indisexclusion), false) FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid WHERE c.relname = $1`, name).Scan(&unique); err != nil || !unique {
				t.Errorf("%s: no unique index or constraint %s (%v)", k.Table, name, err)
			}
		}
	}
	// Every foreign key's column leads an index, or deleting the target scans.
	rows, err := pool.Query(ctx, `SELECT f.conrelid::regclass::text || '.' || a.attname FROM pg_constraint f
		JOIN pg_attribute a ON a.attrelid = f.conrelid AND a.attnum = f.conkey[1] JOIN pg_class c ON c.oid = f.conrelid
		WHERE f.contype = 'f' AND c.relkind = 'r' AND f.conparentid = 0 AND c.relnamespace = 'public'::regnamespace AND f.confrelid <> 'tenant'::regclass
		AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = f.conrelid AND i.indkey[0] = f.conkey[1])`)
	if err != nil {
		t.Fatal(err)
	}
	bare, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || slices.ContainsFunc(bare, func(s string) bool { return !strings.HasPrefix(s, "provider_plugin_config") }) {
		t.Errorf("foreign keys without an index: %v (%v)", bare, err)
	}
}

// fill sets a random selection of fields, nested ones to a depth.
func fill(t *rapid.T, m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if !rapid.Bool().Draw(t, string(fd.Name())) {
			continue
		}
		switch {
		case fd.IsMap():
			for range rapid.IntRange(0, 3).Draw(t, "pairs") {
				key := rapid.StringMatching(`[a-z0-9._/-]{1,8}`).Draw(t, "key")
				m.Mutable(fd).Map().Set(protoreflect.ValueOfString(key).MapKey(), protoreflect.ValueOfString(rapid.StringMatching(`[ -~äß=]{0,8}`).Draw(t, "value")))
			}
		case fd.IsList():
			for range rapid.IntRange(0, 3).Draw(t, "members") {
				if v, ok := value(t, m, fd, depth); ok {
					m.Mutable(fd).List().Append(v)
				}
			}
		default:
			if v, ok := value(t, m, fd, depth); ok {
				m.Set(fd, v)
			}
		}
	}
}

func value(t *rapid.T, m protoreflect.Message, fd protoreflect.FieldDescriptor, depth int) (protoreflect.Value, bool) {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(rapid.StringMatching(`[ -~äß世]{0,12}`).Draw(t, "text")), true
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")), true
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(rapid.Bool().Draw(t, "bool")), true
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(rapid.Int32().Draw(t, "int")), true
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(rapid.Int64().Draw(t, "int")), true
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(rapid.Float64().Draw(t, "number")), true
	case protoreflect.EnumKind:
		values := fd.Enum().Values()
		return protoreflect.ValueOfEnum(values.Get(rapid.IntRange(0, values.Len()-1).Draw(t, "enum")).Number()), true
	case protoreflect.MessageKind:
		switch fd.Message().FullName() {
		case "google.protobuf.Timestamp":
			us := rapid.Int64Range(-1e15, 1e16).Draw(t, "microseconds")
			return protoreflect.ValueOfMessage(timestamppb.New(time.UnixMicro(us)).ProtoReflect()), true
		case "google.protobuf.Struct":
			s, err := structpb.NewStruct(map[string]any{"n": rapid.Float64Range(-1e9, 1e9).Draw(t, "n"), "list": []any{"ä", nil, true}, "": map[string]any{}})
			if err != nil {
				t.Fatal(err)
			}
			return protoreflect.ValueOfMessage(s.ProtoReflect()), true
		}
		if depth == 0 {
			return protoreflect.Value{}, false
		}
		sub := m.NewField(fd)
		if fd.IsList() {
			sub = m.NewField(fd).List().NewElement()
		}
		fill(t, sub.Message(), depth-1)
		return sub, true
	}
	t.Fatalf("field %s of a kind the tests do not know", fd.FullName())
	return protoreflect.Value{}, false
}

// What goes into a table comes out of it, for every kind and every value.
func TestEveryRowComesBackAsItWentIn(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := pg.Pool(t)
	c := testCatalog(t)
	for _, k := range c.ordered {
		rapid.Check(t, func(t *rapid.T) {
			m := k.Message.ProtoReflect().New()
			fill(t, m, 3)
			set := func(name protoreflect.Name, v string) {
				if fd := m.Descriptor().Fields().ByName(name); fd != nil {
					m.Set(fd, protoreflect.ValueOfString(v))
				}
			}
			set("id", ident.New(k.Prefix))
			set("name", "n")
			set("sha256", sha("0"))
			set("tenant_id", "ten_x")
			for _, r := range k.refs { // what NOT NULL asks for
				if r.column {
					set(protoreflect.Name(r.Path), "x")
				}
			}
			if k.name == "ProviderPluginConfig" {
				set("upstream_id", "")
			}
			in := k.withoutSecrets(m.Interface())
			stamp(in, 7, time.UnixMicro(1), time.UnixMicro(1))
			for _, path := range [][2]string{{"Tenant", "exhausted_status"}, {"Budget", "amount_nanos"}} {
				if k.name == path[0] {
					in.ProtoReflect().Clear(k.desc.Fields().ByTextName(path[1])) // held by a CHECK
				}
			}

			tx, err := pool.Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer rollback(ctx, tx) // references are checked at the end only, so they need not exist
			values, err := k.values(in)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(ctx, k.sql.insert, append(values, int64(7), time.UnixMicro(1))...); err != nil {
				t.Fatal(err)
			}
			out, revision, err := k.scan(tx.QueryRow(ctx, k.sql.selectRow+" WHERE id = $1", ID(in)))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(in, out, protocmp.Transform()); diff != "" || revision != 7 {
				t.Fatalf("revision %d, row differs:\n%s", revision, diff)
			}
			if _, err := tx.Exec(ctx, k.sql.update, append(values, int64(8), time.UnixMicro(2))...); err != nil {
				t.Fatal(err)
			}
			if out, revision, err = k.scan(tx.QueryRow(ctx, k.sql.selectRow+" WHERE id = $1", ID(in))); err != nil || revision != 8 {
				t.Fatalf("after update revision %d, %v", revision, err)
			}
			stamp(out, 7, time.UnixMicro(1), time.UnixMicro(1))
			if diff := cmp.Diff(in, out, protocmp.Transform()); diff != "" {
				t.Fatalf("after update the row differs:\n%s", diff)
			}
		})
	}
}

// Every kind has a well-formed shard, whatever its fields hold, and a change of
// tenant status or key status is a revocation exactly when it takes something.
func TestEveryKindTouchesWellFormedShards(t *testing.T) {
	t.Parallel()
	for _, k := range testCatalog(t).ordered {
		m := k.Message.ProtoReflect().New().Interface()
		setString(m, "id", ident.New(k.Prefix))
		setString(m, "tenant_id", ident.New(ident.Tenant))
		setString(m, "sha256", sha("f"))
		keys := k.Shards(m)
		if len(keys) == 0 {
			t.Errorf("%s touches no shard", k.name)
		}
		for _, key := range keys {
			if _, err := shard.Parse(key); err != nil {
				t.Errorf("%s: %v", k.name, err)
			}
		}
		if k.Revokes == nil {
			continue
		}
		if gone := k.Revokes(nil, m); len(gone) != 0 {
			t.Errorf("creating a %s revokes %v", k.name, gone)
		}
		if gone := k.Revokes(m, proto.Clone(m)); len(gone) != 0 {
			t.Errorf("leaving a %s as it is revokes %v", k.name, gone)
		}
		if k.name == "Route" { // takes away tokens, not itself
			continue
		}
		if gone := k.Revokes(m, nil); len(gone) != 1 {
			t.Errorf("deleting a %s revokes %v, want it", k.name, gone)
		}
		off := proto.Clone(m)
		off.ProtoReflect().Set(k.desc.Fields().ByName("disabled"), protoreflect.ValueOfBool(true))
		if gone := k.Revokes(m, off); len(gone) != 1 {
			t.Errorf("disabling a %s revokes %v, want it", k.name, gone)
		}
		if gone := k.Revokes(off, nil); len(gone) != 0 {
			t.Errorf("deleting a disabled %s revokes %v, want nothing", k.name, gone)
		}
	}
}

func TestUnionOfSetsJoinsWhatIsConnected(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const n = 8
		var linked [n][n]bool
		sets := newDisjoint()
		for i := range n {
			linked[i][i] = true
		}
		for range rapid.IntRange(0, 12).Draw(t, "joins") {
			a, b := rapid.IntRange(0, n-1).Draw(t, "a"), rapid.IntRange(0, n-1).Draw(t, "b")
			sets.join(fmt.Sprint(a), fmt.Sprint(b))
			linked[a][b], linked[b][a] = true, true
		}
		for k := range n {
			for i := range n {
				for j := range n {
					linked[i][j] = linked[i][j] || linked[i][k] && linked[k][j]
				}
			}
		}
		for i := range n {
			for j := range n {
				if got := sets.find(fmt.Sprint(i)) == sets.find(fmt.Sprint(j)); got != linked[i][j] {
					t.Fatalf("%d and %d together: %v, want %v", i, j, got, linked[i][j])
				}
			}
		}
	})
}
