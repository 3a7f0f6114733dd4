package dataplane

import (
	"errors"
	"fmt"
	"time"

	"github.com/aidy-gateway/aidy-gateway/shared/secret"
	"github.com/aidy-gateway/aidy-gateway/shared/settings"
)

// Config is the configuration of a node as its file, environment and flags give it.
type Config struct {
	InferenceAddr string            `key:"inference_addr" default:"127.0.0.1:8080" help:"Address of the public inference listener."`
	OpsAddr       string            `key:"ops_addr" default:"127.0.0.1:9090" help:"Address of the operations listener: health, readiness, metrics, profiles. Keep it off public networks."`
	DataDir       string            `key:"data_dir" default:"/var/lib/aidy" help:"Directory of this node alone: last good configuration, identity, usage log. It must survive a restart of the process."`
	Name          string            `key:"name" help:"Name shown to operators; empty takes the host's."`
	Labels        map[string]string `key:"labels" help:"Labels that choose what this node gets during a rollout."`
	SecretFolder  string            `key:"secret_folder" help:"The only folder in which credentials given as file:PATH may be; empty refuses them."`

	ControlPlane struct {
		Endpoints []string    `key:"endpoints" default:"https://127.0.0.1:8082" help:"Node sync addresses of the control plane's replicas."`
		JoinToken secret.Text `key:"join_token" help:"Token that enrols a node which has no identity in data_dir yet; works once."`
		Insecure  bool        `key:"insecure" default:"false" help:"Talks to the control plane without TLS; only on loopback."`
		NodeID    string      `key:"node_id" help:"Id of the node where insecure is set."`
	} `key:"control_plane"`

	MaxBody        settings.Bytes `key:"max_body" default:"16MiB" help:"Largest request body, unless a route says otherwise; at most 64MiB."`
	MaxHeaderBytes settings.Bytes `key:"max_header_bytes" default:"64KiB" help:"Largest request head."`
	Drain          time.Duration  `key:"drain" default:"30s" help:"Time that running requests get when the node stops."`
	ShipDrain      time.Duration  `key:"ship_drain" default:"5s" help:"Time for shipping usage when the node stops; what is left is shipped at the next start."`

	Upstream struct {
		MaxIdle        int `key:"max_idle" default:"4096" help:"Idle connections to providers in all."`
		MaxIdlePerHost int `key:"max_idle_per_host" default:"1024" help:"Idle connections to one host."`
	} `key:"upstream"`

	WAL struct {
		MaxBytes     settings.Bytes `key:"max_bytes" default:"8GiB" help:"Bound of the usage log on disk."`
		Sync         string         `key:"sync" default:"group" enum:"group,always" help:"When an event is on disk: within sync_interval, or before the last bytes of its answer are released."`
		SyncInterval time.Duration  `key:"sync_interval" default:"20ms" help:"Interval of group syncs."`
	} `key:"wal"`

	RequestLog struct {
		MaxBytes settings.Bytes `key:"max_bytes" default:"1GiB" help:"Bound of the request log on disk; the oldest rows go first."`
	} `key:"request_log"`

	Log struct {
		Level  string `key:"level" default:"info" enum:"trace,debug,info,warn,error,disabled" help:"Least level that is written."`
		Format string `key:"format" default:"json" enum:"json,console" help:"Form of log lines."`
	} `key:"log"`

	OTLPEndpoint string `key:"otlp_endpoint" help:"URL of an OTLP/HTTP collector of traces; empty traces nothing."`

	// Version is the release of the program.
	Version string `key:"-"`
}

// Validate says what is wrong with the values together.
func (c *Config) Validate() error {
	var errs []error
	if c.DataDir == "" {
		errs = append(errs, errors.New("data_dir: must not be empty"))
	}
	if len(c.ControlPlane.Endpoints) == 0 {
		errs = append(errs, errors.New("control_plane.endpoints: give at least one address, such as https://control-plane:8082"))
	}
	if c.MaxBody <= 0 || c.MaxBody > 64<<20 {
		errs = append(errs, fmt.Errorf("max_body: %s is not between 1B and 64MiB", c.MaxBody))
	}
	switch {
	case c.Drain < 0 || c.ShipDrain < 0:
		errs = append(errs, errors.New("drain, ship_drain: must not be negative"))
	case c.ShipDrain >= c.Drain:
		errs = append(errs, fmt.Errorf("ship_drain: %s is not below drain, %s, of which it is a part", c.ShipDrain, c.Drain))
	}
	return errors.Join(errs...)
}
