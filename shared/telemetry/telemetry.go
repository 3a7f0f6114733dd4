package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

// Config tunes Start. A zero field takes the default it documents.
type Config struct {
	// Service, Version and Instance name the process in traces and in the
	// metric target_info. Service defaults to "aidy"; the others to none.
	Service, Version, Instance string

	// OTLPEndpoint is the URL of an OTLP/HTTP collector, for instance
	// "http://127.0.0.1:4318"; without a path "/v1/traces" is added. Default
	// none: nothing is traced.
	OTLPEndpoint string

	// OTLPHeaders are sent with every export, for collectors that want a token.
	OTLPHeaders map[string]secret.Text

	// SampleBP is the share of new traces that is kept, in hundredths of a per
	// cent: 10,000 is all. A trace the caller has sampled is always kept, one it
	// has not never. Default 10,000; negative keeps no new trace.
	SampleBP int

	// ExportTimeout bounds one export of spans. Default 10 s.
	ExportTimeout time.Duration

	// Cardinality bounds the attribute sets of one instrument; what exceeds it
	// is counted together under otel_metric_overflow="true". Default 10,000;
	// negative is no bound.
	Cardinality int
}

// Telemetry holds the providers of one process. Make it with Start, end it with
// Shutdown. Safe for concurrent use.
type Telemetry struct {
	metrics  *sdkmetric.MeterProvider
	traces   *sdktrace.TracerProvider // nil without an endpoint
	registry *prometheus.Registry
	log      zerolog.Logger
}

// Start returns telemetry that is at work: with an endpoint it runs an exporter
// in the background until Shutdown. It opens no connection itself; a collector
// that cannot be reached is logged and never fails a request. It fails if cfg is
// out of range.
func Start(ctx context.Context, cfg Config, log zerolog.Logger) (*Telemetry, error) {
	log = log.With().Str("component", "telemetry").Logger()
	if cfg.Service == "" {
		cfg.Service = "aidy"
	}
	if cfg.SampleBP == 0 {
		cfg.SampleBP = fullBP
	}
	if cfg.SampleBP > fullBP {
		return nil, fmt.Errorf("trace sampling of %d: want at most %d hundredths of a per cent", cfg.SampleBP, fullBP)
	}
	if cfg.Cardinality == 0 {
		cfg.Cardinality = 10_000
	}

	registry := prometheus.NewRegistry()
	err1 := registry.Register(collectors.NewGoCollector())
	err2 := registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	exporter, err3 := otelprom.New(otelprom.WithRegisterer(registry), otelprom.WithoutScopeInfo())
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, fmt.Errorf("set up metrics: %w", err)
	}
	res := cfg.resource()
	t := &Telemetry{
		metrics: sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter), sdkmetric.WithResource(res),
			sdkmetric.WithCardinalityLimit(max(cfg.Cardinality, 0))), // 0 is no bound there
		registry: registry, log: log,
	}
	if cfg.OTLPEndpoint != "" {
		traces, err := cfg.tracerProvider(ctx, res, log)
		if err != nil {
			return nil, err
		}
		t.traces = traces
	}
	return t, nil
}

const fullBP = 10_000

func (cfg *Config) resource() *resource.Resource {
	attrs := []attribute.KeyValue{attribute.String("service.name", cfg.Service)}
	if cfg.Version != "" {
		attrs = append(attrs, attribute.String("service.version", cfg.Version))
	}
	if cfg.Instance != "" {
		attrs = append(attrs, attribute.String("service.instance.id", cfg.Instance))
	}
	return resource.NewSchemaless(attrs...)
}

func (cfg *Config) tracerProvider(ctx context.Context, res *resource.Resource, log zerolog.Logger) (*sdktrace.TracerProvider, error) {
	u, err := url.Parse(cfg.OTLPEndpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		// The URL is not shown: people put tokens into them.
		return nil, errors.New("OTLP endpoint: want an http or https URL without user name, for example http://127.0.0.1:4318")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	timeout := cfg.ExportTimeout
	if timeout <= 0 {
		timeout = 10 * time.Second
	}
	opts := []otlptracehttp.Option{otlptracehttp.WithEndpointURL(u.String()), otlptracehttp.WithTimeout(timeout)}
	if len(cfg.OTLPHeaders) > 0 {
		headers := make(map[string]string, len(cfg.OTLPHeaders))
		for name, value := range cfg.OTLPHeaders {
			headers[name] = value.Reveal()
		}
		opts = append(opts, otlptracehttp.WithHeaders(headers))
	}
	exporter, err := otlptracehttp.New(ctx, opts...)
	if err != nil {
		return nil, fmt.Errorf("set up trace export: %w", err)
	}
	share := float64(max(cfg.SampleBP, 0)) / fullBP
	return sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(logged{exporter, log}, sdktrace.WithExportTimeout(timeout)),
		sdktrace.WithResource(res),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(share))),
	), nil
}

// logged hands export errors to the log. The SDK would give them to a handler
// that is global to the process and prints to the standard error.
type logged struct {
	sdktrace.SpanExporter
	log zerolog.Logger
}

// ExportSpans implements sdktrace.SpanExporter.
func (l logged) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := l.SpanExporter.ExportSpans(ctx, spans); err != nil {
		l.log.Warn().Err(err).Int("spans", len(spans)).Msg("trace export failed, spans are lost")
	}
	return nil
}

// Meters returns the meter provider. It never is nil.
func (t *Telemetry) Meters() metric.MeterProvider { return t.metrics }

// Tracers returns the tracer provider; without an endpoint it makes spans that
// do nothing. It never is nil.
func (t *Telemetry) Tracers() trace.TracerProvider {
	if t.traces == nil {
		return noop.NewTracerProvider()
	}
	return t.traces
}

// Handler serves the metrics, those of the Go runtime and the process included,
// in Prometheus' formats. At most four scrapes run at once and each ends after
// 10 s. A collector that fails is logged and the rest is served.
func (t *Telemetry) Handler() http.Handler {
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{
		ErrorLog:            scrapeLog{t.log},
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: 4,
		Timeout:             10 * time.Second,
	})
}

// scrapeLog implements promhttp.Logger.
type scrapeLog struct{ log zerolog.Logger }

// Println implements promhttp.Logger.
func (s scrapeLog) Println(v ...any) {
	s.log.Warn().Str("error", fmt.Sprint(v...)).Msg("scrape incomplete")
}

// Shutdown exports what is left and stops. ctx bounds it; what could not be
// exported by then is lost. The providers may be used afterwards and do nothing.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	err := t.metrics.Shutdown(ctx)
	if t.traces != nil {
		err = errors.Join(err, t.traces.Shutdown(ctx))
	}
	if err != nil {
		return fmt.Errorf("shut telemetry down: %w", err)
	}
	return nil
}
