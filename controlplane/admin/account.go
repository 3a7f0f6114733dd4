package admin

import (
	"context"
	"slices"
	"time"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"

	"github.com/aidy-gateway/aidy-gateway/controlplane/access"
	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

// accountService keeps the identities of administrators. They are no
// configuration: a change of them makes no generation.
type accountService struct{ api *API }

var _ adminv1connect.AdminServiceHandler = accountService{}

// CreateAdminAccount makes an account.
func (s accountService) CreateAdminAccount(ctx context.Context, req *adminv1.CreateAdminAccountRequest) (*adminv1.CreateAdminAccountResponse, error) {
	given := req.GetAdminAccount()
	if err := s.tenantsExist(ctx, given.GetTenantIds()); err != nil {
		return nil, err
	}
	stored, err := s.api.store.CreateAccount(ctx, access.ActorOf(ctx).Store(), store.AdminAccount{
		ID: ident.New(ident.AdminAccount), Name: given.GetName(), Role: given.GetRole(), TenantIDs: given.GetTenantIds(), Disabled: given.GetDisabled(),
	})
	if err != nil {
		return nil, err
	}
	return &adminv1.CreateAdminAccountResponse{AdminAccount: adminAccount(stored)}, nil
}

// GetAdminAccount reads one, by id or name.
func (s accountService) GetAdminAccount(ctx context.Context, req *adminv1.GetAdminAccountRequest) (*adminv1.GetAdminAccountResponse, error) {
	var found store.AdminAccount
	var err error
	if ident.Valid(ident.AdminAccount, req.GetId()) {
		found, err = s.api.store.GetAccount(ctx, req.GetId())
	} else {
		found, err = s.api.store.FindAccount(ctx, req.GetId())
	}
	if err != nil {
		return nil, err
	}
	return &adminv1.GetAdminAccountResponse{AdminAccount: adminAccount(found)}, nil
}

// ListAdminAccounts pages through them.
func (s accountService) ListAdminAccounts(ctx context.Context, req *adminv1.ListAdminAccountsRequest) (*adminv1.ListAdminAccountsResponse, error) {
	after, err := idCursor(req.GetPageToken())
	if err != nil {
		return nil, err
	}
	size := pageSize(req.GetPageSize())
	found, err := s.api.store.Accounts(ctx, size+1, after)
	if err != nil {
		return nil, err
	}
	page, next := cutPage(found, size, func(a store.AdminAccount) string { return a.ID })
	res := &adminv1.ListAdminAccountsResponse{NextPageToken: next}
	for _, a := range page {
		res.AdminAccounts = append(res.AdminAccounts, adminAccount(a))
	}
	return res, nil
}

// UpdateAdminAccount changes the named fields: name, role, tenant_ids, disabled.
// The last owner stays one.
func (s accountService) UpdateAdminAccount(ctx context.Context, req *adminv1.UpdateAdminAccountRequest) (*adminv1.UpdateAdminAccountResponse, error) {
	given := req.GetAdminAccount()
	if given.GetEtag() == "" {
		return nil, wrong(given, "etag", "required", "send the etag that you read, so that a change in between is not lost")
	}
	if !ident.Valid(ident.AdminAccount, given.GetId()) {
		return nil, wrong(nil, "admin_account.id", "required", "give the id of the account to change")
	}
	old, err := s.api.store.GetAccount(ctx, given.GetId())
	if err != nil {
		return nil, err
	}
	next := old
	if len(req.GetUpdateMask().GetPaths()) == 0 {
		return nil, wrong(given, "update_mask", "required", "name the fields to change; a field that is not named stays as it is")
	}
	for _, path := range req.GetUpdateMask().GetPaths() {
		switch path {
		case "name":
			next.Name = given.GetName()
		case "role":
			next.Role = given.GetRole()
		case "tenant_ids":
			next.TenantIDs = given.GetTenantIds()
		case "disabled":
			next.Disabled = given.GetDisabled()
		default:
			return nil, wrong(given, path, "update_mask", "only name, role, tenant_ids and disabled can be changed")
		}
	}
	if err := s.api.rules.Validate(adminAccount(next)); err != nil {
		return nil, contractError(err)
	}
	if err := s.tenantsExist(ctx, next.TenantIDs); err != nil {
		return nil, err
	}
	stored, err := s.api.store.UpdateAccount(ctx, access.ActorOf(ctx).Store(), next, given.GetEtag())
	if err != nil {
		return nil, err
	}
	return &adminv1.UpdateAdminAccountResponse{AdminAccount: adminAccount(stored)}, nil
}

// DeleteAdminAccount removes one with its tokens; never the last owner.
func (s accountService) DeleteAdminAccount(ctx context.Context, req *adminv1.DeleteAdminAccountRequest) (*adminv1.DeleteAdminAccountResponse, error) {
	if err := s.api.store.DeleteAccount(ctx, access.ActorOf(ctx).Store(), req.GetId()); err != nil {
		return nil, err
	}
	return &adminv1.DeleteAdminAccountResponse{}, nil
}

// maxTokenLife is the end of every token that has one, in seconds: ten years.
const maxTokenLife = 10 * 365 * 24 * 60 * 60

// CreateAdminToken makes a token of an account; it is shown once.
func (s accountService) CreateAdminToken(ctx context.Context, req *adminv1.CreateAdminTokenRequest) (*adminv1.CreateAdminTokenResponse, error) {
	account, err := s.api.store.GetAccount(ctx, req.GetAccountId())
	if err != nil {
		return nil, err
	}
	if req.GetTtlS() > maxTokenLife {
		return nil, wrong(nil, "ttl_s", "lte", "give at most %d seconds, or 0 for a token without an end", maxTokenLife)
	}
	token := access.NewToken()
	kept := store.AdminToken{ID: ident.New(ident.AdminToken), AccountID: account.ID, Name: req.GetName(), SHA256: access.HashToken(token)}
	if req.GetTtlS() > 0 {
		kept.ExpiresAt = time.Now().Add(time.Duration(req.GetTtlS()) * time.Second)
	}
	if kept, err = s.api.store.CreateToken(ctx, access.ActorOf(ctx).Store(), kept); err != nil {
		return nil, err
	}
	return &adminv1.CreateAdminTokenResponse{AdminToken: adminToken(kept), Token: token.Reveal()}, nil
}

// ListAdminTokens pages through tokens, without their secrets.
func (s accountService) ListAdminTokens(ctx context.Context, req *adminv1.ListAdminTokensRequest) (*adminv1.ListAdminTokensResponse, error) {
	after, err := idCursor(req.GetPageToken())
	if err != nil {
		return nil, err
	}
	size := pageSize(req.GetPageSize())
	found, err := s.api.store.Tokens(ctx, req.GetAccountId(), size+1, after)
	if err != nil {
		return nil, err
	}
	page, next := cutPage(found, size, func(t store.AdminToken) string { return t.ID })
	res := &adminv1.ListAdminTokensResponse{NextPageToken: next}
	for _, t := range page {
		res.AdminTokens = append(res.AdminTokens, adminToken(t))
	}
	return res, nil
}

// DeleteAdminToken ends a token.
func (s accountService) DeleteAdminToken(ctx context.Context, req *adminv1.DeleteAdminTokenRequest) (*adminv1.DeleteAdminTokenResponse, error) {
	if err := s.api.store.DeleteToken(ctx, access.ActorOf(ctx).Store(), req.GetId()); err != nil {
		return nil, err
	}
	return &adminv1.DeleteAdminTokenResponse{}, nil
}

// WhoAmI says who calls.
func (s accountService) WhoAmI(ctx context.Context, _ *adminv1.WhoAmIRequest) (*adminv1.WhoAmIResponse, error) {
	actor := access.ActorOf(ctx)
	if actor.AccountID == access.SystemID {
		return &adminv1.WhoAmIResponse{AdminAccount: &adminv1.AdminAccount{Id: access.SystemID, Name: access.SystemID, Role: actor.Role}}, nil
	}
	account, err := s.api.store.GetAccount(ctx, actor.AccountID)
	if err != nil {
		return nil, err
	}
	return &adminv1.WhoAmIResponse{AdminAccount: adminAccount(account), TokenId: actor.TokenID}, nil
}

// tenantsExist refuses a limit to tenants that are not there: a typing error would
// lock the account out.
func (s accountService) tenantsExist(ctx context.Context, ids []string) error {
	return s.api.store.Read(ctx, func(tx *store.Tx) error {
		for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
			if _, err := store.Get[*configv1.Tenant](ctx, tx, id); err != nil {
				return err
			}
		}
		return nil
	})
}

func adminAccount(a store.AdminAccount) *adminv1.AdminAccount {
	return &adminv1.AdminAccount{
		Id: a.ID, Name: a.Name, Role: a.Role, TenantIds: a.TenantIDs, Disabled: a.Disabled, Etag: a.Etag(), CreateTime: stamp(a.CreatedAt),
	}
}

func adminToken(t store.AdminToken) *adminv1.AdminToken {
	return &adminv1.AdminToken{
		Id: t.ID, AccountId: t.AccountID, Name: t.Name, CreateTime: stamp(t.CreatedAt), ExpireTime: stamp(t.ExpiresAt), LastUsedTime: stamp(t.LastUsedAt),
	}
}
