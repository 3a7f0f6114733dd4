package access

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rs/zerolog"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"

	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

// OwnerName is the account that the first start makes.
const OwnerName = "owner"

// Accounts is the part of the store that a bootstrap writes.
type Accounts interface {
	Tokens(ctx context.Context, accountID string, limit int, after string) ([]store.AdminToken, error)
	FindAccount(ctx context.Context, name string) (store.AdminAccount, error)
	CreateAccount(ctx context.Context, by store.Actor, a store.AdminAccount) (store.AdminAccount, error)
	CreateToken(ctx context.Context, by store.Actor, t store.AdminToken) (store.AdminToken, error)
}

// BootstrapConfig says where the first owner's token comes from.
type BootstrapConfig struct {
	// Token is the token itself, at least MinToken bytes. Empty: one is made.
	Token secret.Text
	// File is where a token that is made is written, readable by its owner alone.
	// Needed if Token is empty.
	File string
}

// Bootstrap makes the first owner and its token, if there is no admin token at
// all. It returns where a token that it made was written, empty if none was. A
// token is never logged. Several processes may bootstrap one database at once:
// all make tokens of one account.
func Bootstrap(ctx context.Context, accounts Accounts, cfg BootstrapConfig, log zerolog.Logger) (string, error) {
	tokens, err := accounts.Tokens(ctx, "", 1, "")
	if err != nil {
		return "", fmt.Errorf("look for admin tokens: %w", err)
	}
	if len(tokens) > 0 {
		return "", nil
	}
	token, file := cfg.Token, ""
	switch {
	case !token.IsZero():
		if n := len(token.Reveal()); n < MinToken || n > maxToken {
			return "", fmt.Errorf("the bootstrap token has %d bytes, expected %d to %d: take 32 random bytes in base64, or leave it out to have one made", n, MinToken, maxToken)
		}
	case cfg.File == "":
		return "", errors.New("there is no administrator yet: set a bootstrap token, or a file to which one is written")
	default:
		// The file comes first: a token that exists but nobody knows would lock
		// everybody out. What an earlier, interrupted start wrote is taken up.
		if token, err = writeToken(cfg.File); err != nil {
			return "", err
		}
		file = cfg.File
	}

	system := System().Store()
	owner, err := accounts.CreateAccount(ctx, system, store.AdminAccount{ID: ident.New(ident.AdminAccount), Name: OwnerName, Role: adminv1.Role_ROLE_OWNER})
	if errors.Is(err, store.ErrAlreadyExists) {
		owner, err = accounts.FindAccount(ctx, OwnerName)
	}
	if err != nil {
		return "", fmt.Errorf("make the first owner: %w", err)
	}
	_, err = accounts.CreateToken(ctx, system, store.AdminToken{
		ID: ident.New(ident.AdminToken), AccountID: owner.ID, Name: "bootstrap", SHA256: HashToken(token),
	})
	if err != nil && !errors.Is(err, store.ErrAlreadyExists) {
		return "", fmt.Errorf("make the token of the first owner: %w", err)
	}
	event := log.Warn().Str("account", OwnerName)
	if file != "" {
		event = event.Str("token_file", file)
	}
	event.Msg("first owner made; make accounts of your own and delete the bootstrap token")
	return file, nil
}

// writeToken makes a token and writes it, or reads the one that is there.
func writeToken(path string) (secret.Text, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return secret.Text{}, fmt.Errorf("make the folder of the token file: %w", err)
	}
	token := NewToken()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return readToken(path)
	}
	if err != nil {
		return secret.Text{}, fmt.Errorf("write the token file: %w", err)
	}
	_, werr := f.WriteString(token.Reveal() + "\n")
	if err := errors.Join(werr, f.Sync(), f.Close()); err != nil {
		return secret.Text{}, fmt.Errorf("write the token file: %w", err)
	}
	return token, nil
}

func readToken(path string) (secret.Text, error) {
	info, err := os.Stat(path)
	if err != nil {
		return secret.Text{}, fmt.Errorf("read the token file: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 || info.Size() > maxToken {
		return secret.Text{}, fmt.Errorf("token file %s has mode %o and %d bytes: expected a token that its owner alone can read; remove the file to have a new one made", path, info.Mode().Perm(), info.Size())
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return secret.Text{}, fmt.Errorf("read the token file: %w", err)
	}
	text := strings.TrimSpace(string(raw))
	if len(text) < MinToken {
		return secret.Text{}, fmt.Errorf("token file %s holds no whole token; remove it to have a new one made", path)
	}
	return secret.New(text), nil
}
