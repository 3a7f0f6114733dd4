package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connectinprocess"
	"connectrpc.com/connect/v2/connectproto"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"

	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// methods walks every method of every service of the admin API.
func methods(t *testing.T) []protoreflect.MethodDescriptor {
	t.Helper()
	var out []protoreflect.MethodDescriptor
	protoregistry.GlobalFiles.RangeFilesByPackage("aidy.admin.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			ms := f.Services().Get(i).Methods()
			for j := range ms.Len() {
				out = append(out, ms.Get(j))
			}
		}
		return true
	})
	if len(out) < 100 {
		t.Fatalf("found %d methods, the walk is broken", len(out))
	}
	return out
}

func procedureOf(m protoreflect.MethodDescriptor) string {
	return "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
}

func TestEveryMethodNeedsAPermission(t *testing.T) {
	t.Parallel()
	table := NewTable()
	known := map[string]bool{}
	for _, m := range methods(t) {
		known[string(m.Parent().Name())+"/"+string(m.Name())] = true
		if need, ok := table.NeedOf(procedureOf(m)); !ok || need.Permission == "" {
			t.Errorf("%s is not in the table of permissions", procedureOf(m))
		}
	}
	for name := range table {
		if !known[name] {
			t.Errorf("the table has %s, which is no method", name)
		}
	}
}

func TestOnlyReadsAreOpenToAViewerAndNothingToANode(t *testing.T) {
	t.Parallel()
	table := NewTable()
	for _, m := range methods(t) {
		need, _ := table.NeedOf(procedureOf(m))
		name := string(m.Name())
		reads := false
		for _, verb := range []string{"Get", "List", "Watch", "Export", "Explain", "Replay", "Diff", "WhoAmI", "Tail", "Query"} {
			reads = reads || strings.HasPrefix(name, verb)
		}
		viewer := Actor{Role: adminv1.Role_ROLE_VIEWER}
		if got := viewer.Can(need.Permission); got && !reads {
			t.Errorf("a viewer may call %s", name)
		}
		if (Actor{Role: adminv1.Role_ROLE_NODE}).Can(need.Permission) || (Actor{}).Can(need.Permission) {
			t.Errorf("a node, or nobody, may call %s", name)
		}
		if !(Actor{Role: adminv1.Role_ROLE_OWNER}).Can(need.Permission) {
			t.Errorf("an owner may not call %s", name)
		}
	}
}

func TestRolesDoWhatTheyAreFor(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		role adminv1.Role
		p    Permission
		want bool
	}{
		{adminv1.Role_ROLE_EDITOR, WriteConfig, true},
		{adminv1.Role_ROLE_EDITOR, ApprovePrices, false},
		{adminv1.Role_ROLE_EDITOR, AllowPrivate, false},
		{adminv1.Role_ROLE_EDITOR, ManageAccess, false},
		{adminv1.Role_ROLE_EDITOR, ManageNodes, false},
		{adminv1.Role_ROLE_FINANCE, WriteConfig, false},
		{adminv1.Role_ROLE_FINANCE, WritePrices, true},
		{adminv1.Role_ROLE_FINANCE, ApprovePrices, true},
		{adminv1.Role_ROLE_FINANCE, ClosePeriods, true},
		{adminv1.Role_ROLE_FINANCE, ReadLedger, true},
		{adminv1.Role_ROLE_VIEWER, ReadConfig, true},
		{adminv1.Role_ROLE_VIEWER, WritePrices, false},
	} {
		if got := (Actor{Role: tc.role}).Can(tc.p); got != tc.want {
			t.Errorf("%v can %s: %v, want %v", tc.role, tc.p, got, tc.want)
		}
	}
}

func TestALimitedRoleReachesItsTenantsAlone(t *testing.T) {
	t.Parallel()
	a := Actor{Role: adminv1.Role_ROLE_OWNER, Tenants: []string{"ten_a"}}
	if !a.CanTenant("ten_a") || a.CanTenant("ten_b") || a.CanTenant("") || a.AllTenants() {
		t.Errorf("limited actor: ten_a %v, ten_b %v, none %v", a.CanTenant("ten_a"), a.CanTenant("ten_b"), a.CanTenant(""))
	}
	all := Actor{Role: adminv1.Role_ROLE_EDITOR}
	if !all.CanTenant("ten_b") || !all.CanTenant("") {
		t.Error("an unlimited actor is kept from a tenant")
	}
}

// directory is tokens in memory.
type directory struct {
	mu     sync.Mutex
	tokens map[[32]byte]store.AdminAccount
	fail   error
	asked  int
}

func (d *directory) Authenticate(_ context.Context, sum [32]byte) (store.AdminToken, store.AdminAccount, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	if d.fail != nil {
		return store.AdminToken{}, store.AdminAccount{}, d.fail
	}
	account, ok := d.tokens[sum]
	if !ok {
		return store.AdminToken{}, store.AdminAccount{}, fmt.Errorf("authenticate: %w", store.ErrNotFound)
	}
	return store.AdminToken{ID: "adt_1", SHA256: sum}, account, nil
}

type whoAmI struct {
	adminv1connect.UnimplementedAdminServiceHandler
}

func (whoAmI) WhoAmI(ctx context.Context, _ *adminv1.WhoAmIRequest) (*adminv1.WhoAmIResponse, error) {
	a := ActorOf(ctx)
	return &adminv1.WhoAmIResponse{AdminAccount: &adminv1.AdminAccount{Id: a.AccountID, TenantIds: a.Tenants}, TokenId: a.TokenID}, nil
}

func client(t *testing.T, d *directory, cfg Config, token string) adminv1connect.AdminServiceClient {
	t.Helper()
	gate, err := NewGate(d, cfg, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	server := connect.NewServer(gate.Interceptor())
	adminv1connect.RegisterAdminServiceHandler(server, whoAmI{})
	return adminv1connect.NewAdminServiceClient(connect.NewClient(connectinprocess.New(server), func(next connect.ClientFunc) connect.ClientFunc {
		return func(ctx context.Context, spec connect.Spec) (connect.ClientStream, error) {
			if info, ok := connect.CallInfoForClientContext(ctx); ok && token != "" {
				info.RequestHeader().Set("Authorization", token)
			}
			return next(ctx, spec)
		}
	}))
}

func infoOf(t *testing.T, err error) *adminv1.ErrorInfo {
	t.Helper()
	var ce *connect.Error
	if !errors.As(err, &ce) || len(ce.Details()) != 1 {
		t.Fatalf("error %v has no detail", err)
	}
	m, err := connectproto.UnmarshalErrorDetail(ce.Details()[0])
	if err != nil {
		t.Fatal(err)
	}
	info, ok := m.(*adminv1.ErrorInfo)
	if !ok {
		t.Fatalf("detail is a %T", m)
	}
	return info
}

func TestATokenSaysWhoCalls(t *testing.T) {
	t.Parallel()
	token := NewToken()
	d := &directory{tokens: map[[32]byte]store.AdminAccount{
		HashToken(token): {ID: "adm_1", Role: adminv1.Role_ROLE_VIEWER, TenantIDs: []string{"ten_a"}},
	}}
	for _, tc := range []struct {
		name, header string
		want         connect.Code
	}{
		{"valid", "Bearer " + token.Reveal(), 0},
		{"scheme in lower case", "bearer " + token.Reveal(), 0},
		{"none", "", connect.CodeUnauthenticated},
		{"unknown", "Bearer " + NewToken().Reveal(), connect.CodeUnauthenticated},
		{"another scheme", "Basic " + token.Reveal(), connect.CodeUnauthenticated},
		{"no scheme", token.Reveal(), connect.CodeUnauthenticated},
		{"empty token", "Bearer ", connect.CodeUnauthenticated},
		{"huge", "Bearer " + strings.Repeat("x", 1<<20), connect.CodeUnauthenticated},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			res, err := client(t, d, Config{}, tc.header).WhoAmI(t.Context(), &adminv1.WhoAmIRequest{})
			if got := connect.CodeOf(err); err != nil && got != tc.want || err == nil && tc.want != 0 {
				t.Fatalf("answered %v, want code %v", err, tc.want)
			}
			if err == nil && (res.GetAdminAccount().GetId() != "adm_1" || res.GetTokenId() != "adt_1") {
				t.Errorf("called as %v", res)
			}
			if err != nil && strings.Contains(err.Error(), token.Reveal()) {
				t.Error("the error holds the token")
			}
		})
	}
}

func TestARefusalNamesTheMissingPermission(t *testing.T) {
	t.Parallel()
	token := NewToken()
	for _, tc := range []struct {
		name    string
		account store.AdminAccount
		want    Permission
	}{
		{"a viewer", store.AdminAccount{ID: "adm_1", Role: adminv1.Role_ROLE_VIEWER}, ManageAccess},
		{"a limited owner", store.AdminAccount{ID: "adm_1", Role: adminv1.Role_ROLE_OWNER, TenantIDs: []string{"ten_a"}}, ManageAccess},
		{"a node", store.AdminAccount{ID: "adm_1", Role: adminv1.Role_ROLE_NODE}, ManageAccess},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := &directory{tokens: map[[32]byte]store.AdminAccount{HashToken(token): tc.account}}
			_, err := client(t, d, Config{}, "Bearer "+token.Reveal()).ListAdminAccounts(t.Context(), &adminv1.ListAdminAccountsRequest{})
			if connect.CodeOf(err) != connect.CodePermissionDenied {
				t.Fatalf("answered %v, want permission_denied", err)
			}
			if info := infoOf(t, err); info.GetReason() != "PERMISSION" || info.GetPermission() != string(tc.want) {
				t.Errorf("detail is %v, want permission %s", info, tc.want)
			}
		})
	}
}

func TestADatabaseThatIsDownIsNotABadToken(t *testing.T) {
	t.Parallel()
	d := &directory{fail: fmt.Errorf("read: %w", store.ErrStoreDown)}
	_, err := client(t, d, Config{}, "Bearer "+NewToken().Reveal()).WhoAmI(t.Context(), &adminv1.WhoAmIRequest{})
	if connect.CodeOf(err) != connect.CodeUnavailable || infoOf(t, err).GetRetryAfterMs() == 0 {
		t.Errorf("answered %v, want unavailable with a time to wait", err)
	}
}

func TestFailuresOfOneAddressAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		good := NewToken()
		d := &directory{tokens: map[[32]byte]store.AdminAccount{HashToken(good): {ID: "adm_1", Role: adminv1.Role_ROLE_OWNER}}}
		gate, err := NewGate(d, Config{FailureBurst: 3, FailureInterval: time.Second}, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		call := func(token secret.Text) connect.Code {
			server := connect.NewServer(gate.Interceptor())
			adminv1connect.RegisterAdminServiceHandler(server, whoAmI{})
			c := adminv1connect.NewAdminServiceClient(connect.NewClient(connectinprocess.New(server), func(next connect.ClientFunc) connect.ClientFunc {
				return func(ctx context.Context, spec connect.Spec) (connect.ClientStream, error) {
					info, _ := connect.CallInfoForClientContext(ctx)
					info.RequestHeader().Set("Authorization", "Bearer "+token.Reveal())
					return next(ctx, spec)
				}
			}))
			if _, err := c.WhoAmI(t.Context(), &adminv1.WhoAmIRequest{}); err != nil {
				return connect.CodeOf(err)
			}
			return 0
		}
		if got := call(good); got != 0 {
			t.Fatalf("a valid token: %v", got)
		}
		for range 3 {
			if got := call(NewToken()); got != connect.CodeUnauthenticated {
				t.Fatalf("a bad token: %v", got)
			}
		}
		asked := d.asked
		if got := call(NewToken()); got != connect.CodeResourceExhausted {
			t.Errorf("the fourth bad token: %v, want resource_exhausted", got)
		}
		if d.asked != asked {
			t.Error("the refused token was looked up all the same")
		}
		if got := call(good); got != 0 {
			t.Errorf("a token that was good a moment ago: %v, want it to pass", got)
		}
		time.Sleep(time.Second)
		if got := call(NewToken()); got != connect.CodeUnauthenticated {
			t.Errorf("after a second: %v, want it to be looked at", got)
		}
	})
}

func TestTheMemoryOfFailuresIsBounded(t *testing.T) {
	t.Parallel()
	l := newLimiter(5, time.Second, 100)
	now := time.Now()
	for i := range 10_000 {
		l.failed(fmt.Sprint(i), now)
		l.succeeded(sha256.Sum256([]byte(fmt.Sprint(i))), now)
	}
	if len(l.peers) > 100 || len(l.good) > 100 {
		t.Errorf("remembers %d peers and %d tokens, want at most 100", len(l.peers), len(l.good))
	}
}

// accounts is the store of a bootstrap.
type accounts struct {
	mu       sync.Mutex
	accounts map[string]store.AdminAccount
	tokens   map[[32]byte]store.AdminToken
}

func newAccounts() *accounts {
	return &accounts{accounts: map[string]store.AdminAccount{}, tokens: map[[32]byte]store.AdminToken{}}
}

func (a *accounts) Tokens(context.Context, string, int, string) ([]store.AdminToken, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []store.AdminToken
	for _, t := range a.tokens {
		out = append(out, t)
	}
	return out, nil
}

func (a *accounts) FindAccount(_ context.Context, name string) (store.AdminAccount, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.accounts[name], nil
}

func (a *accounts) CreateAccount(_ context.Context, _ store.Actor, n store.AdminAccount) (store.AdminAccount, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.accounts[n.Name]; ok {
		return store.AdminAccount{}, &store.ExistsError{Kind: "AdminAccount", Fields: []string{"name"}}
	}
	a.accounts[n.Name] = n
	return n, nil
}

func (a *accounts) CreateToken(_ context.Context, _ store.Actor, n store.AdminToken) (store.AdminToken, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.tokens[n.SHA256]; ok {
		return store.AdminToken{}, &store.ExistsError{Kind: "AdminToken", Fields: []string{"sha256"}}
	}
	a.tokens[n.SHA256] = n
	return n, nil
}

func TestTheFirstOwnersTokenIsWrittenForItsOwnerAlone(t *testing.T) {
	t.Parallel()
	a, file := newAccounts(), filepath.Join(t.TempDir(), "sub", "token")
	var log strings.Builder
	wrote, err := Bootstrap(t.Context(), a, BootstrapConfig{File: file}, zerolog.New(&log))
	if err != nil || wrote != file {
		t.Fatalf("wrote %q, %v", wrote, err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v; want 0600", info.Mode(), err)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	token := strings.TrimSpace(string(raw))
	if _, ok := a.tokens[HashToken(secret.New(token))]; !ok {
		t.Error("the token in the file is not the one in the store")
	}
	if strings.Contains(log.String(), token) {
		t.Error("the token is in the log")
	}
	if wrote, err := Bootstrap(t.Context(), a, BootstrapConfig{}, zerolog.Nop()); err != nil || wrote != "" || len(a.tokens) != 1 {
		t.Errorf("a second start: %q, %v, %d tokens; want nothing done", wrote, err, len(a.tokens))
	}
}

func TestAnInterruptedBootstrapGoesOnWithTheTokenThatWasWritten(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	token, err := writeToken(file)
	if err != nil {
		t.Fatal(err)
	}
	a := newAccounts()
	a.accounts[OwnerName] = store.AdminAccount{ID: "adm_1", Name: OwnerName, Role: adminv1.Role_ROLE_OWNER}
	if _, err := Bootstrap(t.Context(), a, BootstrapConfig{File: file}, zerolog.Nop()); err != nil {
		t.Fatal(err)
	}
	if kept, ok := a.tokens[HashToken(token)]; !ok || kept.AccountID != "adm_1" {
		t.Errorf("token %v, want the written one on the account that is there", kept)
	}
}

func TestABootstrapTokenMustBeHardToGuess(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"short", strings.Repeat("x", maxToken+1)} {
		a := newAccounts()
		_, err := Bootstrap(t.Context(), a, BootstrapConfig{Token: secret.New(token)}, zerolog.Nop())
		if err == nil || len(a.tokens) != 0 {
			t.Errorf("a token of %d bytes was taken", len(token))
		} else if strings.Contains(err.Error(), token) {
			t.Error("the error holds the token")
		}
	}
	if _, err := Bootstrap(t.Context(), newAccounts(), BootstrapConfig{}, zerolog.Nop()); err == nil {
		t.Error("without a token and a file an owner was made that nobody can be")
	}
	bad := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(bad, []byte(NewToken().Reveal()), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Bootstrap(t.Context(), newAccounts(), BootstrapConfig{File: bad}, zerolog.Nop()); err == nil {
		t.Error("a token file that all can read was taken")
	}
}
