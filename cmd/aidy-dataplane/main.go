// Aidy-dataplane is one node of aidy-gateway: it takes calls of SDK clients and serves
// them from the configuration that the control plane gives it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/aidy-gateway/aidy-gateway/cmd/internal/memlimit"
	"github.com/aidy-gateway/aidy-gateway/cmd/internal/release"
	"github.com/aidy-gateway/aidy-gateway/cmd/internal/service"
	"github.com/aidy-gateway/aidy-gateway/cmd/internal/syncdial"
	"github.com/aidy-gateway/aidy-gateway/dataplane"
	"github.com/aidy-gateway/aidy-gateway/shared/telemetry"
)

func main() {
	os.Exit(service.Main(program(), service.Env{Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ()}, os.Args[1:]))
}

func program() service.Program {
	cfg := new(dataplane.Config)
	return service.Program{
		Name:    "aidy-dataplane",
		Purpose: "Serve calls of SDK clients: one node of the data plane of aidy-gateway.",
		Config:  cfg,
		// One environment may hold the settings of both services.
		Ignore: []string{
			"AIDY_REQUEST_LOG_URL", "AIDY_REQUEST_LOG_MAX_CONNECTIONS", "AIDY_REQUEST_LOG_KEEP_DAYS", "AIDY_DATABASE_*", "AIDY_REDIS_*", "AIDY_ROOT_KEY*", "AIDY_BOOTSTRAP_*", "AIDY_ADMIN_*", "AIDY_SYNC_*",
		},
		Run: func(ctx context.Context, _ []byte) error { return run(ctx, *cfg) },
	}
}

// longestName is the longest name of a node that the control plane takes.
const longestName = 63

// hostName is the name of a node that was given none; empty if the host has none.
func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name[:min(len(name), longestName)]
}

// flushTime bounds the export of the last traces.
const flushTime = 5 * time.Second

func run(ctx context.Context, cfg dataplane.Config) (err error) {
	cfg.Version = release.Version()
	if cfg.Name == "" {
		cfg.Name = hostName()
	}
	log, err := telemetry.NewLogger(os.Stderr, telemetry.LogConfig{Level: cfg.Log.Level, Format: cfg.Log.Format})
	if err != nil {
		return err
	}
	tel, err := telemetry.Start(ctx, telemetry.Config{
		Service: "aidy-dataplane", Version: cfg.Version, Instance: cfg.Name, OTLPEndpoint: cfg.OTLPEndpoint,
	}, log)
	if err != nil {
		return fmt.Errorf("start telemetry: %w", err)
	}
	defer func() {
		flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
		defer cancel()
		err = errors.Join(err, tel.Shutdown(flush))
	}()
	dataplane.TuneGC()
	if limit := memlimit.Set(os.Getenv); limit > 0 {
		log.Info().Int64("limit_bytes", limit).Msg("memory limit taken from the container")
	}
	node, err := dataplane.New(cfg, dataplane.Deps{Log: log, Meters: tel.Meters(), Metrics: tel.Handler(), Dial: syncdial.Dial})
	if err != nil {
		return err
	}
	log.Info().Str("version", cfg.Version).Str("inference_addr", cfg.InferenceAddr).Str("ops_addr", cfg.OpsAddr).Msg("node starts")
	if err := node.Run(ctx); err != nil {
		return err
	}
	log.Info().Msg("node stopped")
	return nil
}
