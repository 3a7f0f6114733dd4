package admin

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"

	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

// EnableConsumerAPIKey lets a key be used again.
func (s consumerService) EnableConsumerAPIKey(ctx context.Context, req *adminv1.EnableConsumerAPIKeyRequest) (*adminv1.EnableConsumerAPIKeyResponse, error) {
	return modify(ctx, s.api, req, &adminv1.EnableConsumerAPIKeyResponse{}, func(_ *write, m *configv1.ConsumerAPIKey) error {
		m.Disabled = false
		return nil
	})
}

// DisableConsumerAPIKey refuses a key until it is enabled.
func (s consumerService) DisableConsumerAPIKey(ctx context.Context, req *adminv1.DisableConsumerAPIKeyRequest) (*adminv1.DisableConsumerAPIKeyResponse, error) {
	return modify(ctx, s.api, req, &adminv1.DisableConsumerAPIKeyResponse{}, func(_ *write, m *configv1.ConsumerAPIKey) error {
		m.Disabled = true
		return nil
	})
}

// RevokeAPIKey refuses a key for ever.
func (s consumerService) RevokeAPIKey(ctx context.Context, req *adminv1.RevokeAPIKeyRequest) (*adminv1.RevokeAPIKeyResponse, error) {
	return modify(ctx, s.api, req, &adminv1.RevokeAPIKeyResponse{}, func(w *write, m *configv1.ConsumerAPIKey) error {
		if m.GetRevokeTime() == nil {
			m.RevokeTime = timestamppb.New(w.tx.Now())
		}
		return nil
	})
}

// RotateAPIKey makes a successor of a key, like it but for its secret. The old key
// ends after the overlap.
func (s consumerService) RotateAPIKey(ctx context.Context, req *adminv1.RotateAPIKeyRequest) (*adminv1.RotateAPIKeyResponse, error) {
	res := &adminv1.RotateAPIKeyResponse{}
	kind := s.api.kinds.byName["ConsumerAPIKey"]
	w, result, err := s.api.transact(ctx, req, req.GetChange(), res, func(w *write) error {
		found, err := s.api.find(ctx, w.tx, w.actor, kind, req.GetId(), "")
		if err != nil {
			return err
		}
		old, ok := found.(*configv1.ConsumerAPIKey)
		if !ok {
			return fmt.Errorf("%s is no key", req.GetId())
		}
		if over(old, w.tx.Now()) {
			return wrong(old, "id", "key.ended", "the key has ended or is replaced already; make a new key instead of rotating it")
		}
		next := proto.CloneOf(old)
		next.Id, next.Etag, next.Sha256, next.Hint = "", "", "", ""
		if next.Name, err = successorName(w, old); err != nil {
			return err
		}
		stored, err := w.create(kind, next)
		if err != nil {
			return err
		}
		ending := proto.CloneOf(old)
		ending.SuccessorId = store.ID(stored)
		if req.GetOverlapS() == 0 {
			ending.RevokeTime = timestamppb.New(w.tx.Now())
		} else if end := w.tx.Now().Add(time.Duration(req.GetOverlapS()) * time.Second); old.GetExpireTime() == nil || end.Before(old.GetExpireTime().AsTime()) {
			ending.ExpireTime = timestamppb.New(end)
		}
		if _, err := w.replace(kind, old, ending); err != nil {
			return err
		}
		return put[*configv1.ConsumerAPIKey](w.actor, res, stored)
	})
	if err != nil {
		return nil, err
	}
	res.Result = result
	if !w.shown.IsZero() {
		res.Secret = w.shown.Reveal()
	}
	return res, nil
}

func over(k *configv1.ConsumerAPIKey, now time.Time) bool {
	return k.GetRevokeTime() != nil || k.GetSuccessorId() != "" || k.GetExpireTime() != nil && !k.GetExpireTime().AsTime().After(now)
}

// successorName counts on from the name of a key: ci, ci-2, ci-3.
func successorName(w *write, old *configv1.ConsumerAPIKey) (string, error) {
	base, n := old.GetName(), 1
	if i := strings.LastIndexByte(base, '-'); i > 0 {
		if last, err := strconv.Atoi(base[i+1:]); err == nil && last > 1 {
			base, n = base[:i], last
		}
	}
	siblings, err := store.All[*configv1.ConsumerAPIKey](w.ctx, w.tx, store.Filter{ParentID: old.GetConsumerId()})
	if err != nil {
		return "", err
	}
	taken := map[string]bool{}
	for _, k := range siblings {
		taken[k.GetName()] = true
	}
	const longest = 63
	for {
		n++
		suffix := "-" + strconv.Itoa(n)
		if name := base[:min(len(base), longest-len(suffix))] + suffix; !taken[name] {
			return name, nil
		}
	}
}

// maxMarked is how many keys RevokeAll marks one by one. What is beyond is refused
// by the purge of its subject alone.
const maxMarked = 2000

// RevokeAll refuses every key that a consumer, project or tenant has now.
func (s consumerService) RevokeAll(ctx context.Context, req *adminv1.RevokeAllRequest) (*adminv1.RevokeAllResponse, error) {
	kind, id, err := subjectToPurge(req)
	if err != nil {
		return nil, err
	}
	res := &adminv1.RevokeAllResponse{}
	_, result, err := s.api.transact(ctx, req, req.GetChange(), res, func(w *write) error {
		subject, err := s.api.find(ctx, w.tx, w.actor, s.api.kinds.byName[kind.resource], id, "")
		if err != nil {
			return err
		}
		if err := w.mayWrite(subject); err != nil {
			return err
		}
		if err := w.tx.Purge(ctx, kind.subject, store.ID(subject)); err != nil {
			return err
		}
		f := store.Filter{Tenants: []string{store.TenantID(subject)}, Equal: map[string]any{}}
		if kind.field != "" {
			f.Equal[kind.field] = store.ID(subject)
		}
		keys, err := store.All[*configv1.ConsumerAPIKey](ctx, w.tx, f)
		if err != nil {
			return err
		}
		for _, k := range keys {
			if k.GetRevokeTime() != nil {
				continue
			}
			res.Revoked++
			if res.GetRevoked() > maxMarked {
				continue
			}
			next := proto.CloneOf(k)
			next.RevokeTime = timestamppb.New(w.tx.Now())
			if _, err := w.replace(s.api.kinds.byName["ConsumerAPIKey"], k, next); err != nil {
				return err
			}
		}
		if res.GetRevoked() > maxMarked {
			w.review.warnings = append(w.review.warnings, &adminv1.Warning{
				Code: "PURGED", Kind: kind.resource, Id: store.ID(subject),
				Message: fmt.Sprintf("%d keys are refused; only %d of them are marked as revoked one by one", res.GetRevoked(), maxMarked),
			})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	res.Result = result
	return res, nil
}

type purgeable struct {
	resource string
	subject  shard.SubjectKind
	field    string // of a key that names it
}

func subjectToPurge(req *adminv1.RevokeAllRequest) (purgeable, string, error) {
	var found []purgeable
	var id string
	for _, c := range []struct {
		id     string
		prefix ident.Prefix
		kind   purgeable
	}{
		{req.GetConsumerId(), ident.Consumer, purgeable{"Consumer", shard.SubjectConsumer, "consumer_id"}},
		{req.GetProjectId(), ident.Project, purgeable{"Project", shard.SubjectProject, "project_id"}},
		{req.GetTenantId(), ident.Tenant, purgeable{"Tenant", shard.SubjectTenant, ""}},
	} {
		if c.id != "" {
			found, id = append(found, c.kind), c.id
		}
	}
	if len(found) != 1 {
		return purgeable{}, "", wrong(nil, "consumer_id", "exactly_one", "name exactly one of consumer_id, project_id and tenant_id")
	}
	return found[0], id, nil
}
