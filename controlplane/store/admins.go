package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
)

// AdminAccount is somebody who may change or see the configuration. It is no
// configuration: changes make no generation.
type AdminAccount struct {
	ID        string
	Name      string
	Role      adminv1.Role
	TenantIDs []string // empty = every tenant
	Disabled  bool
	// PasswordHash is an argon2id hash; empty = no login by password.
	PasswordHash            string
	OIDCIssuer, OIDCSubject string
	Revision                int64
	CreatedAt, UpdatedAt    time.Time
}

// Etag changes with every write of the account.
func (a AdminAccount) Etag() string { return etagOf(a.Revision) }

const accountColumns = "id, name, role, tenant_ids, disabled, password_hash, oidc_issuer, oidc_subject, revision, created_at, updated_at"

func scanAccount(row pgx.CollectableRow) (a AdminAccount, err error) {
	var role int16
	err = row.Scan(&a.ID, &a.Name, &role, &a.TenantIDs, &a.Disabled, &a.PasswordHash, &a.OIDCIssuer, &a.OIDCSubject, &a.Revision, &a.CreatedAt, &a.UpdatedAt)
	a.Role = adminv1.Role(role)
	return a, err
}

// CreateAccount stores a new account, with an audit event, and returns it as
// stored. It fails with *ExistsError if the name is taken.
func (s *Store) CreateAccount(ctx context.Context, by Actor, a AdminAccount) (AdminAccount, error) {
	err := s.inTx(ctx, "create admin account", func(pg pgx.Tx) error {
		if _, err := pg.Exec(ctx, `INSERT INTO admin_account (`+accountColumns+`)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 1, clock_timestamp(), clock_timestamp())`,
			a.ID, a.Name, int16(a.Role), nonNilStrings(a.TenantIDs), a.Disabled, a.PasswordHash, a.OIDCIssuer, a.OIDCSubject); err != nil {
			return err
		}
		if err := s.audit(ctx, pg, by.event("create", "AdminAccount", a.ID, a.Name)); err != nil {
			return err
		}
		var err error
		a, err = account(ctx, pg, a.ID)
		return err
	})
	return a, err
}

// UpdateAccount replaces an account. etag, if not empty, must be the row's. It
// refuses to leave no enabled owner of all tenants.
func (s *Store) UpdateAccount(ctx context.Context, by Actor, a AdminAccount, etag string) (AdminAccount, error) {
	err := s.inTx(ctx, "change admin account", func(pg pgx.Tx) error {
		if err := lockOwners(ctx, pg); err != nil {
			return err
		}
		old, err := account(ctx, pg, a.ID)
		if err != nil {
			return err
		}
		if etag != "" && etag != old.Etag() {
			return &ETagError{"AdminAccount", a.ID, old.Etag()}
		}
		if _, err := pg.Exec(ctx, `UPDATE admin_account SET name = $2, role = $3, tenant_ids = $4, disabled = $5, password_hash = $6,
			oidc_issuer = $7, oidc_subject = $8, revision = revision + 1, updated_at = clock_timestamp() WHERE id = $1`,
			a.ID, a.Name, int16(a.Role), nonNilStrings(a.TenantIDs), a.Disabled, a.PasswordHash, a.OIDCIssuer, a.OIDCSubject); err != nil {
			return err
		}
		if err := ownerLeft(ctx, pg, a.ID); err != nil {
			return err
		}
		if err := s.audit(ctx, pg, by.event("update", "AdminAccount", a.ID, a.Name)); err != nil {
			return err
		}
		a, err = account(ctx, pg, a.ID)
		return err
	})
	return a, err
}

// DeleteAccount removes an account and its tokens. It refuses to remove the last
// enabled owner of all tenants.
func (s *Store) DeleteAccount(ctx context.Context, by Actor, id string) error {
	return s.inTx(ctx, "delete admin account", func(pg pgx.Tx) error {
		if err := lockOwners(ctx, pg); err != nil {
			return err
		}
		old, err := account(ctx, pg, id)
		if err != nil {
			return err
		}
		if _, err := pg.Exec(ctx, "DELETE FROM admin_account WHERE id = $1", id); err != nil {
			return err
		}
		if err := ownerLeft(ctx, pg, id); err != nil {
			return err
		}
		return s.audit(ctx, pg, by.event("delete", "AdminAccount", id, old.Name))
	})
}

// lockOwners makes removals of owners follow each other: two at once could each
// see the other's owner as the one that stays.
func lockOwners(ctx context.Context, pg pgx.Tx) error {
	_, err := pg.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtext('aidy_admin_owners'))")
	return err
}

func ownerLeft(ctx context.Context, pg pgx.Tx, id string) error {
	var left bool
	err := pg.QueryRow(ctx, "SELECT EXISTS (SELECT FROM admin_account WHERE role = $1 AND NOT disabled AND tenant_ids = '{}')",
		int16(adminv1.Role_ROLE_OWNER)).Scan(&left)
	if err == nil && !left {
		return &InvalidError{Kind: "AdminAccount", ID: id, Field: "role", Reason: errLastOwner.Error()}
	}
	return err
}

func account(ctx context.Context, q queryer, id string) (AdminAccount, error) {
	rows, err := q.Query(ctx, "SELECT "+accountColumns+" FROM admin_account WHERE id = $1", id)
	if err != nil {
		return AdminAccount{}, err
	}
	found, err := pgx.CollectRows(rows, scanAccount)
	if err == nil && len(found) == 0 {
		return AdminAccount{}, &NotFoundError{"AdminAccount", id}
	}
	if err != nil {
		return AdminAccount{}, err
	}
	return found[0], nil
}

// GetAccount returns an account by id. It fails with *NotFoundError.
func (s *Store) GetAccount(ctx context.Context, id string) (AdminAccount, error) {
	a, err := account(ctx, s.pool, id)
	if err != nil {
		return AdminAccount{}, fmt.Errorf("read admin account: %w", s.cat.classify(err, nil))
	}
	return a, nil
}

// FindAccount returns the account of a name, for a login by password. It fails
// with ErrNotFound.
func (s *Store) FindAccount(ctx context.Context, name string) (AdminAccount, error) {
	return s.findAccount(ctx, "name = $1", name)
}

// FindAccountOIDC returns the account of a subject of an OIDC issuer. It fails
// with ErrNotFound.
func (s *Store) FindAccountOIDC(ctx context.Context, issuer, subject string) (AdminAccount, error) {
	return s.findAccount(ctx, "oidc_issuer = $1 AND oidc_subject = $2 AND oidc_subject <> ''", issuer, subject)
}

func (s *Store) findAccount(ctx context.Context, condition string, args ...any) (AdminAccount, error) {
	accounts, err := s.accounts(ctx, "WHERE "+condition, args...)
	if err != nil {
		return AdminAccount{}, err
	}
	if len(accounts) == 0 {
		return AdminAccount{}, &NotFoundError{"AdminAccount", "of that login"}
	}
	return accounts[0], nil
}

// Accounts lists accounts by id, at most limit (MaxPage if 0), after an id.
func (s *Store) Accounts(ctx context.Context, limit int, after string) ([]AdminAccount, error) {
	return s.accounts(ctx, "WHERE id > $1 ORDER BY id LIMIT $2", after, pageLimit(limit))
}

func (s *Store) accounts(ctx context.Context, condition string, args ...any) ([]AdminAccount, error) {
	rows, err := s.pool.Query(ctx, "SELECT "+accountColumns+" FROM admin_account "+condition, args...)
	if err != nil {
		return nil, fmt.Errorf("read admin accounts: %w", s.cat.classify(err, nil))
	}
	accounts, err := pgx.CollectRows(rows, scanAccount)
	if err != nil {
		return nil, fmt.Errorf("read admin accounts: %w", s.cat.classify(err, nil))
	}
	return accounts, nil
}

// AdminToken is a bearer token of an account. Only its SHA-256 is stored.
type AdminToken struct {
	ID, AccountID, Name string
	SHA256              [32]byte
	CreatedAt           time.Time
	ExpiresAt           time.Time // zero = never
	LastUsedAt          time.Time // zero = not yet; exact to a minute
}

const tokenColumns = "t.id, t.account_id, t.name, t.sha256, t.created_at, coalesce(t.expires_at, '0001-01-01Z'), coalesce(t.last_used_at, '0001-01-01Z')"

func scanToken(row pgx.CollectableRow) (t AdminToken, err error) {
	var hash []byte
	err = row.Scan(&t.ID, &t.AccountID, &t.Name, &hash, &t.CreatedAt, &t.ExpiresAt, &t.LastUsedAt)
	copy(t.SHA256[:], hash)
	return t, err
}

// CreateToken stores a token, with an audit event, and returns it as stored.
func (s *Store) CreateToken(ctx context.Context, by Actor, t AdminToken) (AdminToken, error) {
	err := s.inTx(ctx, "create admin token", func(pg pgx.Tx) error {
		if err := pg.QueryRow(ctx, `INSERT INTO admin_token (id, account_id, name, sha256, created_at, expires_at)
			VALUES ($1, $2, $3, $4, clock_timestamp(), $5) RETURNING created_at`, t.ID, t.AccountID, t.Name, t.SHA256[:], orNull(t.ExpiresAt)).Scan(&t.CreatedAt); err != nil {
			return err
		}
		return s.audit(ctx, pg, by.event("create", "AdminToken", t.ID, t.Name))
	})
	return t, err
}

// DeleteToken removes a token, with an audit event. It fails with *NotFoundError.
func (s *Store) DeleteToken(ctx context.Context, by Actor, id string) error {
	return s.inTx(ctx, "delete admin token", func(pg pgx.Tx) error {
		var name string
		err := pg.QueryRow(ctx, "DELETE FROM admin_token WHERE id = $1 RETURNING name", id).Scan(&name)
		if errors.Is(err, pgx.ErrNoRows) {
			return &NotFoundError{"AdminToken", id}
		}
		if err != nil {
			return err
		}
		return s.audit(ctx, pg, by.event("delete", "AdminToken", id, name))
	})
}

// Tokens lists the tokens of an account by id, at most limit (MaxPage if 0),
// after an id.
func (s *Store) Tokens(ctx context.Context, accountID string, limit int, after string) ([]AdminToken, error) {
	rows, err := s.pool.Query(ctx, "SELECT "+tokenColumns+" FROM admin_token t WHERE ($1 = '' OR t.account_id = $1) AND t.id > $2 ORDER BY t.id LIMIT $3",
		accountID, after, pageLimit(limit))
	if err != nil {
		return nil, fmt.Errorf("list admin tokens: %w", s.cat.classify(err, nil))
	}
	tokens, err := pgx.CollectRows(rows, scanToken)
	if err != nil {
		return nil, fmt.Errorf("list admin tokens: %w", s.cat.classify(err, nil))
	}
	return tokens, nil
}

// Authenticate returns the token of a hash and its account, if the token has not
// expired and the account is not disabled; else it fails with ErrNotFound,
// without saying why. It notes the use, at most once a minute.
func (s *Store) Authenticate(ctx context.Context, sha256 [32]byte) (AdminToken, AdminAccount, error) {
	rows, err := s.pool.Query(ctx, "SELECT "+tokenColumns+` FROM admin_token t JOIN admin_account a ON a.id = t.account_id
		WHERE t.sha256 = $1 AND (t.expires_at IS NULL OR t.expires_at > clock_timestamp()) AND NOT a.disabled`, sha256[:])
	if err != nil {
		return AdminToken{}, AdminAccount{}, fmt.Errorf("authenticate: %w", s.cat.classify(err, nil))
	}
	t, err := pgx.CollectExactlyOneRow(rows, scanToken)
	if err != nil {
		return AdminToken{}, AdminAccount{}, fmt.Errorf("authenticate: %w", s.cat.classify(err, nil))
	}
	a, err := account(ctx, s.pool, t.AccountID)
	if err != nil {
		return AdminToken{}, AdminAccount{}, fmt.Errorf("authenticate: %w", s.cat.classify(err, nil))
	}
	if time.Since(t.LastUsedAt) > time.Minute {
		if _, err := s.pool.Exec(ctx, "UPDATE admin_token SET last_used_at = clock_timestamp() WHERE id = $1", t.ID); err != nil {
			s.log.Warn().Err(err).Str("token", t.ID).Msg("use of an admin token not noted")
		}
	}
	return t, a, nil
}

func nonNilStrings(v []string) []string {
	if v == nil {
		return []string{}
	}
	return v
}
