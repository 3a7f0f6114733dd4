package dataplane

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"connectrpc.com/connect/v2"

	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1/ledgerv1connect"

	"github.com/aidy-gateway/aidy-gateway/dataplane/meter"
	"github.com/aidy-gateway/aidy-gateway/dataplane/snapshot"
)

// ledgerClient takes usage to the control plane. It asks another replica after a
// failure, and shows the certificate that the node has then.
type ledgerClient struct {
	dial       snapshot.Dial
	endpoints  []string
	subscriber *snapshot.Subscriber

	mu        sync.Mutex
	client    ledgerv1connect.UsageServiceClient // guarded by mu; nil before the first call and after a failure
	transport connect.Transport                  // guarded by mu
}

var _ meter.Ingester = (*ledgerClient)(nil)

// IngestUsage implements meter.Ingester.
func (c *ledgerClient) IngestUsage(ctx context.Context, batch *ledgerv1.IngestUsageRequest) (*ledgerv1.IngestUsageResponse, error) {
	client, err := c.connected()
	if err != nil {
		return nil, err
	}
	resp, err := client.IngestUsage(ctx, batch)
	if err != nil {
		c.close()
	}
	return resp, err
}

func (c *ledgerClient) connected() (ledgerv1connect.UsageServiceClient, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil {
		return c.client, nil
	}
	_, conf, err := c.subscriber.Identity()
	if err != nil {
		return nil, err
	}
	endpoint := c.endpoints[rand.IntN(len(c.endpoints))]
	t, err := c.dial(endpoint, conf)
	if err != nil {
		return nil, fmt.Errorf("reach the ledger at %s: %w", endpoint, err)
	}
	c.transport, c.client = t, ledgerv1connect.NewUsageServiceClient(connect.NewClient(t))
	return c.client, nil
}

func (c *ledgerClient) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if closer, ok := c.transport.(io.Closer); ok {
		closer.Close()
	}
	c.client, c.transport = nil, nil
}

// identityPoll is how often a node that has no identity yet looks for one.
const identityPoll = 200 * time.Millisecond

// ship carries usage to the ledger once the node knows who it is.
func (n *Node) ship(ctx context.Context) error {
	id, err := n.identity(ctx)
	if err != nil {
		return nil // the node ends before it ever had an identity, so it served nothing
	}
	client := &ledgerClient{dial: n.deps.Dial, endpoints: n.cfg.ControlPlane.Endpoints, subscriber: n.subscriber}
	defer client.close()
	s, err := meter.NewShipper(n.wal, client, id, meter.ShipperConfig{}, n.log,
		n.deps.Meters.Meter("github.com/aidy-gateway/aidy-gateway/dataplane/meter"))
	if err != nil {
		return fmt.Errorf("prepare the shipper: %w", err)
	}
	if err := s.Run(ctx); err != nil {
		return err
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.cfg.ShipDrain)
	defer cancel()
	if left, err := s.Drain(drain); err != nil {
		n.log.Warn().Uint64("events", left.Events).Err(err).Msg("usage stays in the log of this node and is shipped at its next start")
	}
	return nil
}

func (n *Node) identity(ctx context.Context) (string, error) {
	tick := time.NewTicker(identityPoll)
	defer tick.Stop()
	for {
		if id := n.subscriber.NodeID(); id != "" {
			return id, nil
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-tick.C:
		}
	}
}
