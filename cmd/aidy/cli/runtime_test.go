package cli

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/resource"
	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

func TestCommandsToTheRunningStateTakeNamesForIds(t *testing.T) {
	t.Parallel()
	f := seeded()
	id := func(kind string) string { return resource.ID(f.rows[kind][0]) }
	f.add(&configv1.UpstreamCredential{Name: "key-1", TenantId: id("Tenant"), UpstreamId: id("Upstream")})
	const name = "key-1"
	f.aidy(t, "", "runtime", "clear", "--credential", name).want(t, ExitOK, []string{"cleared credential " + name + " (crd_", "on every node"}, nil)
	f.aidy(t, "", "affinity", "flush", "--credential", name, "-o", "json").want(t, ExitOK, []string{`"kind": "credential"`, id("UpstreamCredential")}, nil)
	f.aidy(t, "", "affinity", "flush", "-t", "dev").want(t, ExitOK, []string{"flushed the affinity of tenant dev (ten_"}, nil)
	want := []proto.Message{
		&adminv1.ClearRuntimeRequest{CredentialId: id("UpstreamCredential")},
		&adminv1.FlushAffinityRequest{CredentialId: id("UpstreamCredential")},
		&adminv1.FlushAffinityRequest{TenantId: id("Tenant")},
	}
	if len(f.commands) != len(want) {
		t.Fatalf("sent %v, want %v", f.commands, want)
	}
	for i := range want {
		if !proto.Equal(f.commands[i], want[i]) {
			t.Errorf("sent %v, want %v", f.commands[i], want[i])
		}
	}
	f.aidy(t, "", "affinity", "flush").want(t, ExitUsage, nil, []string{"--credential, --route or --tenant"})
	f.aidy(t, "", "affinity", "flush", "--credential", name, "--route", "main").want(t, ExitUsage, nil, []string{"--credential"})
	f.aidy(t, "", "runtime", "clear").want(t, ExitUsage, nil, []string{"--credential"})
}
