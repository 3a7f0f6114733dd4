package localpg

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// NotInstalledError says that no PostgreSQL server binaries of a usable version
// were found, and what to do about it.
type NotInstalledError struct {
	// Want is the only major version that fits the existing data; 0 if any
	// version from MinVersion on does.
	Want int
	// Found are the major versions that are installed but do not fit.
	Found []int
}

func (e *NotInstalledError) Error() string {
	want := fmt.Sprintf("%d or newer", MinVersion)
	if e.Want != 0 {
		want = fmt.Sprintf("%d, which wrote the existing data folder", e.Want)
	}
	found := "no PostgreSQL server binaries"
	if len(e.Found) > 0 {
		found = fmt.Sprintf("PostgreSQL %s only", strings.Trim(fmt.Sprint(e.Found), "[]"))
	}
	return fmt.Sprintf("found %s, need version %s: install it (Debian, Ubuntu: apt-get install postgresql; elsewhere: the postgresql-server package) "+
		"or set AIDY_DATABASE_URL to a running server", found, want)
}

// binaries is one installation.
type binaries struct {
	initdb, postgres string
	major            int
}

// packageFolders are where packages put server binaries that they keep out of
// PATH: Debian and Ubuntu, the PGDG packages for Red Hat, SUSE, Homebrew.
var packageFolders = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/usr/lib/postgresql*/bin",
	"/opt/homebrew/opt/postgresql@*/bin",
	"/usr/local/opt/postgresql@*/bin",
}

// findBinaries returns the first usable installation; want 0 means any version
// from MinVersion on, else exactly that one.
func findBinaries(ctx context.Context, only string, want int) (binaries, error) {
	var tooOther []int
	for _, dir := range candidateFolders(ctx, only) {
		if ctx.Err() != nil {
			return binaries{}, context.Cause(ctx)
		}
		b, ok := inspect(ctx, dir)
		switch {
		case !ok:
		case b.major >= MinVersion && (want == 0 || b.major == want):
			return b, nil
		case !slices.Contains(tooOther, b.major):
			tooOther = append(tooOther, b.major)
		}
	}
	return binaries{}, &NotInstalledError{Want: want, Found: tooOther}
}

func candidateFolders(ctx context.Context, only string) []string {
	if only != "" {
		return []string{only}
	}
	dirs := filepath.SplitList(os.Getenv("PATH"))
	var packaged []string
	for _, pattern := range packageFolders {
		found, _ := filepath.Glob(pattern) // the patterns are well formed
		packaged = append(packaged, found...)
	}
	slices.SortStableFunc(packaged, func(a, b string) int { return versionIn(b) - versionIn(a) })
	dirs = append(dirs, packaged...)
	if dir, err := output(ctx, "pg_config", "--bindir"); err == nil {
		dirs = append(dirs, dir)
	}
	return dirs
}

// versionIn reads the last number of a folder name such as
// /usr/lib/postgresql/15/bin, or 0.
func versionIn(dir string) int {
	digits := func(r rune) bool { return r < '0' || r > '9' }
	fields := strings.FieldsFunc(dir, digits)
	if len(fields) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(fields[len(fields)-1])
	return n
}

func inspect(ctx context.Context, dir string) (binaries, bool) {
	if !filepath.IsAbs(dir) { // the server runs in another folder
		return binaries{}, false
	}
	b := binaries{initdb: filepath.Join(dir, "initdb"), postgres: filepath.Join(dir, "postgres")}
	for _, file := range []string{b.initdb, b.postgres} {
		if info, err := os.Stat(file); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			return binaries{}, false
		}
	}
	text, err := output(ctx, b.postgres, "--version")
	if err != nil {
		return binaries{}, false
	}
	major, ok := parseVersion(text)
	b.major = major
	return b, ok
}

// parseVersion reads the major version from what `postgres --version` prints:
// "postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)", "... 18beta1".
func parseVersion(text string) (int, bool) {
	_, rest, ok := strings.Cut(text, "(PostgreSQL) ")
	if !ok {
		return 0, false
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(rest)
	}
	n, err := strconv.Atoi(rest[:end])
	return n, err == nil
}

// majorOf returns the version that wrote a data folder, 0 if there is none.
func majorOf(data string) int {
	text, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return n
}

func output(ctx context.Context, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).Output()
	return strings.TrimSpace(string(out)), err
}
