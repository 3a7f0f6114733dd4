package dev

import (
	"context"
	"net"
	"net/http"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"

	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/cli"
	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"
)

// probeLimit bounds the question whether a token works.
const probeLimit = 10 * time.Second

// accepted reports whether the admin API takes a token, asked as its users ask.
func accepted(ctx context.Context, adminURL, token string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	transport := &http.Transport{DialContext: (&net.Dialer{Timeout: time.Second}).DialContext, DisableKeepAlives: true}
	rpc := connect.NewClient(connecthttp.NewTransport(&http.Client{Transport: transport}, adminURL), cli.Bearer(token))
	_, err := adminv1connect.NewAdminServiceClient(rpc).WhoAmI(ctx, &adminv1.WhoAmIRequest{})
	if connect.CodeOf(err) == connect.CodeUnauthenticated && err != nil {
		return false, nil
	}
	return err == nil, err
}
