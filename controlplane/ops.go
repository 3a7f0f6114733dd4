package controlplane

import (
	"bytes"
	"encoding/json"
	stdlog "log"
	"net/http"
	"net/http/pprof"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/encoding/protojson"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

// ops serves the operations listener: /healthz (the process lives), /readyz (it may
// be sent traffic, else why not), /status (where it stands), /metrics and
// /debug/pprof. It asks for no proof: keep it off public networks.
func (s *Server) ops(p *parts) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, map[string]any{"ok": true}) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		ready, reasons := s.Ready()
		code := http.StatusOK
		if !ready {
			code = http.StatusServiceUnavailable
		}
		answer(w, code, map[string]any{"ready": ready, "reasons": reasons})
	})
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		identity, policy := p.hub.Positions()
		ready, reasons := s.Ready()
		answer(w, http.StatusOK, map[string]any{
			"version": s.cfg.Version, "ready": ready, "reasons": reasons,
			"identity": position(identity), "policy": position(policy), "prices_generation": p.catalog.Generation(),
		})
	})
	mux.Handle("GET /metrics", s.tel.Handler())
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

func position(p *syncv1.Position) json.RawMessage {
	if p == nil {
		return json.RawMessage("null")
	}
	raw, err := protojson.Marshal(p)
	if err != nil {
		return json.RawMessage("null")
	}
	return raw
}

func answer(w http.ResponseWriter, code int, body any) {
	raw, err := json.Marshal(body)
	if err != nil {
		http.Error(w, "the answer cannot be written as JSON", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(raw, '\n')) // a caller that left needs no answer
}

// quiet brings what net/http says of connections to the log, at debug: most of it
// is clients that left.
func quiet(log zerolog.Logger) *stdlog.Logger { return stdlog.New(logWriter{log}, "", 0) }

type logWriter struct{ log zerolog.Logger }

// Write implements io.Writer.
func (l logWriter) Write(b []byte) (int, error) {
	l.log.Debug().Str("detail", string(bytes.TrimSpace(b))).Msg("connection")
	return len(b), nil
}
