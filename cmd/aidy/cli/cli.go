// Package cli is the command line of operators. Every command talks to the admin API
// of a control plane, apart from dev, which runs one, and migrate, which prepares a
// database.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"connectrpc.com/connect/v2"
	"github.com/alecthomas/kong"

	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/resource"
	"github.com/aidy-gateway/aidy-gateway/cmd/internal/release"
)

// Exit codes.
const (
	ExitOK    = 0 // done
	ExitError = 1 // the command could not do what was asked
	ExitUsage = 2 // the command line makes no sense
)

// Env is what the command line stands in.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	// Dev runs the whole product until ctx ends.
	Dev func(ctx context.Context, o DevOptions, stdout, stderr io.Writer) error

	// Dial makes the transport to an admin API. Nil is HTTP.
	Dial func(adminURL string) (connect.Transport, error)

	// Now is the time. Nil is time.Now.
	Now func() time.Time
}

// app is what commands work with.
type app struct {
	Env
	globals *globals
	kinds   []*resource.Kind
	parser  *kong.Kong
	command string // that was chosen; empty before
}

type globals struct {
	AdminURL string `help:"Address of the admin API. Default: that of the running aidy dev, read from dev.json in --dir." env:"AIDY_ADMIN_URL" placeholder:"URL"`
	Token    string `help:"Bearer token of an administrator. Prefer the variable: other users can see command lines." env:"AIDY_ADMIN_TOKEN" placeholder:"TOKEN"`
	Dir      string `help:"Folder of aidy dev." default:".aidy" env:"AIDY_DIR" placeholder:"DIR"`
	Output   string `short:"o" help:"Form of the output: ${enum}." enum:"table,json,yaml" default:"table" placeholder:"FORM"`
}

type grammar struct {
	globals
	ShowVersion kong.VersionFlag `name:"version" help:"Print the release of this program."`

	Dev        devCommand        `cmd:"" help:"Run the whole product on this machine: control plane, node, database, built-in provider."`
	Migrate    migrateCommand    `cmd:"" help:"Bring a database to the schema of this release, or show where it stands."`
	Apply      applyCommand      `cmd:"" help:"Make the configuration equal to a file, in one change."`
	Export     exportCommand     `cmd:"" help:"Write the configuration as a file that apply takes."`
	Get        getCommand        `cmd:"" help:"List resources of a kind, or show one."`
	Create     createCommand     `cmd:"" help:"Make a resource."`
	Delete     deleteCommand     `cmd:"" help:"Remove a resource that nothing refers to."`
	Keys       keysCommand       `cmd:"" help:"Make, list, rotate, revoke and switch keys of consumers."`
	Nodes      nodesCommand      `cmd:"" help:"Show nodes and let them join."`
	Runtime    runtimeCommand    `cmd:"" help:"Reset what nodes learned while they ran."`
	Affinity   affinityCommand   `cmd:"" help:"Reset where conversations stay."`
	Explain    explainCommand    `cmd:"" help:"Say where a call would go and why, or why one went where it did."`
	Logs       logsCommand       `cmd:"" help:"Find requests in the request log."`
	Replay     replayCommand     `cmd:"" help:"Say what a draft would have done with the requests of the request log."`
	Seed       seedCommand       `cmd:"" help:"Fill a control plane with a ready configuration."`
	Version    versionCommand    `cmd:"" help:"Print the release of this program."`
	Completion completionCommand `cmd:"" help:"Print a script that completes commands in a shell."`
}

const description = `Operate aidy-gateway.

Commands find the control plane by --admin-url and --token, by AIDY_ADMIN_URL and AIDY_ADMIN_TOKEN, or, with neither, by .aidy/dev.json, which a running aidy dev writes.

Exit codes: 0 done, 1 the command could not do what was asked, 2 the command line makes no sense.`

// exited carries the exit code out of the parser, which ends the program itself.
type exited int

// Main runs a command line and returns the exit code of the program. ctx ends long
// work; args are those after the name of the program.
func Main(ctx context.Context, env Env, args []string) (code int) {
	if env.Now == nil {
		env.Now = time.Now
	}
	a := &app{Env: env}
	defer func() {
		switch p := recover().(type) {
		case nil:
		case exited:
			code = int(p)
		default:
			panic(p)
		}
	}()
	return a.report(a.run(ctx, args))
}

func (a *app) run(ctx context.Context, args []string) error {
	var err error
	if a.kinds, err = resource.Kinds(); err != nil {
		return err
	}
	var g grammar
	a.globals = &g.globals
	a.parser, err = newParser(&g, a)
	if err != nil {
		return fmt.Errorf("build the command line: %w", err)
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	k, err := a.parser.Parse(args)
	if err != nil {
		return &usageError{err}
	}
	a.command = k.Selected().Path()
	k.BindTo(ctx, (*context.Context)(nil))
	return k.Run(a)
}

func newParser(g *grammar, a *app) (*kong.Kong, error) {
	return kong.New(g,
		kong.Name("aidy"),
		kong.Description(description),
		kong.Writers(a.Stdout, a.Stderr),
		kong.Exit(func(code int) { panic(exited(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, WrapUpperBound: 100}),
		kong.ValueFormatter(flagHelp),
		kong.Vars{"version": release.Line("aidy"), "kinds": "a kind, such as tenant, provider, upstream, model, credential, route, consumer or key"},
	)
}

// flagHelp is what --help says of a flag: its purpose, what holds without it, and the
// variable that stands for it.
func flagHelp(v *kong.Value) string {
	text := v.Help
	if v.HasDefault && v.Default != "" && v.Default != "0" && !strings.Contains(text, "Default:") {
		text = strings.TrimSuffix(text, ".") + ". Default: " + v.Default + "."
	}
	if v.Flag == nil || len(v.Flag.Envs) == 0 {
		return text
	}
	return strings.TrimSuffix(text, ".") + " ($" + strings.Join(v.Flag.Envs, ", $") + ")."
}

// usageError is a command line that makes no sense.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usage(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// report prints an error for people and returns the exit code.
func (a *app) report(err error) int {
	if err == nil {
		return ExitOK
	}
	for i, line := range explain(err) {
		if i == 0 {
			line = "aidy: " + line
		}
		fmt.Fprintln(a.Stderr, line)
	}
	if _, ok := errors.AsType[*usageError](err); ok {
		command := a.command
		if parse, ok := errors.AsType[*kong.ParseError](err); ok && parse.Context != nil && parse.Context.Selected() != nil {
			command = parse.Context.Selected().Path()
		}
		if command != "" {
			command += " "
		}
		fmt.Fprintf(a.Stderr, "\nSee `aidy %s--help`.\n", command)
		return ExitUsage
	}
	return ExitError
}

// progress tells how long work goes on. It goes to stderr, so that output can be
// piped.
func (a *app) progress(format string, args ...any) {
	fmt.Fprintf(a.Stderr, format+"\n", args...)
}

type versionCommand struct{}

func (versionCommand) Help() string {
	return `Examples:

    aidy version
    aidy version -o json`
}

func (versionCommand) Run(a *app) error {
	if a.globals.Output == "table" {
		fmt.Fprintln(a.Stdout, release.Line("aidy"))
		return nil
	}
	return a.plain(map[string]any{"program": "aidy", "version": release.Version()})
}
