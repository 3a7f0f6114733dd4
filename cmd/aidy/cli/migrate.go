package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/aidy-gateway/aidy-gateway/migrations"
)

type migrateCommand struct {
	DatabaseURL string `help:"PostgreSQL connection string of a role that owns the schema." env:"AIDY_DATABASE_URL" placeholder:"URL"`

	Up     migrateUp     `cmd:"" help:"Apply what is missing. Any number may run at once: one works, the others wait."`
	Status migrateStatus `cmd:"" help:"List migrations and when they were applied."`
}

func (migrateCommand) Help() string {
	return `Examples:

    aidy migrate status --database-url postgres://aidy@db/aidy
    aidy migrate up --database-url postgres://aidy@db/aidy`
}

// url is the database, or what to do about its absence.
func (c *migrateCommand) url() (string, error) {
	if c.DatabaseURL == "" {
		return "", usage("no database is named: set --database-url or AIDY_DATABASE_URL, such as postgres://aidy@db/aidy")
	}
	return c.DatabaseURL, nil
}

type migrateUp struct{}

func (migrateUp) Help() string {
	return `Migrations only go forward. Both services refuse to start on a database of another release.

Examples:

    aidy migrate up --database-url postgres://aidy@db/aidy
    AIDY_DATABASE_URL=postgres://aidy@db/aidy aidy migrate up -o json`
}

func (migrateUp) Run(ctx context.Context, a *app, parent *migrateCommand) error {
	url, err := parent.url()
	if err != nil {
		return err
	}
	var done []migrations.Step
	err = migrations.Up(ctx, url, func(s migrations.Step) {
		done = append(done, s)
		a.progress("applied %d %s in %s", s.Version, s.Name, s.Took.Round(time.Millisecond))
	})
	if err != nil {
		return err
	}
	if a.globals.Output != "table" {
		return a.plain(map[string]any{"applied": stepRows(done)})
	}
	if len(done) == 0 {
		_, err = fmt.Fprintln(a.Stdout, "the database has the schema of this release")
		return err
	}
	_, err = fmt.Fprintf(a.Stdout, "%d migrations applied\n", len(done))
	return err
}

type migrateStatus struct{}

func (migrateStatus) Help() string {
	return `Examples:

    aidy migrate status --database-url postgres://aidy@db/aidy`
}

func (migrateStatus) Run(ctx context.Context, a *app, parent *migrateCommand) error {
	url, err := parent.url()
	if err != nil {
		return err
	}
	steps, err := migrations.Status(ctx, url)
	if err != nil {
		return err
	}
	if a.globals.Output != "table" {
		return a.plain(stepRows(steps))
	}
	var rows [][]string
	for _, s := range steps {
		applied := "pending"
		if !s.Applied.IsZero() {
			applied = s.Applied.UTC().Format(time.RFC3339)
		}
		rows = append(rows, []string{fmt.Sprint(s.Version), s.Name, applied})
	}
	return a.table([]string{"VERSION", "NAME", "APPLIED"}, rows)
}

// stepRow is a migration as programs read it.
type stepRow struct {
	Version int64  `json:"version" yaml:"version"`
	Name    string `json:"name" yaml:"name"`
	Applied string `json:"applied,omitempty" yaml:"applied,omitempty"`
}

func stepRows(steps []migrations.Step) []stepRow {
	rows := make([]stepRow, 0, len(steps))
	for _, s := range steps {
		r := stepRow{Version: s.Version, Name: s.Name}
		if !s.Applied.IsZero() {
			r.Applied = s.Applied.UTC().Format(time.RFC3339)
		}
		rows = append(rows, r)
	}
	return rows
}
