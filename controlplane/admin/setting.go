package admin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"google.golang.org/protobuf/proto"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

// settingsService keeps the scheduling defaults of the whole fleet, and shows the
// settings of this process.
type settingsService struct{ api *API }

var _ adminv1connect.SettingsServiceHandler = settingsService{}

// GetSettings reads them.
func (s settingsService) GetSettings(ctx context.Context, _ *adminv1.GetSettingsRequest) (*adminv1.GetSettingsResponse, error) {
	out := &adminv1.Settings{}
	if err := s.api.store.Read(ctx, func(tx *store.Tx) (err error) {
		out, err = s.read(ctx, tx)
		return err
	}); err != nil {
		return nil, err
	}
	if s.api.cfg.PrintSettings != nil {
		var b bytes.Buffer
		if err := s.api.cfg.PrintSettings(&b); err != nil {
			return nil, fmt.Errorf("show the settings of the process: %w", err)
		}
		out.ProcessYaml = b.String()
	}
	return &adminv1.GetSettingsResponse{Settings: out}, nil
}

func (s settingsService) read(ctx context.Context, tx *store.Tx) (*adminv1.Settings, error) {
	policy, err := tx.DefaultScheduling(ctx)
	if err != nil {
		return nil, err
	}
	etag, err := etagOf(policy)
	return &adminv1.Settings{Scheduling: policy, Etag: etag}, err
}

// etagOf follows from the content, so that writing the same again changes nothing.
func etagOf(policy *configv1.SchedulingPolicy) (string, error) {
	raw, err := store.Marshal(policy)
	if err != nil {
		return "", fmt.Errorf("encode the defaults: %w", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8]), nil
}

// UpdateSettings changes the named fields below scheduling, or the whole of it.
func (s settingsService) UpdateSettings(ctx context.Context, req *adminv1.UpdateSettingsRequest) (*adminv1.UpdateSettingsResponse, error) {
	given := req.GetSettings()
	if given.GetEtag() == "" {
		return nil, wrong(nil, "settings.etag", "required", "send the etag that you read, so that a change in between is not lost")
	}
	kind := &resource{name: "Settings", rules: rules{immutable: []string{"process_yaml"}}}
	res := &adminv1.UpdateSettingsResponse{}
	_, result, err := s.api.transact(ctx, req, req.GetChange(), res, func(w *write) error {
		old, err := s.read(ctx, w.tx)
		if err != nil {
			return err
		}
		if given.GetEtag() != old.GetEtag() {
			return &store.ETagError{Kind: "Settings", Current: old.GetEtag()}
		}
		next := proto.CloneOf(old)
		if err := applyMask(kind, next, given, req.GetUpdateMask().GetPaths()); err != nil {
			return err
		}
		if err := s.api.rules.Validate(next); err != nil {
			return contractError(err)
		}
		if err := w.tx.SetDefaultScheduling(ctx, next.GetScheduling()); err != nil {
			return err
		}
		if next.Etag, err = etagOf(next.GetScheduling()); err != nil {
			return err
		}
		res.Settings = next
		return nil
	})
	if err != nil {
		return nil, err
	}
	res.Result = result
	return res, nil
}
