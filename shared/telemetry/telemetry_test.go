package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/goleak"

	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestJSONLogHasTimeLevelAndFields(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, err := NewLogger(&out, LogConfig{})
	if err != nil {
		t.Fatal(err)
	}
	log.Debug().Msg("hidden")
	log.Info().Dur("wait_ms", 1500*time.Millisecond).Msg("shown")
	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v in %q", err, out.String())
	}
	at, err := time.Parse(time.RFC3339Nano, got["time"].(string))
	if err != nil || time.Since(at) > time.Minute || got["level"] != "info" || got["message"] != "shown" || got["wait_ms"] != 1500.0 {
		t.Errorf("got %v", got)
	}
}

func TestConsoleLogIsText(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, err := NewLogger(&out, LogConfig{Format: Console, Level: "debug"})
	if err != nil {
		t.Fatal(err)
	}
	log.Debug().Str("k", "v").Msg("hello")
	if got := out.String(); !strings.Contains(got, "hello") || !strings.Contains(got, "k=v") || strings.Contains(got, "\x1b") {
		t.Errorf("got %q", got)
	}
}

func TestUnknownLevelOrFormatIsRefused(t *testing.T) {
	t.Parallel()
	for _, cfg := range []LogConfig{{Level: "loud"}, {Level: "-5"}, {Format: "xml"}} {
		if _, err := NewLogger(io.Discard, cfg); err == nil {
			t.Errorf("%+v: no error", cfg)
		}
	}
}

func start(t *testing.T, cfg Config, log zerolog.Logger) *Telemetry {
	t.Helper()
	tel, err := Start(t.Context(), cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	return tel
}

func scrape(t *testing.T, tel *Telemetry) string {
	t.Helper()
	w := httptest.NewRecorder()
	tel.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func TestMetricsAreScrapedUnderTheirPublishedNames(t *testing.T) {
	t.Parallel()
	tel := start(t, Config{Service: "dataplane", Version: "v1"}, zerolog.Nop())
	defer tel.Shutdown(context.Background())
	m := tel.Meters().Meter("test")
	n, err1 := m.Int64Counter("gateway.scheduler.attempts", metric.WithUnit("{attempt}"))
	d, err2 := m.Float64Histogram("gateway.attempt.duration", metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(.1, 1))
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	n.Add(t.Context(), 3, metric.WithAttributes(attribute.String("outcome", "ok")))
	d.Record(t.Context(), .5)
	got := scrape(t, tel)
	for _, want := range []string{
		`gateway_scheduler_attempts_total{outcome="ok"} 3`, `gateway_attempt_duration_seconds_bucket{le="1"} 1`,
		"go_goroutines ", "process_start_time_seconds ", `service_name="dataplane"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
}

func TestCardinalityIsBounded(t *testing.T) {
	t.Parallel()
	tel := start(t, Config{Cardinality: 10}, zerolog.Nop())
	defer tel.Shutdown(context.Background())
	n, err := tel.Meters().Meter("test").Int64Counter("gateway.test.things")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		n.Add(t.Context(), 1, metric.WithAttributes(attribute.Int("i", i)))
	}
	got := scrape(t, tel)
	if lines := strings.Count(got, "\ngateway_test_things_total{"); lines != 10 || !strings.Contains(got, `otel_metric_overflow="true"`) {
		t.Errorf("%d series:\n%s", lines, got)
	}
}

func TestNoEndpointTracesNothing(t *testing.T) {
	t.Parallel()
	tel := start(t, Config{}, zerolog.Nop())
	_, span := tel.Tracers().Tracer("test").Start(t.Context(), "x")
	if span.IsRecording() {
		t.Error("a span is recorded without an endpoint")
	}
	span.End()
	if err := tel.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSpansReachTheCollectorByShutdown(t *testing.T) {
	t.Parallel()
	type export struct{ path, token, body string }
	exports := make(chan export, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		exports <- export{r.URL.Path, r.Header.Get("X-Token"), string(body)}
	}))
	defer srv.Close()
	tel := start(t, Config{OTLPEndpoint: srv.URL, OTLPHeaders: map[string]secret.Text{"x-token": secret.New("abc")}}, zerolog.Nop())
	_, span := tel.Tracers().Tracer("test").Start(t.Context(), "span-name-1")
	span.End()
	if err := tel.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := <-exports
	if got.path != "/v1/traces" || got.token != "abc" || !strings.Contains(got.body, "span-name-1") {
		t.Errorf("exported to %q with token %q", got.path, got.token)
	}
}

func TestExportFailureIsLoggedAndFailsNothing(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
	}))
	defer srv.Close()
	var out bytes.Buffer
	tel := start(t, Config{OTLPEndpoint: srv.URL}, zerolog.New(&out))
	_, span := tel.Tracers().Tracer("test").Start(t.Context(), "x")
	span.End()
	if err := tel.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if !strings.Contains(out.String(), "trace export failed") {
		t.Errorf("log: %q", out.String())
	}
}

func TestNegativeSampleKeepsNoNewTrace(t *testing.T) {
	t.Parallel()
	tel := start(t, Config{OTLPEndpoint: "http://127.0.0.1:1", SampleBP: -1}, zerolog.Nop())
	_, span := tel.Tracers().Tracer("test").Start(t.Context(), "x")
	if span.SpanContext().IsSampled() {
		t.Error("a trace was sampled")
	}
	span.End()
	if err := tel.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestBadConfigIsRefusedWithoutShowingTokens(t *testing.T) {
	t.Parallel()
	for _, cfg := range []Config{{OTLPEndpoint: "collector:4318"}, {OTLPEndpoint: "http://u:hunter2@h"}, {OTLPEndpoint: "ftp://h"}, {SampleBP: 10_001}} {
		_, err := Start(t.Context(), cfg, zerolog.Nop())
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}
