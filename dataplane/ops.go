package dataplane

import (
	"encoding/json"
	"net/http"
	"net/http/pprof"
	"time"
)

// opsServer is the operations listener: for operators and their tools, never for
// clients.
func (n *Node) opsServer() *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /readyz", n.readyz)
	mux.HandleFunc("GET /status", n.status)
	mux.HandleFunc("GET /runtime", n.serveRuntime)
	mux.HandleFunc("GET /decisions", n.listDecisions)
	mux.HandleFunc("GET /decisions/{id}", n.getDecision)
	mux.HandleFunc("POST /explain", n.explain)
	if n.deps.Metrics != nil {
		mux.Handle("GET /metrics", n.deps.Metrics)
	}
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       120 * time.Second,
		ErrorLog:          stdLogger(n.log, "operations listener"),
	}
}

// Ready reports whether the node should get requests, and if not, why.
func (n *Node) Ready() (bool, []string) {
	ready, reasons := n.subscriber.Ready()
	if n.draining.Load() {
		ready = false
		reasons = append(reasons, "draining: the node is shutting down")
	}
	if err := n.meter.Ready(); err != nil {
		ready = false
		reasons = append(reasons, "metering: "+err.Error())
	}
	return ready, reasons
}

func (n *Node) readyz(w http.ResponseWriter, _ *http.Request) {
	ready, reasons := n.Ready()
	status := http.StatusOK
	if !ready {
		status = http.StatusServiceUnavailable
	}
	if reasons == nil {
		reasons = []string{}
	}
	writeJSON(w, status, map[string]any{"ready": ready, "reasons": reasons})
}

func (n *Node) status(w http.ResponseWriter, _ *http.Request) {
	ready, reasons := n.Ready()
	if reasons == nil {
		reasons = []string{}
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"version":       n.cfg.Version,
		"name":          n.cfg.Name,
		"started":       n.started.UTC(),
		"ready":         ready,
		"reasons":       reasons,
		"configuration": n.subscriber.Status(),
		"running":       n.metrics.running.Load(),
		"open_attempts": n.meter.Open(),
		"usage_log":     map[string]any{"bytes": n.wal.Size(), "fill": n.wal.Fill(), "last": n.wal.Last(), "acknowledged": n.wal.Acked()},
		"cooldowns":     n.cooldowns(time.Now()),
	})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(v) // a reader that is gone needs no answer
}
