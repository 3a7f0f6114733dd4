package dev

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect/v2"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/resource"
	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/seeds"
	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

// setup is the admin API within the process, called as an owner.
type setup struct {
	config    adminv1connect.ConfigServiceClient
	providers adminv1connect.ProviderServiceClient
	nodes     adminv1connect.NodeServiceClient
	accounts  adminv1connect.AdminServiceClient
	resources *resource.Client
	kinds     []*resource.Kind
}

// configure makes what the first call needs: configuration once, a key and a token if
// the last ones are gone, and what the environment names at each start.
func (d *product) configure(ctx context.Context) error {
	rpc := connect.NewClient(d.plane.AdminTransport())
	kinds, err := resource.Kinds()
	if err != nil {
		return err
	}
	s := &setup{
		config: adminv1connect.NewConfigServiceClient(rpc), providers: adminv1connect.NewProviderServiceClient(rpc),
		nodes: adminv1connect.NewNodeServiceClient(rpc), accounts: adminv1connect.NewAdminServiceClient(rpc),
		resources: resource.NewClient(rpc), kinds: kinds,
	}
	for _, step := range []struct {
		what string
		do   func(context.Context, *setup) error
	}{
		{"make the first configuration", d.seed},
		{"move the built-in provider to its new port", d.moveProvider},
		{"configure the providers of the environment", d.vendors},
		{"make a key", d.apiKey},
		{"make an administrator's token", d.adminToken},
		{"let the node join", d.join},
	} {
		if err := step.do(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

func (d *product) seed(ctx context.Context, s *setup) error {
	if d.home.seeded() {
		return nil
	}
	seed, err := seeds.Load("dev", d.state.BuiltinURL)
	if err != nil {
		return err
	}
	if err := s.apply(ctx, seed.Bundle, "first start of aidy dev"); err != nil {
		return err
	}
	return d.home.markSeeded()
}

func (s *setup) apply(ctx context.Context, b *adminv1.Bundle, why string) error {
	_, err := s.config.ApplyBundle(ctx, &adminv1.ApplyBundleRequest{
		Bundle: b, Change: &adminv1.ChangeContext{Message: why, Confirm: []string{"LARGE_CHANGE"}},
	})
	return err
}

// moveProvider points every capability that was at the last address of the built-in
// provider to its present one.
func (d *product) moveProvider(ctx context.Context, s *setup) error {
	was, is := d.before.BuiltinURL, d.state.BuiltinURL
	if was == "" || was == is {
		return nil
	}
	k, err := resource.Find(s.kinds, "provider")
	if err != nil {
		return err
	}
	for m, err := range s.resources.All(ctx, k, nil) {
		if err != nil {
			return err
		}
		p, moved := m.(*configv1.Provider), false
		for _, c := range p.GetCapabilities() {
			if rest, ok := strings.CutPrefix(c.GetBaseUrl(), was); ok && (rest == "" || rest[0] == '/') {
				c.BaseUrl, moved = is+rest, true
			}
		}
		if !moved {
			continue
		}
		_, err := s.providers.UpdateProvider(ctx, &adminv1.UpdateProviderRequest{
			Provider: p, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"capabilities"}},
			Change: &adminv1.ChangeContext{Message: "the built-in provider has a new port"},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// gatewayKey begins the keys that the gateway itself makes.
const gatewayKey = "sk-aidy-"

// vendors configures the real providers whose keys the environment holds. A provider
// that has that key already is left as it is, and one that people configured
// themselves stays theirs: neither keeps the rest from starting. A key of a gateway
// stands in such a variable where a shell is set up for SDKs that call it, and is
// never shown to a vendor.
func (d *product) vendors(ctx context.Context, s *setup) error {
	if d.options.Getenv == nil {
		return nil
	}
	tenant, err := s.find(ctx, "tenant", resource.Scope{}, seeds.DevTenant)
	if tenant == "" || err != nil {
		return err
	}
	for _, v := range seeds.Vendors() {
		key := d.options.Getenv(v.Env)
		if key == "" {
			continue
		}
		if strings.HasPrefix(key, gatewayKey) {
			fmt.Fprintf(d.stderr, "%s holds a key of a gateway, not of %s: it is not used\n", v.Env, v.Name)
			continue
		}
		known, err := s.hasSecret(ctx, tenant, v.Name, key)
		if err != nil {
			return err
		}
		if known {
			continue
		}
		b, err := v.Real(key)
		if err != nil {
			return err
		}
		if err := s.apply(ctx, b, v.Env+" is set"); clashes(err) {
			fmt.Fprintf(d.stderr, "%s is not used, because it does not go with what is configured: %v\n", v.Env, err)
			continue
		} else if err != nil {
			return fmt.Errorf("%s: %w", v.Env, err)
		}
		fmt.Fprintf(d.stderr, "%s is set: models of %s are served by the vendor\n", v.Env, v.Name)
	}
	return nil
}

// clashes reports whether a change was refused for what is configured already.
func clashes(err error) bool {
	rpc, ok := errors.AsType[*connect.Error](err)
	return ok && slices.Contains([]connect.Code{connect.CodeInvalidArgument, connect.CodeAlreadyExists, connect.CodeFailedPrecondition}, rpc.Code())
}

// hasSecret reports whether a credential of an upstream has a secret.
func (s *setup) hasSecret(ctx context.Context, tenant, upstream, key string) (bool, error) {
	id, err := s.find(ctx, "upstream", resource.Scope{TenantID: tenant}, upstream)
	if id == "" || err != nil {
		return false, err
	}
	k, err := resource.Find(s.kinds, "credential")
	if err != nil {
		return false, err
	}
	for m, err := range s.resources.All(ctx, k, &adminv1.ListFilter{TenantId: tenant, ParentId: id}) {
		if err != nil {
			return false, err
		}
		if m.(*configv1.UpstreamCredential).GetSecretFingerprint() == secret.New(key).Fingerprint() {
			return true, nil
		}
	}
	return false, nil
}

// find returns the id of something by its name, empty if it is gone.
func (s *setup) find(ctx context.Context, kind string, scope resource.Scope, name string) (string, error) {
	k, err := resource.Find(s.kinds, kind)
	if err != nil {
		return "", err
	}
	m, err := s.resources.Find(ctx, k, scope, name)
	if _, none := errors.AsType[*resource.NotFoundError](err); none {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return resource.ID(m), nil
}

// apiKey keeps the key of the last run if it still works, and makes one otherwise.
// Without the consumer there is none: somebody deleted it.
func (d *product) apiKey(ctx context.Context, s *setup) error {
	tenant, err := s.find(ctx, "tenant", resource.Scope{}, seeds.DevTenant)
	if err != nil {
		return err
	}
	consumer := ""
	if tenant != "" {
		if consumer, err = s.find(ctx, "consumer", resource.Scope{TenantID: tenant}, seeds.DevConsumer); err != nil {
			return err
		}
	}
	if consumer == "" {
		fmt.Fprintf(d.stderr, "the consumer %s of tenant %s is gone, so no key is made; `aidy dev --reset` starts over\n", seeds.DevConsumer, seeds.DevTenant)
		return nil
	}
	k, err := resource.Find(s.kinds, "key")
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(d.before.APIKey))
	last, taken := hex.EncodeToString(sum[:]), map[string]bool{}
	for m, err := range s.resources.All(ctx, k, &adminv1.ListFilter{TenantId: tenant, ParentId: consumer}) {
		if err != nil {
			return err
		}
		key := m.(*configv1.ConsumerAPIKey)
		taken[key.GetName()] = true
		if key.GetSha256() == last && resource.State(key, time.Now()) == "active" {
			d.state.APIKey = d.before.APIKey
			return nil
		}
	}
	name := seeds.DevKey
	for n := 2; taken[name]; n++ {
		name = fmt.Sprintf("%s-%d", seeds.DevKey, n)
	}
	made, err := s.resources.Create(ctx, k, &configv1.ConsumerAPIKey{TenantId: tenant, ConsumerId: consumer, Name: name},
		&adminv1.ChangeContext{Message: "key of aidy dev"})
	if err != nil {
		return err
	}
	d.state.APIKey = made.Secret
	return nil
}

// adminToken takes the owner's token from its file, and makes another if that is gone
// or no longer accepted.
func (d *product) adminToken(ctx context.Context, s *setup) error {
	raw, err := os.ReadFile(d.home.ownerToken())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	token := strings.TrimSpace(string(raw))
	if token != "" {
		ok, err := accepted(ctx, d.state.AdminURL, token)
		if err != nil {
			return err
		}
		if ok {
			d.state.AdminToken = token
			return nil
		}
	}
	owner, err := s.owner(ctx)
	if err != nil {
		return err
	}
	res, err := s.accounts.CreateAdminToken(ctx, &adminv1.CreateAdminTokenRequest{AccountId: owner, Name: "dev"})
	if err != nil {
		return err
	}
	d.state.AdminToken = res.GetToken()
	return os.WriteFile(d.home.ownerToken(), []byte(res.GetToken()+"\n"), 0o600)
}

// owner is the id of an account that may do everything; one is made if there is none.
func (s *setup) owner(ctx context.Context) (string, error) {
	for token := ""; ; {
		res, err := s.accounts.ListAdminAccounts(ctx, &adminv1.ListAdminAccountsRequest{PageSize: resource.PageSize, PageToken: token})
		if err != nil {
			return "", err
		}
		for _, a := range res.GetAdminAccounts() {
			if a.GetRole() == adminv1.Role_ROLE_OWNER && !a.GetDisabled() && len(a.GetTenantIds()) == 0 {
				return a.GetId(), nil
			}
		}
		if token = res.GetNextPageToken(); token == "" {
			break
		}
	}
	res, err := s.accounts.CreateAdminAccount(ctx, &adminv1.CreateAdminAccountRequest{
		AdminAccount: &adminv1.AdminAccount{Name: "dev", Role: adminv1.Role_ROLE_OWNER},
	})
	if err != nil {
		return "", err
	}
	return res.GetAdminAccount().GetId(), nil
}

// identityLife is how long after it was written a node's certificate is relied on; it
// holds for 24 hours and is written anew before.
const identityLife = 20 * time.Hour

// join makes a token with which the node joins, if it has no certificate that lasts.
func (d *product) join(ctx context.Context, s *setup) error {
	identity, err := os.Stat(filepath.Join(d.home.nodeConfig(), "node-identity.pem"))
	if err == nil && time.Since(identity.ModTime()) < identityLife {
		return nil
	}
	res, err := s.nodes.CreateJoinToken(ctx, &adminv1.CreateJoinTokenRequest{Name: "dev", TtlS: 600})
	if err != nil {
		return err
	}
	d.joinToken = res.GetToken()
	return nil
}
