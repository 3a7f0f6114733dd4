package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

// Node is a node of the data plane as it enrolled.
type Node struct {
	ID                   string
	Name                 string
	Labels               map[string]string
	EnrolledAt           time.Time
	CertificateSerial    string
	CertificateExpiresAt time.Time // zero without a certificate
	RevokedAt            time.Time // zero while it may connect
	RevokeReason         string
}

const nodeColumns = `id, name, labels, enrolled_at, certificate_serial, coalesce(certificate_expires_at, '0001-01-01Z'),
	coalesce(revoked_at, '0001-01-01Z'), revoke_reason`

func scanNode(row pgx.CollectableRow) (n Node, err error) {
	var labels []string
	err = row.Scan(&n.ID, &n.Name, &labels, &n.EnrolledAt, &n.CertificateSerial, &n.CertificateExpiresAt, &n.RevokedAt, &n.RevokeReason)
	n.Labels = labelMap(labels)
	return n, err
}

// SaveNode adds a node, or renews name, labels and certificate of one that is
// known. It does not touch a revocation: a revoked node stays revoked.
func (s *Store) SaveNode(ctx context.Context, n Node) error {
	_, err := s.pool.Exec(ctx, `INSERT INTO node (id, name, labels, enrolled_at, certificate_serial, certificate_expires_at)
		VALUES ($1, $2, $3, clock_timestamp(), $4, $5)
		ON CONFLICT (id) DO UPDATE SET name = excluded.name, labels = excluded.labels,
			certificate_serial = CASE WHEN excluded.certificate_serial = '' THEN node.certificate_serial ELSE excluded.certificate_serial END,
			certificate_expires_at = coalesce(excluded.certificate_expires_at, node.certificate_expires_at)`,
		n.ID, n.Name, labelList(n.Labels), n.CertificateSerial, orNull(n.CertificateExpiresAt))
	if err != nil {
		return fmt.Errorf("save node %s: %w", n.ID, s.cat.classify(err, nil))
	}
	return nil
}

// GetNode returns a node. It fails with *NotFoundError.
func (s *Store) GetNode(ctx context.Context, id string) (Node, error) {
	nodes, err := s.nodes(ctx, "WHERE id = $1", id)
	if err == nil && len(nodes) == 0 {
		return Node{}, &NotFoundError{"Node", id}
	}
	if err != nil {
		return Node{}, err
	}
	return nodes[0], nil
}

// Nodes lists nodes by id, at most limit (MaxPage if 0), after an id.
func (s *Store) Nodes(ctx context.Context, limit int, after string) ([]Node, error) {
	return s.nodes(ctx, "WHERE id > $1 ORDER BY id LIMIT $2", after, pageLimit(limit))
}

func (s *Store) nodes(ctx context.Context, condition string, args ...any) ([]Node, error) {
	rows, err := s.pool.Query(ctx, "SELECT "+nodeColumns+" FROM node "+condition, args...)
	if err != nil {
		return nil, fmt.Errorf("read nodes: %w", s.cat.classify(err, nil))
	}
	nodes, err := pgx.CollectRows(rows, scanNode)
	if err != nil {
		return nil, fmt.Errorf("read nodes: %w", s.cat.classify(err, nil))
	}
	return nodes, nil
}

// RevokeNode marks a node as one that may not connect again, with an audit
// event. Its certificate stays valid by itself: callers refuse revoked nodes.
func (s *Store) RevokeNode(ctx context.Context, by Actor, id, reason string) error {
	return s.inTx(ctx, "revoke node "+id, func(pg pgx.Tx) error {
		tag, err := pg.Exec(ctx, "UPDATE node SET revoked_at = clock_timestamp(), revoke_reason = $2 WHERE id = $1 AND revoked_at IS NULL", id, reason)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return &NotFoundError{"Node", id}
		}
		return s.audit(ctx, pg, by.event("revoke", "Node", id, reason))
	})
}

// NodeStatus is what a node last reported of one view.
type NodeStatus struct {
	NodeID     string
	View       syncv1.View
	FromDisk   bool
	Report     *syncv1.ReportRequest // without signals
	ReportedAt time.Time
}

// SaveStatus stores a report, unless a newer one of the same start of the node is
// there already: reports are idempotent by (instance_id, seq). It tells whether
// the report was new. The node must be known (SaveNode).
func (s *Store) SaveStatus(ctx context.Context, report *syncv1.ReportRequest, fromDisk bool) (fresh bool, err error) {
	kept, _ := proto.Clone(report).(*syncv1.ReportRequest)
	kept.Signals = nil
	raw, err := Marshal(kept)
	if err != nil {
		return false, fmt.Errorf("encode report: %w", err)
	}
	node, running := report.GetNode(), report.GetRunning()
	tag, err := s.pool.Exec(ctx, `INSERT INTO node_status AS old (node_id, view, instance_id, seq, version, outcome, epoch, generation, from_disk, report, reported_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, clock_timestamp())
		ON CONFLICT (node_id, view) DO UPDATE SET instance_id = excluded.instance_id, seq = excluded.seq, version = excluded.version,
			outcome = excluded.outcome, epoch = excluded.epoch, generation = excluded.generation, from_disk = excluded.from_disk,
			report = excluded.report, reported_at = excluded.reported_at
		WHERE old.instance_id <> excluded.instance_id OR old.seq < excluded.seq`,
		node.GetNodeId(), int16(report.GetView()), node.GetInstanceId(), int64(report.GetSeq()), node.GetVersion(), int16(report.GetOutcome()),
		int64(running.GetEpoch()), int64(running.GetGeneration()), fromDisk, raw)
	if err != nil {
		return false, fmt.Errorf("save status of node %s: %w", node.GetNodeId(), s.cat.classify(err, nil))
	}
	return tag.RowsAffected() > 0, nil
}

// Statuses returns what nodes last reported: of the given nodes, or of all.
func (s *Store) Statuses(ctx context.Context, nodeIDs ...string) ([]NodeStatus, error) {
	rows, err := s.pool.Query(ctx, `SELECT node_id, view, from_disk, report, reported_at FROM node_status
		WHERE $1::text[] IS NULL OR node_id = ANY($1) ORDER BY node_id, view`, nodeIDs)
	if err != nil {
		return nil, fmt.Errorf("read node status: %w", s.cat.classify(err, nil))
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (st NodeStatus, err error) {
		var view int16
		var raw []byte
		if err = row.Scan(&st.NodeID, &view, &st.FromDisk, &raw, &st.ReportedAt); err != nil {
			return st, err
		}
		st.View, st.Report = syncv1.View(view), &syncv1.ReportRequest{}
		return st, proto.Unmarshal(raw, st.Report)
	})
	if err != nil {
		return nil, fmt.Errorf("read node status: %w", s.cat.classify(err, nil))
	}
	return out, nil
}

// JoinToken lets one node enrol. Only the SHA-256 of its secret is stored.
type JoinToken struct {
	ID, Name  string
	SHA256    [32]byte
	Labels    map[string]string
	CreatedBy string
	CreatedAt time.Time
	ExpiresAt time.Time
	UsedAt    time.Time // zero while unused
	NodeID    string
}

// CreateJoinToken stores a token, with an audit event.
func (s *Store) CreateJoinToken(ctx context.Context, by Actor, t JoinToken) error {
	return s.inTx(ctx, "create join token", func(pg pgx.Tx) error {
		if _, err := pg.Exec(ctx, `INSERT INTO join_token (id, name, sha256, labels, created_by, created_at, expires_at)
			VALUES ($1, $2, $3, $4, $5, clock_timestamp(), $6)`, t.ID, t.Name, t.SHA256[:], labelList(t.Labels), by.ID, t.ExpiresAt); err != nil {
			return err
		}
		return s.audit(ctx, pg, by.event("create", "JoinToken", t.ID, t.Name))
	})
}

// UseJoinToken spends a token for a node and returns it: once, and only before it
// expires. It fails with ErrNotFound for a token that is unknown, spent or
// expired, without saying which. The node is saved in the same transaction, with
// the token's labels.
func (s *Store) UseJoinToken(ctx context.Context, sha256 [32]byte, n Node) (JoinToken, error) {
	var t JoinToken
	err := s.inTx(ctx, "use join token", func(pg pgx.Tx) error {
		var labels []string
		err := pg.QueryRow(ctx, `SELECT id, name, labels, created_by, created_at, expires_at FROM join_token
			WHERE sha256 = $1 AND used_at IS NULL AND expires_at > clock_timestamp() FOR UPDATE`, sha256[:]).
			Scan(&t.ID, &t.Name, &labels, &t.CreatedBy, &t.CreatedAt, &t.ExpiresAt)
		if err != nil {
			return err
		}
		t.Labels, t.SHA256, t.NodeID = labelMap(labels), sha256, n.ID
		if _, err := pg.Exec(ctx, `INSERT INTO node (id, name, labels, enrolled_at, certificate_serial, certificate_expires_at)
			VALUES ($1, $2, $3, clock_timestamp(), $4, $5)`, n.ID, n.Name, labels, n.CertificateSerial, orNull(n.CertificateExpiresAt)); err != nil {
			return err
		}
		if err := pg.QueryRow(ctx, "UPDATE join_token SET used_at = clock_timestamp(), node_id = $2 WHERE id = $1 RETURNING used_at", t.ID, n.ID).Scan(&t.UsedAt); err != nil {
			return err
		}
		return s.audit(ctx, pg, Actor{ID: n.ID, Kind: "node"}.event("enroll", "Node", n.ID, n.Name))
	})
	return t, err
}

// JoinTokens lists tokens by id, at most limit (MaxPage if 0), after an id.
func (s *Store) JoinTokens(ctx context.Context, limit int, after string) ([]JoinToken, error) {
	rows, err := s.pool.Query(ctx, `SELECT id, name, sha256, labels, created_by, created_at, expires_at, coalesce(used_at, '0001-01-01Z'), coalesce(node_id, '')
		FROM join_token WHERE id > $1 ORDER BY id LIMIT $2`, after, pageLimit(limit))
	if err != nil {
		return nil, fmt.Errorf("list join tokens: %w", s.cat.classify(err, nil))
	}
	tokens, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (t JoinToken, err error) {
		var labels []string
		var hash []byte
		err = row.Scan(&t.ID, &t.Name, &hash, &labels, &t.CreatedBy, &t.CreatedAt, &t.ExpiresAt, &t.UsedAt, &t.NodeID)
		t.Labels = labelMap(labels)
		copy(t.SHA256[:], hash)
		return t, err
	})
	if err != nil {
		return nil, fmt.Errorf("list join tokens: %w", s.cat.classify(err, nil))
	}
	return tokens, nil
}

// event is an audit event of this actor.
func (a Actor) event(action, kindName, id, name string) AuditEvent {
	return AuditEvent{Actor: a.ID, ActorKind: a.Kind, Remote: a.Remote, Action: action, Kind: kindName, ResourceID: id, ResourceName: name}
}

func labelList(labels map[string]string) []string {
	pairs := make([]string, 0, len(labels))
	for key, value := range labels {
		pairs = append(pairs, key+"="+value)
	}
	slices.Sort(pairs)
	return pairs
}

func labelMap(pairs []string) map[string]string {
	labels := make(map[string]string, len(pairs))
	for _, pair := range pairs {
		key, value, _ := strings.Cut(pair, "=")
		labels[key] = value
	}
	return labels
}

func orNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}

func pageLimit(limit int) int {
	if limit <= 0 || limit > MaxPage {
		return MaxPage
	}
	return limit
}

var errLastOwner = errors.New("the last owner cannot be removed, disabled or given another role")
