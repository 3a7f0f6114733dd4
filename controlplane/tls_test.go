package controlplane

import (
	"context"
	"crypto/tls"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"google.golang.org/protobuf/proto"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"
	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1/ledgerv1connect"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1/syncv1connect"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
	"github.com/aidy-gateway/aidy-gateway/shared/peer"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

func unmarshal(raw []byte, m proto.Message) error { return proto.Unmarshal(raw, m) }

// over is a client of the sync listener with TLS settings.
func over(t *testing.T, s *running, cfg *tls.Config) *connect.Client {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	protocols.SetHTTP1(true)
	transport := &http.Transport{TLSClientConfig: cfg, Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return connect.NewClient(connecthttp.NewTransport(&http.Client{Transport: transport}, "https://"+s.cfg.SyncListener.Addr().String()))
}

func TestANodeJoinsOnceAndIsKnownByItsCertificate(t *testing.T) {
	t.Parallel()
	s := start(t, pg.URL(t), func(c *Config) { c.SyncInsecure = false })
	nodes := adminv1connect.NewNodeServiceClient(s.rpc(ownerToken))
	made, err := nodes.CreateJoinToken(t.Context(), &adminv1.CreateJoinTokenRequest{Name: "edge"})
	if err != nil {
		t.Fatal(err)
	}
	token, err := peer.ParseJoinToken(secret.New(made.GetToken()))
	if err != nil {
		t.Fatal(err)
	}
	key, csr, err := peer.NewRequest()
	if err != nil {
		t.Fatal(err)
	}
	stranger := over(t, s, peer.EnrolTLS(token.CA))
	enrol := syncv1connect.NewConfigSyncServiceClient(stranger)
	req := &syncv1.EnrollRequest{JoinToken: made.GetToken(), CertificateRequest: csr, Node: &syncv1.NodeInfo{Name: "edge-1"}}
	joined, err := enrol.Enroll(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := enrol.Enroll(t.Context(), req); err == nil {
		t.Error("a join token let two nodes in")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if stream, err := enrol.Watch(ctx, &syncv1.WatchRequest{Node: &syncv1.NodeInfo{NodeId: joined.GetNodeId()}}); err == nil {
		if _, err = stream.Receive(); connect.CodeOf(err) != connect.CodeUnauthenticated {
			t.Errorf("without a certificate a node is answered %v", err)
		}
	}
	cert, id, err := peer.NodeCertificate(key, joined.GetCertificate())
	if err != nil || id != joined.GetNodeId() {
		t.Fatalf("certificate of %s, %v", id, err)
	}
	cfg, err := peer.NodeTLS(joined.GetCaCertificate(), func() *tls.Certificate { return &cert })
	if err != nil {
		t.Fatal(err)
	}
	mine := over(t, s, cfg)
	c := syncv1connect.NewConfigSyncServiceClient(mine)
	watch, stop := context.WithCancel(t.Context())
	defer stop()
	stream, err := c.Watch(watch, &syncv1.WatchRequest{Node: &syncv1.NodeInfo{NodeId: id, InstanceId: "b"}})
	if err != nil {
		t.Fatal(err)
	}
	hello, err := stream.Receive()
	if err != nil || hello.GetHello() == nil {
		t.Fatalf("first message %v, %v", hello, err)
	}
	keys, err := stream.Receive()
	if err != nil || len(keys.GetKeys().GetKeys()) != 1 || len(keys.GetKeys().GetPrefixSeed()) != 32 || len(keys.GetKeys().GetMacKeys()) != 1 {
		t.Fatalf("keys did not follow: %v", err)
	}

	usage := ledgerv1connect.NewUsageServiceClient(mine)
	for who, want := range map[string]connect.Code{id: 0, ident.New(ident.Node): connect.CodePermissionDenied} {
		_, err := usage.IngestUsage(t.Context(), &ledgerv1.IngestUsageRequest{NodeId: who, BootId: ident.New(ident.Boot), FirstSeq: 1, LastSeq: 1})
		if err == nil && want != 0 || err != nil && connect.CodeOf(err) != want {
			t.Errorf("usage in the name of %s: %v, want %v", who, err, want)
		}
	}
	_, err = ledgerv1connect.NewUsageServiceClient(stranger).IngestUsage(t.Context(), &ledgerv1.IngestUsageRequest{NodeId: id, BootId: ident.New(ident.Boot), FirstSeq: 1, LastSeq: 1})
	if connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("usage without a certificate: %v", err)
	}

	if _, err := nodes.RevokeNode(t.Context(), &adminv1.RevokeNodeRequest{Id: id, Reason: "lost"}); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err = stream.Receive(); err != nil {
			break
		}
	}
	again, err := c.Watch(ctx, &syncv1.WatchRequest{Node: &syncv1.NodeInfo{NodeId: id}})
	if err == nil {
		_, err = again.Receive()
	}
	if connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("a revoked node is answered %v", err)
	}
	_, err = usage.IngestUsage(t.Context(), &ledgerv1.IngestUsageRequest{NodeId: id, BootId: ident.New(ident.Boot), FirstSeq: 1, LastSeq: 1})
	if connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("usage of a revoked node: %v", err)
	}
}
