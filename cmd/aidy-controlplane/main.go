// Aidy-controlplane is one replica of the control plane of aidy-gateway: it owns the
// configuration and the ledger, and gives nodes what they serve from.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/aidy-gateway/aidy-gateway/cmd/internal/decide"
	"github.com/aidy-gateway/aidy-gateway/cmd/internal/memlimit"
	"github.com/aidy-gateway/aidy-gateway/cmd/internal/release"
	"github.com/aidy-gateway/aidy-gateway/cmd/internal/service"
	"github.com/aidy-gateway/aidy-gateway/controlplane"
	"github.com/aidy-gateway/aidy-gateway/shared/telemetry"
)

func main() {
	os.Exit(service.Main(program(), service.Env{Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ()}, os.Args[1:]))
}

func program() service.Program {
	cfg := new(controlplane.Config)
	return service.Program{
		Name:    "aidy-controlplane",
		Purpose: "Own configuration and ledger and give them to nodes: one replica of the control plane of aidy-gateway.",
		Config:  cfg,
		// One environment may hold the settings of both services.
		Ignore: []string{
			"AIDY_INFERENCE_*", "AIDY_CONTROL_PLANE_*", "AIDY_DATA_DIR", "AIDY_NAME", "AIDY_LABELS", "AIDY_MAX_*", "AIDY_SHIP_*",
			"AIDY_UPSTREAM_*", "AIDY_WAL_*", "AIDY_REDIS_*", "AIDY_REQUEST_LOG_MAX_BYTES",
		},
		Run: func(ctx context.Context, effective []byte) error { return run(ctx, *cfg, effective) },
	}
}

// flushTime bounds the export of the last traces.
const flushTime = 5 * time.Second

func run(ctx context.Context, cfg controlplane.Config, effective []byte) (err error) {
	cfg.Version = release.Version()
	log, err := telemetry.NewLogger(os.Stderr, telemetry.LogConfig{Level: cfg.Log.Level, Format: cfg.Log.Format})
	if err != nil {
		return err
	}
	tel, err := telemetry.Start(ctx, telemetry.Config{
		Service: "aidy-controlplane", Version: cfg.Version, OTLPEndpoint: cfg.OTLPEndpoint,
	}, log)
	if err != nil {
		return fmt.Errorf("start telemetry: %w", err)
	}
	defer func() {
		flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
		defer cancel()
		err = errors.Join(err, tel.Shutdown(flush))
	}()
	if limit := memlimit.Set(os.Getenv); limit > 0 {
		log.Info().Int64("limit_bytes", limit).Msg("memory limit taken from the container")
	}
	if err := makeFolders(cfg); err != nil {
		return err
	}
	server, err := controlplane.New(cfg, tel, log, controlplane.WithDecider(decide.Decider{}), controlplane.WithSettings(func(w io.Writer) error {
		_, err := io.Copy(w, bytes.NewReader(effective))
		return err
	}))
	if err != nil {
		return err
	}
	log.Info().Str("version", cfg.Version).Str("admin_addr", cfg.AdminAddr).Str("sync_addr", cfg.SyncAddr).Str("ops_addr", cfg.OpsAddr).Msg("control plane starts")
	if err := server.Run(ctx); err != nil {
		return err
	}
	log.Info().Msg("control plane stopped")
	return nil
}

// makeFolders makes those of the files that the first start writes, for this account
// alone.
func makeFolders(cfg controlplane.Config) error {
	for _, f := range []struct {
		setting, path string
		given         bool // by its value; the file is not used
	}{
		{"root_key_file", cfg.RootKeyFile, !cfg.RootKey.IsZero()},
		{"bootstrap_token_file", cfg.BootstrapTokenFile, !cfg.BootstrapToken.IsZero()},
	} {
		if f.given || f.path == "" {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
			return fmt.Errorf("%s: %w; make the folder for this account, or name a file elsewhere", f.setting, err)
		}
	}
	return nil
}
