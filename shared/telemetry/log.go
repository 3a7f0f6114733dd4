// Package telemetry builds what a process observes itself with: a logger, a
// meter provider that Prometheus scrapes, and a tracer provider that exports
// over OTLP where an endpoint is set. Nothing is registered globally; loggers
// and providers are handed to the components that use them.
package telemetry

import (
	"fmt"
	"io"
	"time"

	"github.com/rs/zerolog"
)

// Formats of log lines.
const (
	JSON    = "json"    // one JSON object a line, for collectors
	Console = "console" // aligned text, for people
)

// LogConfig tunes a logger. A zero field takes the default it documents.
type LogConfig struct {
	// Level is the least level that is written: trace, debug, info, warn, error
	// or disabled. Default info.
	Level string

	// Format is JSON or Console. Default JSON.
	Format string

	// Color allows colours in Console format. Default none.
	Color bool
}

// timeFormat is RFC 3339 in UTC to the millisecond. zerolog keeps its own time
// format in a package variable and has whole seconds there.
const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// NewLogger returns a logger that writes each event to w with one call of Write
// and gives it a field "time". w must be safe for concurrent use, as os.Stderr
// is. It fails if level or format is unknown.
func NewLogger(w io.Writer, cfg LogConfig) (zerolog.Logger, error) {
	level := zerolog.InfoLevel
	if cfg.Level != "" {
		var err error
		if level, err = zerolog.ParseLevel(cfg.Level); err != nil || level < zerolog.TraceLevel {
			return zerolog.Nop(), fmt.Errorf("log level %q: want trace, debug, info, warn, error or disabled", cfg.Level)
		}
	}
	switch cfg.Format {
	case "", JSON:
	case Console:
		w = zerolog.ConsoleWriter{Out: w, NoColor: !cfg.Color, TimeFormat: timeFormat}
	default:
		return zerolog.Nop(), fmt.Errorf("log format %q: want %s or %s", cfg.Format, JSON, Console)
	}
	return zerolog.New(w).Level(level).Hook(stamp{}), nil
}

// stamp gives an event the time at which it was written.
type stamp struct{}

// Run implements zerolog.Hook.
func (stamp) Run(e *zerolog.Event, _ zerolog.Level, _ string) {
	e.Str(zerolog.TimestampFieldName, time.Now().UTC().Format(timeFormat))
}
