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

// cooldown is a cooldown as operators read it.
type cooldown struct {
	Scope     string    `json:"scope"`
	Subject   string    `json:"subject"`
	Kind      string    `json:"kind"`
	Started   time.Time `json:"started"`
	Until     time.Time `json:"until"`
	Announced bool      `json:"announced"` // the upstream said how long
	Status    int       `json:"upstream_status"`
	RequestID string    `json:"request_id"`
}

func (n *Node) cooldowns(now time.Time) []cooldown {
	list := []cooldown{}
	for _, r := range n.scheduler.Rests(now) {
		list = append(list, cooldown{
			Scope: r.Scope.String(), Subject: r.Subject, Kind: r.Kind, Started: r.Started.UTC(), Until: r.Until.UTC(),
			Announced: r.Announced, Status: r.Status, RequestID: r.RequestID,
		})
	}
	return list
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(v) // a reader that is gone needs no answer
}
