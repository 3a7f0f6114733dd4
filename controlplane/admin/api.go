// Package admin serves the admin API, aidy.admin.v1: a file per resource and a
// type per service. A handler is the use case: what the caller may do, is the
// input sound, one transaction.
//
// Every write is one generation of the configuration. It is compiled and judged
// in its transaction by the code that nodes run, so what they would refuse is
// never committed.
package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"buf.build/go/protovalidate"
	"connectrpc.com/connect/v2"
	"connectrpc.com/validate"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/configcheck"
	"github.com/aidy-gateway/aidy-gateway/shared/peer"
	"github.com/aidy-gateway/aidy-gateway/shared/seal"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"

	"github.com/aidy-gateway/aidy-gateway/controlplane/ledger"
	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

// Fleet is how the API reaches the nodes.
type Fleet interface {
	// Poke says that a generation was committed, so that it leaves at once. It does
	// not block.
	Poke(generation uint64)
	// WaitApplied waits until quorumPercent of the live nodes run a generation, or
	// ctx ends, and says how far it came.
	WaitApplied(ctx context.Context, generation uint64, quorumPercent int) Applied
	// Nodes returns every node with what it last reported, by id.
	Nodes(ctx context.Context) ([]*adminv1.Node, error)
	// Changed returns a channel that is closed when a node or its state changes.
	Changed() <-chan struct{}
	// Revoke ends the streams of a node and refuses it from now on.
	Revoke(nodeID string)
	// Retry offers a node again what it refused.
	Retry(nodeID string)
	// Tell passes a command, which is stored already, on to the nodes.
	Tell(g *syncv1.Signal)
}

// Applied is how far nodes are with a generation.
type Applied struct {
	Acked, Pending []string
	Refused        []*adminv1.NodeRefusal
}

// Entries lists rows of the usage ledger.
type Entries interface {
	ListEntries(ctx context.Context, f ledger.Filter, p ledger.Page) ([]*adminv1.LedgerEntry, string, error)
}

// Config tunes an API. A zero field takes the default it documents.
type Config struct {
	// CA is the hash of the authority of node certificates, which join tokens
	// carry. Zero: no join tokens can be made.
	CA peer.Hash
	// PrintSettings writes the effective settings of the process, secrets
	// redacted. Default: none are shown.
	PrintSettings func(io.Writer) error
	// Decider answers questions about decisions. Default: they are not answered.
	Decider Decider
	// Requests is the request log. Default: there is none.
	Requests Requests
}

// API serves aidy.admin.v1. Safe for concurrent use.
type API struct {
	store   *store.Store
	fleet   Fleet
	entries Entries
	check   *configcheck.Checker
	rules   protovalidate.Validator
	vault   *vault
	kinds   catalog
	cfg     Config
	log     zerolog.Logger

	deciding chan struct{}
}

// New returns an API. st must have been made with a Compiler and a Judge of this
// package. ring holds the root keys under which secrets are wrapped.
func New(st *store.Store, fleet Fleet, entries Entries, ring seal.Keyring, cfg Config, log zerolog.Logger) (*API, error) {
	if st == nil || fleet == nil || entries == nil || ring == nil {
		return nil, errors.New("the admin API needs a store, a fleet, a ledger and a keyring")
	}
	check, err := configcheck.New(configcheck.Config{CrossDomain: true})
	if err != nil {
		return nil, err
	}
	rules, err := protovalidate.New()
	if err != nil {
		return nil, fmt.Errorf("compile the rules of the contracts: %w", err)
	}
	return &API{
		store: st, fleet: fleet, entries: entries, check: check, rules: rules, vault: &vault{ring}, kinds: newCatalog(),
		cfg: cfg, log: log.With().Str("component", "admin").Logger(), deciding: make(chan struct{}, deciding),
	}, nil
}

// Server returns a server of every service, behind gate, which says who calls:
// access.Gate.Interceptor, or access.Gate.As within the process.
func (a *API) Server(gate connect.ServerInterceptor) *connect.Server {
	server := connect.NewServer(a.mapping(), gate, missing(), validate.NewServerInterceptor(validate.WithValidator(callRules{a.rules})))
	a.register(server)
	return server
}

// callRules check a call, but not the resources in it: an update holds a part of
// one, and whole ones are checked with better words by the shared checker.
type callRules struct{ protovalidate.Validator }

// Validate implements protovalidate.Validator.
func (r callRules) Validate(m proto.Message, options ...protovalidate.ValidationOption) error {
	return r.Validator.Validate(m, append(options, protovalidate.WithFilter(protovalidate.FilterFunc(ofCall)))...)
}

func ofCall(m protoreflect.Message, d protoreflect.Descriptor) bool {
	fd, ok := d.(protoreflect.FieldDescriptor)
	if !ok || fd.Message() == nil || fd.IsMap() {
		return true
	}
	if fd.Message().ParentFile().Package() == "aidy.config.v1" && fd.Message().Name() != "SchedulingPolicy" {
		return false
	}
	return fd.Message().Name() != "AdminAccount" || !strings.HasPrefix(string(m.Descriptor().Name()), "Update")
}

// tenantOfShard is the tenant that a shard is about, "" if it is about none or
// its key does not say.
func tenantOfShard(key string) string {
	n, err := shard.Parse(key)
	if err != nil {
		return ""
	}
	if n.Kind == shard.KindTenant || n.Kind == shard.KindCredentials || n.Kind == shard.KindSubject && n.Subject == shard.SubjectTenant {
		return n.ID
	}
	return ""
}
