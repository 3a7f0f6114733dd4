package distribute

import (
	"context"
	"errors"
	"time"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

// Head is where the stored configuration stands.
type Head struct {
	Epoch      uint64
	Generation uint64 // of the newest change of either view
	Identity   *syncv1.Position
	Policy     *syncv1.Position
}

// Change is the net difference of one shard between two positions.
type Change struct {
	Key string
	// Group joins shards that must become visible together.
	Group uint32
	// Hash of the bytes it holds now; the zero value for a shard that is no more.
	Hash    shard.Hash
	Removed bool
}

// Changes is the way from a generation of a view to the head.
type Changes struct {
	Head Head
	// Reachable is false if the log does not go back that far.
	Reachable bool
	// Shards holds each changed shard once.
	Shards []Change
}

// Store is where configuration is stored. Its methods are called from several
// goroutines.
type Store interface {
	// Head reads where the configuration stands.
	Head(ctx context.Context) (Head, error)
	// Load calls fn for every shard of a view and returns the head that they
	// belong to. payload is valid during the call only.
	Load(ctx context.Context, view syncv1.View, fn func(key string, hash shard.Hash, payload []byte) error) (Head, error)
	// Changes returns what changed in a view after a generation.
	Changes(ctx context.Context, view syncv1.View, since uint64) (Changes, error)
	// Blobs returns stored bytes by hash. An unknown hash is absent.
	Blobs(ctx context.Context, hashes []shard.Hash) (map[shard.Hash][]byte, error)
	// Listen calls fn with the head when it moves and at least every second or so,
	// from one goroutine. It returns when ctx ends.
	Listen(ctx context.Context, fn func(Head)) error
}

// Errors of a Nodes.
var (
	// ErrNoNode: there is no such node.
	ErrNoNode = errors.New("no such node")
	// ErrNoToken: a join token is unknown, spent or expired.
	ErrNoToken = errors.New("join token unknown, spent or expired")
)

// Node is a node of the data plane as it enrolled.
type Node struct {
	ID                   string
	Name                 string
	Labels               map[string]string
	EnrolledAt           time.Time
	CertificateExpiresAt time.Time
	RevokedAt            time.Time // zero while it may connect
}

// Status is what a node last reported of one view.
type Status struct {
	Report     *syncv1.ReportRequest
	FromDisk   bool
	ReportedAt time.Time
}

// Nodes is where nodes and their reports are stored. Its methods are called from
// several goroutines.
type Nodes interface {
	// UseJoinToken spends a token, by the SHA-256 of its secret, and saves the
	// node with the token's labels. It fails with ErrNoToken.
	UseJoinToken(ctx context.Context, secretHash [32]byte, n Node) error
	// SaveNode adds a node or renews what is known of it, except a revocation.
	SaveNode(ctx context.Context, n Node) error
	// GetNode fails with ErrNoNode.
	GetNode(ctx context.Context, id string) (Node, error)
	// AllNodes lists every node.
	AllNodes(ctx context.Context) ([]Node, error)
	// SaveStatus stores a report unless one with the same instance_id and an equal
	// or larger seq is there for that node and view.
	SaveStatus(ctx context.Context, report *syncv1.ReportRequest, fromDisk bool) error
	// AllStatuses lists the last report of each node and view.
	AllStatuses(ctx context.Context) ([]Status, error)
}

// Keys gives the content keys and fleet secrets that are alive.
type Keys interface {
	ContentKeys(ctx context.Context) (*syncv1.ContentKeys, error)
}

// Authority issues certificates to nodes; *peer.CA is one.
type Authority interface {
	// DER returns the authority's certificate.
	DER() []byte
	// IssueNode signs a request (PKCS #10, DER) for a node.
	IssueNode(csr []byte, nodeID string, now time.Time) ([]byte, error)
}
