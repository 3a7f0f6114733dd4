// Package controlplane is the control plane as a whole: it puts the parts below it
// together, opens the listeners and runs until it is told to stop. Replicas need
// no leader: any number of servers work on one database.
package controlplane

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

// Config is the configuration of a control plane as its file, environment and
// flags give it.
type Config struct {
	Database struct {
		URL            secret.Text `key:"url" required:"true" help:"PostgreSQL connection string of the configuration and the ledger."`
		MaxConnections int         `key:"max_connections" default:"16" help:"Connections to PostgreSQL in all, besides one that listens."`
	} `key:"database"`
	RequestLog struct {
		URL            secret.Text `key:"url" help:"PostgreSQL connection string of the request log; empty keeps it in the database of the configuration."`
		MaxConnections int         `key:"max_connections" default:"4" help:"Connections for the request log."`
		KeepDays       int         `key:"keep_days" default:"30" help:"Days that rows of the request log are kept."`
	} `key:"request_log"`
	AutoMigrate bool `key:"auto_migrate" default:"false" help:"Brings the database to the schema of this release at the start. Without it a database that does not fit is refused."`

	AdminAddr string `key:"admin_addr" default:"127.0.0.1:8081" help:"Address of the admin API. It speaks HTTP without TLS: put TLS in front of it."`
	SyncAddr  string `key:"sync_addr" default:"127.0.0.1:8082" help:"Address of the node listener, with mutual TLS of the installation's own authority."`
	OpsAddr   string `key:"ops_addr" default:"127.0.0.1:9091" help:"Address of the operations listener: health, readiness, metrics, profiles. Keep it off public networks."`

	SyncInsecure bool     `key:"sync_insecure" default:"false" help:"Serves nodes without TLS and believes the ids they state; only on loopback."`
	SyncHosts    []string `key:"sync_hosts" help:"Further names and addresses in the certificate of the node listener; nodes need none."`

	RootKey     secret.Text `key:"root_key" help:"Root keys in base64, with commas, the current one first. They wrap every other key."`
	RootKeyFile string      `key:"root_key_file" default:"/var/lib/aidy/root.key" help:"File of the root keys where root_key is empty; made at the first start."`

	BootstrapToken     secret.Text `key:"bootstrap_token" help:"Token of the first owner, for an installation without administrators."`
	BootstrapTokenFile string      `key:"bootstrap_token_file" default:"/var/lib/aidy/bootstrap.token" help:"File to which a token of the first owner is written where bootstrap_token is empty."`

	Drain time.Duration `key:"drain" default:"30s" help:"Time that running calls and streams get when the process stops."`

	Log struct {
		Level  string `key:"level" default:"info" enum:"trace,debug,info,warn,error,disabled" help:"Least level that is written."`
		Format string `key:"format" default:"json" enum:"json,console" help:"Form of log lines."`
	} `key:"log"`
	OTLPEndpoint string `key:"otlp_endpoint" help:"URL of an OTLP/HTTP collector of traces; empty traces nothing."`

	// AdminListener, SyncListener and OpsListener are used in place of the
	// addresses where they are set. The server closes them.
	AdminListener, SyncListener, OpsListener net.Listener `key:"-"`
	// Version is the release of the program.
	Version string `key:"-"`
	// Heartbeat between this control plane and its nodes; 0 is the default.
	Heartbeat time.Duration `key:"-"`
}

// Validate says what is wrong with the values together.
func (c *Config) Validate() error {
	var errs []error
	if c.Database.MaxConnections < 4 {
		errs = append(errs, fmt.Errorf("database.max_connections: %d is too few; give at least 4", c.Database.MaxConnections))
	}
	if c.RequestLog.MaxConnections < 0 || c.RequestLog.KeepDays < 0 {
		errs = append(errs, errors.New("request_log: max_connections and keep_days must not be negative"))
	}
	if c.Drain < 0 {
		errs = append(errs, errors.New("drain: must not be negative"))
	}
	if c.SyncInsecure && c.SyncListener == nil && !loopback(c.SyncAddr) {
		errs = append(errs, fmt.Errorf("sync_insecure: only on loopback, but sync_addr is %s; use 127.0.0.1, or leave TLS on", c.SyncAddr))
	}
	if c.SyncInsecure && c.SyncListener != nil && !loopbackListener(c.SyncListener) {
		errs = append(errs, fmt.Errorf("sync_insecure: only on loopback, but the listener is at %s", c.SyncListener.Addr()))
	}
	if c.RootKey.IsZero() && c.RootKeyFile == "" {
		errs = append(errs, errors.New("root_key, root_key_file: give one of the two"))
	}
	return errors.Join(errs...)
}

// loopback reports whether an address to listen at is on the loopback interface.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// loopbackListener is loopback for a listener that is open; one without an
// internet address stands within this machine.
func loopbackListener(l net.Listener) bool {
	addr, ok := l.Addr().(*net.TCPAddr)
	return !ok || addr.IP.IsLoopback()
}
