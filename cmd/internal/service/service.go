// Package service is what the mains of the two services have in common: settings from
// a file, the environment and flags, the answers to --help, --version and
// --print-config, signals and exit codes.
package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/aidy-gateway/aidy-gateway/cmd/internal/nearest"
	"github.com/aidy-gateway/aidy-gateway/cmd/internal/release"
	"github.com/aidy-gateway/aidy-gateway/shared/settings"
)

// Exit codes.
const (
	ExitOK      = 0   // stopped in good order
	ExitError   = 1   // could not run, or did not stop in good order
	ExitUsage   = 2   // flags or settings make no sense
	exitAtOnce  = 130 // a second signal
	configEnv   = "AIDY_CONFIG"
	flagsIndent = "  "
)

// Shared are the variables with the prefix of settings that belong to other programs
// of the product, or to credentials that a node resolves, and that may stand in one
// environment with those of a service.
func Shared() []string {
	return []string{configEnv, "AIDY_SECRET_*", "AIDY_ADMIN_URL", "AIDY_ADMIN_TOKEN", "AIDY_DIR", "AIDY_TENANT"}
}

// Program is a service.
type Program struct {
	Name    string
	Purpose string // one sentence for --help

	// Config points to the struct of settings.
	Config any
	// Ignore lists further variables that belong to others.
	Ignore []string

	// Run serves until ctx ends and drains then. effective are the settings as
	// --print-config writes them, secrets redacted.
	Run func(ctx context.Context, effective []byte) error
}

// Env is what a program stands in.
type Env struct {
	Stdout, Stderr io.Writer
	Environ        []string
	// Signals stop the program: the first drains it, the second ends it. Nil takes
	// SIGINT and SIGTERM of the process.
	Signals chan os.Signal
	// Exit ends the process at the second signal. Nil is os.Exit.
	Exit func(int)
}

// Main runs a program and returns its exit code.
func Main(p Program, env Env, args []string) int {
	cl, err := parse(p, args)
	if err != nil {
		fmt.Fprintf(env.Stderr, "%s: %v\n\nSee %s --help.\n", p.Name, err, p.Name)
		return ExitUsage
	}
	switch {
	case cl.help:
		if err := help(p, env.Stdout); err != nil {
			return complain(p, env, err, ExitError)
		}
		return ExitOK
	case cl.version:
		fmt.Fprintln(env.Stdout, release.Line(p.Name))
		return ExitOK
	}
	if cl.config == "" {
		cl.config = lookup(env.Environ, configEnv)
	}
	loaded, err := settings.Load(p.Config, settings.Sources{
		File: cl.config, Environ: env.Environ, Ignore: append(Shared(), p.Ignore...), Overrides: cl.overrides,
	})
	if err != nil {
		return complain(p, env, err, ExitUsage)
	}
	var effective bytes.Buffer
	if err := loaded.Print(&effective); err != nil {
		return complain(p, env, err, ExitError)
	}
	if cl.print {
		if _, err := env.Stdout.Write(effective.Bytes()); err != nil {
			return complain(p, env, err, ExitError)
		}
		return ExitOK
	}
	ctx, stop := untilSignal(env)
	defer stop()
	if err := p.Run(ctx, effective.Bytes()); err != nil {
		return complain(p, env, err, ExitError)
	}
	return ExitOK
}

func complain(p Program, env Env, err error, code int) int {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintf(env.Stderr, "%s: %s\n", p.Name, line)
	}
	return code
}

// untilSignal returns a context that ends at the first signal. At the second the
// process ends.
func untilSignal(env Env) (context.Context, func()) {
	signals, exit := env.Signals, env.Exit
	if signals == nil {
		signals = make(chan os.Signal, 2)
		signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	}
	if exit == nil {
		exit = os.Exit
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for n := 0; ; n++ {
			select {
			case s := <-signals:
				if n > 0 {
					exit(exitAtOnce)
					return
				}
				cancel(fmt.Errorf("signal %s", s))
			case <-done:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		<-ended
		cancel(nil)
	}
}

func lookup(environ []string, name string) string {
	for _, e := range environ {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return ""
}

// commandLine is what flags say.
type commandLine struct {
	config               string
	print, version, help bool
	overrides            map[string]string
}

// parse reads flags: those of this package, and --key=value or --key value of every
// setting, with - or _ in its name.
func parse(p Program, args []string) (*commandLine, error) {
	known, err := rows(p.Config)
	if err != nil {
		return nil, err
	}
	keys := make([]string, len(known))
	for i, r := range known {
		keys[i] = r.key
	}
	cl := &commandLine{overrides: map[string]string{}}
	for i := 0; i < len(args); i++ {
		name, isFlag := strings.CutPrefix(args[i], "--")
		if args[i] == "-h" {
			name, isFlag = "help", true
		}
		if !isFlag || name == "" {
			return nil, fmt.Errorf("%q is no flag; everything is set by flags such as --config FILE", args[i])
		}
		name, value, hasValue := strings.Cut(name, "=")
		switch name {
		case "help", "version", "print-config":
			if hasValue {
				return nil, fmt.Errorf("--%s takes no value", name)
			}
			cl.help = cl.help || name == "help"
			cl.version = cl.version || name == "version"
			cl.print = cl.print || name == "print-config"
			continue
		}
		key := strings.ReplaceAll(name, "-", "_")
		if name != "config" && !slices.Contains(keys, key) {
			return nil, fmt.Errorf("there is no flag --%s%s", name, nearest.Hint(key, keys))
		}
		if !hasValue {
			if i++; i == len(args) {
				return nil, fmt.Errorf("--%s needs a value", name)
			}
			value = args[i]
		}
		if name == "config" {
			cl.config = value
			continue
		}
		if _, again := cl.overrides[key]; again {
			return nil, fmt.Errorf("--%s is given twice", name)
		}
		cl.overrides[key] = value
	}
	return cl, nil
}

// row is a setting as its documentation gives it.
type row struct{ key, env, def, help string }

// rows lists the settings of a struct, from the table that settings makes.
func rows(cfg any) ([]row, error) {
	table, err := settings.Docs(cfg, "")
	if err != nil {
		return nil, err
	}
	var out []row
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.ReplaceAll(strings.Trim(strings.TrimSpace(line), "|"), `\|`, "\x00"), " | ")
		if len(cells) < 4 || !strings.HasPrefix(strings.TrimSpace(cells[0]), "`") {
			continue
		}
		for i := range cells {
			cells[i] = strings.ReplaceAll(strings.Trim(strings.TrimSpace(cells[i]), "`"), "\x00", "|")
		}
		out = append(out, row{cells[0], cells[1], cells[2], cells[3]})
	}
	if len(out) == 0 {
		return nil, errors.New("the program has no settings")
	}
	return out, nil
}

// help prints every setting with its flag, variable and default.
func help(p Program, w io.Writer) error {
	known, err := rows(p.Config)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, `Usage: %s [--config FILE] [--KEY=VALUE ...]

%s

Settings come from their defaults, then a YAML file, then the environment, then
flags, each overruling the one before. What is not known is an error. Exit codes:
0 stopped in good order, 1 failed, 2 flags or settings make no sense.

Flags:
  --config FILE     File with settings (%s).
  --print-config    Print the effective settings, secrets redacted, and exit.
  --version         Print the release and exit.
  --help, -h        Print this and exit.

Settings:
`, p.Name, p.Purpose, configEnv)
	for _, r := range known {
		fmt.Fprintf(w, "%s--%s=VALUE\n%s    %s\n", flagsIndent, strings.ReplaceAll(r.key, "_", "-"), flagsIndent, r.help)
		fmt.Fprintf(w, "%s    File: %s. Environment: %s. Default: %s.\n", flagsIndent, r.key, r.env, r.def)
	}
	_, err = fmt.Fprintf(w, "\nExamples:\n\n    %s --config /etc/aidy/%s.yaml\n    %s --config /etc/aidy/%s.yaml --print-config\n",
		p.Name, strings.TrimPrefix(p.Name, "aidy-"), p.Name, strings.TrimPrefix(p.Name, "aidy-"))
	return err
}
