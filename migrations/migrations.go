// Package migrations brings a database to the schema this program was built
// for. Migrations are numbered SQL files, embedded, and only go forward: a
// change that turns out wrong is mended by the next one.
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed sql/*.sql
var files embed.FS

// ErrMismatch says that the database's schema is not the one this program was
// built for. Errors of Check that match it say how to mend it.
var ErrMismatch = errors.New("database schema mismatch")

// Step is one migration.
type Step struct {
	Version int64
	Name    string
	// Applied is when it was applied; zero if it was not.
	Applied time.Time
	// Took is how long it took, for steps that Up reports.
	Took time.Duration
}

// Up applies what is missing, each migration in a transaction of its own, and
// calls progress (which may be nil) after each. Any number of processes may call
// it at once: one works, the others wait and find nothing to do. It refuses a
// database that a newer program has migrated.
func Up(ctx context.Context, databaseURL string, progress func(Step)) error {
	return with(ctx, databaseURL, func(p *goose.Provider, _ *sql.DB) error {
		version, err := p.GetDBVersion(ctx)
		if err != nil {
			return fmt.Errorf("read the schema version: %w", err)
		}
		if err := newer(version); err != nil {
			return err
		}
		for {
			result, err := p.UpByOne(ctx)
			if errors.Is(err, goose.ErrNoNextVersion) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("migrate the database: %w", err)
			}
			if progress != nil {
				progress(Step{Version: result.Source.Version, Name: result.Source.Path, Applied: time.Now(), Took: result.Duration})
			}
		}
	})
}

// Status lists every migration this program knows, in order.
func Status(ctx context.Context, databaseURL string) ([]Step, error) {
	var steps []Step
	err := with(ctx, databaseURL, func(p *goose.Provider, _ *sql.DB) error {
		found, err := p.Status(ctx)
		if err != nil {
			return fmt.Errorf("read migration status: %w", err)
		}
		for _, s := range found {
			steps = append(steps, Step{Version: s.Source.Version, Name: s.Source.Path, Applied: s.AppliedAt})
		}
		return nil
	})
	return steps, err
}

// Queryer is what Check needs of a connection or pool.
type Queryer interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Check returns nil if the database has exactly the schema this program was
// built for, and otherwise an error, matching ErrMismatch, that says which side
// is older and what to do.
func Check(ctx context.Context, db Queryer) error {
	want, err := latest()
	if err != nil {
		return err
	}
	var have int64
	err = db.QueryRow(ctx, "SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied").Scan(&have)
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "42P01" { // undefined_table
		have, err = 0, nil
	}
	if err != nil {
		return fmt.Errorf("read the schema version: %w", err)
	}
	switch {
	case have == 0:
		return fmt.Errorf("%w: the database is empty, this program needs schema version %d; run `aidy migrate up`", ErrMismatch, want)
	case have < want:
		return fmt.Errorf("%w: the database has schema version %d, this program needs %d; run `aidy migrate up`", ErrMismatch, have, want)
	}
	return newer(have)
}

func newer(have int64) error {
	want, err := latest()
	if err != nil {
		return err
	}
	if have > want {
		return fmt.Errorf("%w: the database has schema version %d, this program knows only %d; a newer program migrated it, so run that version "+
			"(migrations do not go back; `aidy migrate up` of the newer version made this one)", ErrMismatch, have, want)
	}
	return nil
}

// latest is the number of the newest embedded migration.
func latest() (int64, error) {
	names, err := fs.Glob(files, "sql/*.sql")
	if err != nil {
		return 0, err
	}
	var newest int64
	for _, name := range names {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return 0, fmt.Errorf("migration %s: %w", name, err)
		}
		newest = max(newest, version)
	}
	return newest, nil
}

func with(ctx context.Context, databaseURL string, fn func(*goose.Provider, *sql.DB) error) error {
	config, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		// The text of a parse error can carry the URL, which can carry a password.
		return errors.New("the database URL is malformed; expected postgres://user:password@host:port/database")
	}
	db := stdlib.OpenDB(*config)
	defer db.Close()
	if err := db.PingContext(ctx); err != nil {
		return fmt.Errorf("connect to the database: %w", err)
	}
	sqlFiles, err := fs.Sub(files, "sql")
	if err != nil {
		return err
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 300)) // asks once a second, 5 min
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, sqlFiles,
		goose.WithSessionLocker(locker), goose.WithLogger(goose.NopLogger()), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	return fn(provider, db)
}
