package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
)

func TestDeletingWhatIsNamedListsWhoNamesIt(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := freshStore(t)
	tenant := newTenant(t, s, "acme")
	provider, group, up := newUpstream(t, s, tenant)
	other := insert(t, s, &configv1.Group{TenantId: tenant.Id, Name: "spare", FallbackGroups: []string{group.Id}})
	consumer := insert(t, s, &configv1.Consumer{TenantId: tenant.Id, Name: "c", GroupIds: []string{group.Id}})
	lr := insert(t, s, &configv1.LogicalRoute{TenantId: tenant.Id, Name: "l", Scheduling: &configv1.SchedulingPolicy{Providers: []string{provider.Id}}})

	refused := func(err error) []string {
		e, ok := errors.AsType[*ReferencedError](err)
		if !ok || !errors.Is(err, ErrReferenced) {
			t.Fatalf("error %v, want ReferencedError", err)
		}
		var got []string
		for _, r := range e.Referrers {
			got = append(got, r.Kind+" "+r.ID+" "+r.Field)
		}
		return got
	}
	err := commitErr(s, func(tx *Tx) error { return Delete[*configv1.Group](ctx, tx, group.Id, "") })
	want := []string{"Consumer " + consumer.Id + " group_ids", "Group " + other.Id + " fallback_groups", "Upstream " + up.Id + " group_id"}
	if diff := cmp.Diff(want, refused(err)); diff != "" {
		t.Errorf("referrers of the group:\n%s", diff)
	}
	err = commitErr(s, func(tx *Tx) error { return Delete[*configv1.Provider](ctx, tx, provider.Id, "") })
	want = []string{"LogicalRoute " + lr.Id + " scheduling.providers", "Upstream " + up.Id + " provider_id"}
	if diff := cmp.Diff(want, refused(err)); diff != "" {
		t.Errorf("referrers of the provider:\n%s", diff)
	}

	// In one change everything can go, in any order.
	commit(t, s, func(tx *Tx) error {
		return errors.Join(
			Delete[*configv1.Group](ctx, tx, group.Id, ""), Delete[*configv1.Provider](ctx, tx, provider.Id, ""),
			Delete[*configv1.Upstream](ctx, tx, up.Id, ""), Delete[*configv1.Group](ctx, tx, other.Id, ""),
			Delete[*configv1.Consumer](ctx, tx, consumer.Id, ""), Delete[*configv1.LogicalRoute](ctx, tx, lr.Id, ""),
		)
	})
	commit(t, s, func(tx *Tx) error { return Delete[*configv1.Tenant](ctx, tx, tenant.Id, "") })
	checkRoots(t, s)
}

func TestNamesMustLeadToSomethingOfTheSameTenant(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := freshStore(t)
	tenant, stranger := newTenant(t, s, "acme"), newTenant(t, s, "other")
	group := insert(t, s, &configv1.Group{TenantId: stranger.Id, Name: "default"})
	shared := insert(t, s, &configv1.Provider{Name: "shared"})
	for name, groupID := range map[string]string{"missing": ident.New(ident.Group), "of another tenant": group.Id} {
		for where, fn := range map[string]func(tx *Tx) error{
			"list": func(tx *Tx) error {
				_, err := Insert(ctx, tx, &configv1.Consumer{TenantId: tenant.Id, Name: "c", GroupIds: []string{groupID}})
				return err
			},
			"field": func(tx *Tx) error {
				_, err := Insert(ctx, tx, &configv1.Upstream{TenantId: tenant.Id, Name: "u", ProviderId: shared.Id, GroupId: groupID})
				return err
			},
		} {
			err := commitErr(s, fn)
			if e, ok := errors.AsType[*InvalidError](err); !ok && !errors.Is(err, ErrInvalid) || ok && e.Field == "" {
				t.Errorf("group %s in a %s: %v, want InvalidError with the field", name, where, err)
			}
		}
	}
	// What is shared may be named by all; open lists may hold what is no id.
	own := insert(t, s, &configv1.Group{TenantId: tenant.Id, Name: "default"})
	insert(t, s, &configv1.Upstream{TenantId: tenant.Id, Name: "u", ProviderId: shared.Id, GroupId: own.Id})
	insert(t, s, &configv1.Budget{TenantId: tenant.Id, Name: "b", Currency: "EUR", SubjectIds: []string{tenant.Id, "end-user@example"}})
}

func TestUniqueValuesAreRefusedByName(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := freshStore(t)
	tenant := newTenant(t, s, "acme")
	err := commitErr(s, func(tx *Tx) error { _, err := Insert(ctx, tx, &configv1.Tenant{Name: "acme"}); return err })
	if e, ok := errors.AsType[*ExistsError](err); !ok || e.Kind != "Tenant" || !cmp.Equal(e.Fields, []string{"name"}) {
		t.Errorf("second tenant of a name: %v", err)
	}
	insert(t, s, &configv1.Provider{Name: "p"})
	err = commitErr(s, func(tx *Tx) error { _, err := Insert(ctx, tx, &configv1.Provider{Name: "p"}); return err })
	if !errors.Is(err, ErrAlreadyExists) {
		t.Errorf("second shared provider of a name: %v", err)
	}
	insert(t, s, &configv1.Provider{Name: "p", TenantId: tenant.Id}) // names are unique in their parent

	a := insert(t, s, &configv1.LogicalRoute{TenantId: tenant.Id, Name: "a", Order: 1})
	b := insert(t, s, &configv1.LogicalRoute{TenantId: tenant.Id, Name: "b", Order: 2})
	commit(t, s, func(tx *Tx) error { // one change may exchange two places
		a.Order, b.Order = 2, 1
		_, err1 := Update(ctx, tx, a)
		_, err2 := Update(ctx, tx, b)
		return errors.Join(err1, err2)
	})
	err = commitErr(s, func(tx *Tx) error {
		_, err := Insert(ctx, tx, &configv1.LogicalRoute{TenantId: tenant.Id, Name: "c", Order: 2})
		return err
	})
	if e, ok := errors.AsType[*ExistsError](err); !ok || e.Kind != "LogicalRoute" {
		t.Errorf("second logical route of an order: %v", err)
	}
}

func TestBadValuesAreRefusedNotStored(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := freshStore(t)
	tenant := newTenant(t, s, "acme")
	for name, fn := range map[string]func(tx *Tx) error{
		"zero byte":  func(tx *Tx) error { _, err := Insert(ctx, tx, &configv1.Tenant{Name: "a\x00b"}); return err },
		"bad name":   func(tx *Tx) error { _, err := Insert(ctx, tx, &configv1.Tenant{Name: "A B"}); return err },
		"foreign id": func(tx *Tx) error { _, err := Insert(ctx, tx, &configv1.Tenant{Id: "prj_x", Name: "x"}); return err },
		"time too large": func(tx *Tx) error {
			_, err := Insert(ctx, tx, &configv1.ProviderPricing{EffectiveFrom: &timestamppb.Timestamp{Seconds: 1 << 60}})
			return err
		},
		"moved tenant": func(tx *Tx) error {
			p, err := Insert(ctx, tx, &configv1.Project{TenantId: tenant.Id, Name: "p"})
			if err != nil {
				return err
			}
			p.TenantId = ident.New(ident.Tenant)
			_, err = Update(ctx, tx, p)
			return err
		},
	} {
		if err := commitErr(s, fn); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	if err := s.Read(ctx, func(tx *Tx) error { _, err := Insert(ctx, tx, &configv1.Tenant{Name: "x"}); return err }); err == nil {
		t.Error("a reading transaction wrote")
	}
}

func TestListPagesInOrderAndFilters(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := freshStore(t)
	tenant, other := newTenant(t, s, "acme"), newTenant(t, s, "other")
	var ids []string
	commit(t, s, func(tx *Tx) error {
		for i := range 25 {
			m := &configv1.Project{TenantId: tenant.Id, Name: "p" + string(rune('a'+i)), Disabled: i%2 == 0, Labels: map[string]string{"even": map[bool]string{true: "y", false: "n"}[i%2 == 0], "x": "1"}}
			m, err := Insert(ctx, tx, m)
			if err != nil {
				return err
			}
			ids = append(ids, m.Id)
		}
		_, err := Insert(ctx, tx, &configv1.Project{TenantId: other.Id, Name: "pa"})
		return err
	})
	read := func(f Filter, limit int) (got []string, pages int) {
		cursor := ""
		for {
			err := s.Read(ctx, func(tx *Tx) error {
				page, err := List[*configv1.Project](ctx, tx, f, limit, cursor)
				for _, m := range page.Items {
					got = append(got, m.Id)
				}
				cursor = page.Next
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if pages++; cursor == "" {
				return got, pages
			}
		}
	}
	if got, pages := read(Filter{Tenants: []string{tenant.Id}}, 10); !cmp.Equal(got, ids) || pages != 3 {
		t.Errorf("%d pages with %v, want 3 with all in order", pages, got)
	}
	disabled := true
	for name, tc := range map[string]struct {
		f    Filter
		want int
	}{
		"all":             {Filter{}, 26},
		"no tenant":       {Filter{Tenants: []string{}}, 0},
		"parent":          {Filter{ParentID: other.Id}, 1},
		"name":            {Filter{Name: "pa"}, 2},
		"tenant and name": {Filter{Tenants: []string{tenant.Id}, Name: "pa"}, 1},
		"labels":          {Filter{Labels: map[string]string{"even": "y", "x": "1"}}, 13},
		"disabled":        {Filter{Disabled: &disabled}, 13},
		"equal":           {Filter{Equal: map[string]any{"suspended": true}}, 0},
		"stated":          {Filter{Stated: []string{"name"}}, 26},
		"stated nowhere":  {Filter{Stated: []string{"policy_id"}}, 0},
	} {
		if got, _ := read(tc.f, 0); len(got) != tc.want {
			t.Errorf("%s: %d rows, want %d", name, len(got), tc.want)
		}
	}
	for _, bad := range []struct {
		limit  int
		cursor string
	}{{1001, ""}, {-1, ""}, {0, "'; DROP TABLE tenant"}, {0, "!"}} {
		err := s.Read(ctx, func(tx *Tx) error {
			_, err := List[*configv1.Project](ctx, tx, Filter{}, bad.limit, bad.cursor)
			return err
		})
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("limit %d, cursor %q: %v, want ErrInvalid", bad.limit, bad.cursor, err)
		}
	}
}

// The versions of one price never overlap; an open one ends where the next
// begins, and what is published does not change.
func TestPublishedPricesNeverOverlapOrChange(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := freshStore(t)
	provider := insert(t, s, &configv1.Provider{Name: "p"})
	day := func(n int) *timestamppb.Timestamp {
		return timestamppb.New(time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC))
	}
	version := func(from, until *timestamppb.Timestamp, nanos int64) *configv1.ProviderPricing {
		return &configv1.ProviderPricing{
			ProviderId: provider.Id, Model: "m", Currency: "USD", EffectiveFrom: from, EffectiveUntil: until, Published: true,
			Items: []*configv1.PriceItem{{Component: configv1.PriceComponent_PRICE_COMPONENT_INPUT, PerMtokNanos: nanos}},
		}
	}
	first := insert(t, s, version(day(1), nil, 100))
	third := insert(t, s, version(day(20), day(30), 300))
	second := insert(t, s, version(day(10), nil, 200))
	for at, want := range map[int]int64{1: 100, 9: 100, 10: 200, 19: 200, 20: 300, 29: 300} {
		var got int64
		if err := s.pool.QueryRow(ctx, `SELECT i.nano_per_million FROM price_version v JOIN price_item i ON i.version_id = v.id
			WHERE v.side = 'cost' AND v.model = 'm' AND v.published AND v.valid @> $1::timestamptz`, day(at).AsTime()).Scan(&got); err != nil || got != want {
			t.Errorf("price on day %d is %d (%v), want %d", at, got, err, want)
		}
	}
	for name, m := range map[string]*configv1.ProviderPricing{"same start": version(day(10), nil, 1), "inside a closed one": version(day(25), nil, 1), "over others": version(day(5), day(15), 1)} {
		if err := commitErr(s, func(tx *Tx) error { _, err := Insert(ctx, tx, m); return err }); !errors.Is(err, ErrAlreadyExists) {
			t.Errorf("%s: %v, want ErrAlreadyExists", name, err)
		}
	}
	draft := version(day(10), nil, 1)
	draft.Published = false
	insert(t, s, draft) // drafts may overlap anything
	second.Items[0].PerMtokNanos = 1
	if err := commitErr(s, func(tx *Tx) error { _, err := Update(ctx, tx, second); return err }); !errors.Is(err, ErrInvalid) {
		t.Errorf("changing a published price: %v, want a refusal", err)
	}
	commit(t, s, func(tx *Tx) error { return Delete[*configv1.ProviderPricing](ctx, tx, second.Id, "") })
	var ends time.Time
	if err := s.pool.QueryRow(ctx, "SELECT upper(valid) FROM price_version WHERE id = $1", first.Id).Scan(&ends); err != nil || !ends.Equal(third.EffectiveFrom.AsTime()) {
		t.Errorf("without the second, the first version ends %v (%v), want where the third begins", ends, err)
	}
}
