package snapshot

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"

	connect "connectrpc.com/connect/v2"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

// Config says who a node is and where its control plane and its files are. A zero
// field takes the default it documents.
type Config struct {
	// Endpoints are the base addresses of the control plane's replicas, https unless
	// Insecure. One is picked at random for each stream. At least one.
	Endpoints []string

	// DataDir holds the last good configuration and the node's identity. It belongs
	// to this node alone and is created if it does not exist. Empty keeps nothing on
	// disk: such a node starts with nothing, and needs Insecure.
	DataDir string

	// JoinToken enrols a node that has no identity in DataDir yet. It works once.
	JoinToken secret.Text

	// Insecure talks to the control plane without TLS, for processes that hold both.
	// Every endpoint must then be on loopback, and NodeID is required.
	Insecure bool
	// NodeID is the node's id where Insecure is set. Otherwise the certificate says it.
	NodeID string

	// Name is shown to operators. Default: none.
	Name string
	// Version is the node's release. A generation that one version refused is offered
	// to another one again.
	Version string
	// Labels choose what a node gets during a rollout. At most 32.
	Labels map[string]string

	// SecretFolder is the only folder that secrets given as file:PATH may be in.
	// Empty refuses such secrets.
	SecretFolder string

	// Probe tries each View before it serves. Default: none.
	Probe Probe

	// Swapped hears of every View right after it began to serve: old is the one before,
	// nil for the first, and tenants are those whose policy or secrets changed. The next
	// update waits for it. Default: nobody hears.
	Swapped func(old, now *View, tenants []string)

	// Heard gets what other nodes and operators tell of the running state. What was
	// told before can come again after each reconnection. Default: nobody does.
	Heard func(signals []*syncv1.Signal)

	// CompactBytes is how much a journal may grow before a new base state replaces
	// it. Default 64 MiB.
	CompactBytes int64
	// FetchBytes bounds what one fetch of shards may bring. Default 1 GiB.
	FetchBytes int64
}

// Dial makes the transport to an endpoint, which is one of Config.Endpoints. tls is
// nil where Config.Insecure is set. A transport that is an io.Closer is closed when
// it is no longer needed.
type Dial func(endpoint string, tls *tls.Config) (connect.Transport, error)

const (
	defaultCompact = 64 << 20
	defaultFetch   = 1 << 30
)

// checked returns cfg with its defaults, or what is wrong with it.
func (cfg Config) checked() (Config, error) {
	if len(cfg.Endpoints) == 0 {
		return cfg, errors.New("no control plane endpoint: give at least one address")
	}
	for _, e := range cfg.Endpoints {
		if err := checkEndpoint(e, cfg.Insecure); err != nil {
			return cfg, err
		}
	}
	switch {
	case cfg.Insecure && !ident.Valid(ident.Node, cfg.NodeID):
		return cfg, fmt.Errorf("node id %q: without TLS the node needs an id of kind %s", cfg.NodeID, ident.Node)
	case !cfg.Insecure && cfg.DataDir == "":
		return cfg, errors.New("no data directory: the node's certificate has to be kept somewhere")
	case len(cfg.Labels) > 32:
		return cfg, fmt.Errorf("node has %d labels, at most 32", len(cfg.Labels))
	case cfg.CompactBytes < 0 || cfg.FetchBytes < 0:
		return cfg, errors.New("sizes must not be negative")
	}
	if cfg.CompactBytes == 0 {
		cfg.CompactBytes = defaultCompact
	}
	if cfg.FetchBytes == 0 {
		cfg.FetchBytes = defaultFetch
	}
	return cfg, nil
}

func checkEndpoint(endpoint string, insecure bool) error {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		return fmt.Errorf("control plane endpoint %q: expected an address such as https://control.example:7443", endpoint)
	}
	if !insecure {
		if u.Scheme != "https" {
			return fmt.Errorf("control plane endpoint %q: https is required; plain connections are for loopback only", endpoint)
		}
		return nil
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("control plane endpoint %q: a connection without TLS must stay on loopback", endpoint)
}
