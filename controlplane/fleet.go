package controlplane

import (
	"context"
	"errors"
	"fmt"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"

	"github.com/aidy-gateway/aidy-gateway/controlplane/admin"
	"github.com/aidy-gateway/aidy-gateway/controlplane/distribute"
	"github.com/aidy-gateway/aidy-gateway/controlplane/ledger"
	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

// hubStore lets the hub read what the store keeps, and tells the price catalogue of
// every generation that the hub hears of: other replicas publish prices too.
type hubStore struct {
	*store.Store
	prices *ledger.Catalog
}

var _ distribute.Store = hubStore{}

func headOf(h store.Head) distribute.Head {
	return distribute.Head{
		Epoch: h.Epoch, Generation: h.Generation,
		Identity: h.Position(syncv1.View_VIEW_IDENTITY), Policy: h.Position(syncv1.View_VIEW_STABLE),
	}
}

// Head implements distribute.Store.
func (s hubStore) Head(ctx context.Context) (distribute.Head, error) {
	h, err := s.Store.Head(ctx)
	return headOf(h), err
}

// Load implements distribute.Store.
func (s hubStore) Load(ctx context.Context, view syncv1.View, fn func(string, shard.Hash, []byte) error) (distribute.Head, error) {
	h, err := s.LoadShards(ctx, view, func(sh store.StoredShard) error {
		if len(sh.Hash) != len(shard.Hash{}) {
			return fmt.Errorf("shard %s has a hash of %d bytes: the stored configuration is damaged", sh.Key, len(sh.Hash))
		}
		return fn(sh.Key, shard.Hash(sh.Hash), sh.Bytes)
	})
	return headOf(h), err
}

// Changes implements distribute.Store.
func (s hubStore) Changes(ctx context.Context, view syncv1.View, since uint64) (distribute.Changes, error) {
	c, err := s.Store.Changes(ctx, view, since)
	if err != nil {
		return distribute.Changes{}, err
	}
	out := distribute.Changes{Head: headOf(c.Head), Reachable: c.Reachable}
	for _, sh := range c.Shards {
		change := distribute.Change{Key: sh.Key, Group: sh.TxGroup, Removed: sh.NewHash == nil}
		if !change.Removed {
			change.Hash = shard.Hash(sh.NewHash)
		}
		out.Shards = append(out.Shards, change)
	}
	return out, nil
}

// Blobs implements distribute.Store.
func (s hubStore) Blobs(ctx context.Context, hashes []shard.Hash) (map[shard.Hash][]byte, error) {
	raw := make([][]byte, len(hashes))
	for i := range hashes {
		raw[i] = hashes[i][:]
	}
	return s.Store.Blobs(ctx, raw)
}

// Listen implements distribute.Store.
func (s hubStore) Listen(ctx context.Context, fn func(distribute.Head)) error {
	return s.Store.Listen(ctx, func(h store.Head) {
		s.prices.Notify(h.Generation)
		fn(headOf(h))
	})
}

// hubNodes lets the hub keep nodes in the store.
type hubNodes struct{ store *store.Store }

var _ distribute.Nodes = hubNodes{}

func storedNode(n distribute.Node) store.Node {
	return store.Node{ID: n.ID, Name: n.Name, Labels: n.Labels, CertificateExpiresAt: n.CertificateExpiresAt}
}

func hubNode(n store.Node) distribute.Node {
	return distribute.Node{
		ID: n.ID, Name: n.Name, Labels: n.Labels, EnrolledAt: n.EnrolledAt,
		CertificateExpiresAt: n.CertificateExpiresAt, RevokedAt: n.RevokedAt,
	}
}

// UseJoinToken implements distribute.Nodes.
func (s hubNodes) UseJoinToken(ctx context.Context, secretHash [32]byte, n distribute.Node) error {
	_, err := s.store.UseJoinToken(ctx, secretHash, storedNode(n))
	if errors.Is(err, store.ErrNotFound) {
		return distribute.ErrNoToken
	}
	return err
}

// SaveNode implements distribute.Nodes.
func (s hubNodes) SaveNode(ctx context.Context, n distribute.Node) error {
	return s.store.SaveNode(ctx, storedNode(n))
}

// GetNode implements distribute.Nodes.
func (s hubNodes) GetNode(ctx context.Context, id string) (distribute.Node, error) {
	n, err := s.store.GetNode(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return distribute.Node{}, distribute.ErrNoNode
	}
	return hubNode(n), err
}

// AllNodes implements distribute.Nodes.
func (s hubNodes) AllNodes(ctx context.Context) ([]distribute.Node, error) {
	var out []distribute.Node
	after := ""
	for {
		page, err := s.store.Nodes(ctx, store.MaxPage, after)
		if err != nil {
			return nil, err
		}
		for _, n := range page {
			out, after = append(out, hubNode(n)), n.ID
		}
		if len(page) < store.MaxPage {
			return out, nil
		}
	}
}

// SaveStatus implements distribute.Nodes.
func (s hubNodes) SaveStatus(ctx context.Context, report *syncv1.ReportRequest, fromDisk bool) error {
	_, err := s.store.SaveStatus(ctx, report, fromDisk)
	return err
}

// AllStatuses implements distribute.Nodes.
func (s hubNodes) AllStatuses(ctx context.Context) ([]distribute.Status, error) {
	all, err := s.store.Statuses(ctx)
	if err != nil {
		return nil, err
	}
	var out []distribute.Status
	for _, st := range all {
		out = append(out, distribute.Status{Report: st.Report, FromDisk: st.FromDisk, ReportedAt: st.ReportedAt})
	}
	return out, nil
}

// fleet lets the admin API reach the nodes through the hub, and tells the price
// catalogue of what this process commits.
type fleet struct {
	*distribute.Hub
	prices *ledger.Catalog
}

var _ admin.Fleet = fleet{}

// Poke implements admin.Fleet.
func (f fleet) Poke(generation uint64) {
	f.Hub.Poke(generation)
	f.prices.Notify(generation)
}

// WaitApplied implements admin.Fleet.
func (f fleet) WaitApplied(ctx context.Context, generation uint64, quorumPercent int) admin.Applied {
	a := f.Hub.WaitApplied(ctx, generation, quorumPercent)
	return admin.Applied{Acked: a.Acked, Pending: a.Pending, Refused: a.Refused}
}

// prices reads the published price versions for the ledger.
type prices struct{ store *store.Store }

var _ ledger.Prices = prices{}

// aliasesOf are the other names of public models, which customers pay as the model
// itself unless they have a price of their own. A name that stands for different
// models at different upstreams of a tenant stands for none here: which one was meant
// is not guessed.
func aliasesOf(rows []*configv1.UpstreamModel) []ledger.ModelAlias {
	type name struct{ tenant, alias string }
	models := map[name]string{}
	for _, m := range rows {
		n := name{m.GetTenantId(), m.GetModel()}
		if other, found := models[n]; found && other != m.GetAliasOf() {
			models[n] = ""
			continue
		}
		models[n] = m.GetAliasOf()
	}
	out := make([]ledger.ModelAlias, 0, len(models))
	for n, model := range models {
		if model != "" {
			out = append(out, ledger.ModelAlias{Side: ledger.PriceSide, TenantID: n.tenant, Alias: n.alias, Model: model})
		}
	}
	return out
}

// LoadPrices implements ledger.Prices.
func (p prices) LoadPrices(ctx context.Context) (*ledger.PriceSet, error) {
	set := &ledger.PriceSet{}
	err := p.store.Read(ctx, func(tx *store.Tx) error {
		published := store.Filter{Equal: map[string]any{"published": true}}
		var err error
		if set.Costs, err = store.All[*configv1.ProviderPricing](ctx, tx, published); err != nil {
			return err
		}
		if set.Prices, err = store.All[*configv1.PriceBookEntry](ctx, tx, published); err != nil {
			return err
		}
		aliases, err := store.All[*configv1.UpstreamModel](ctx, tx, store.Filter{Stated: []string{"alias_of"}})
		if err != nil {
			return err
		}
		set.Aliases = aliasesOf(aliases)
		set.Generation = tx.Head().Generation
		return nil
	})
	if err != nil {
		return nil, err
	}
	return set, nil
}
