package cli

import (
	"context"
	"errors"
)

// DevOptions are the flags of aidy dev.
type DevOptions struct {
	Dir           string
	InferenceAddr string
	AdminAddr     string
	SyncAddr      string
	OpsAddr       string
	DatabaseURL   string
	Reset         bool
	LogLevel      string
}

type devCommand struct {
	InferenceAddr string `help:"Where clients send requests." default:"127.0.0.1:8080" placeholder:"HOST:PORT"`
	AdminAddr     string `help:"Where the admin API listens." default:"127.0.0.1:8081" placeholder:"HOST:PORT"`
	SyncAddr      string `help:"Where nodes get their configuration." default:"127.0.0.1:8082" placeholder:"HOST:PORT"`
	OpsAddr       string `help:"Health, metrics and profiles of the node; those of the control plane are on the next port." default:"127.0.0.1:9090" placeholder:"HOST:PORT"`
	DatabaseURL   string `help:"Use this PostgreSQL instead of a private one under --dir." env:"AIDY_DATABASE_URL" placeholder:"URL"`
	Reset         bool   `help:"Start over: delete the data under --dir first."`
	LogLevel      string `help:"Least level that is logged: ${enum}." enum:"debug,info,warn,error" default:"warn" placeholder:"LEVEL"`
}

func (devCommand) Help() string {
	return `Starts a control plane, one node, a private PostgreSQL server and a built-in provider that speaks all four protocols, and prints where to send requests. What it made is kept under --dir and is there again at the next start. Port 0 takes a free port; for --ops-addr it takes two.

With OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY set, the provider behind it is configured too and preferred for its own models, also at later starts without the variable. A key of a gateway in such a variable is not used.

--dir holds dev.json, which only you can read: addresses, the administrator's token and a key.

Examples:

    aidy dev
    aidy dev --inference-addr 127.0.0.1:0 --admin-addr 127.0.0.1:0 --sync-addr 127.0.0.1:0 --ops-addr 127.0.0.1:0
    OPENAI_API_KEY=… aidy dev --reset
    aidy dev --database-url postgres://localhost/aidy`
}

func (c *devCommand) Run(ctx context.Context, a *app) error {
	if a.Dev == nil {
		return errors.New("this program was built without dev")
	}
	return a.Dev(ctx, DevOptions{
		Dir: a.globals.Dir, InferenceAddr: c.InferenceAddr, AdminAddr: c.AdminAddr, SyncAddr: c.SyncAddr, OpsAddr: c.OpsAddr,
		DatabaseURL: c.DatabaseURL, Reset: c.Reset, LogLevel: c.LogLevel,
	}, a.Stdout, a.Stderr)
}
