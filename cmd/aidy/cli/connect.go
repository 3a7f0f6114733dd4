package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"

	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/devstate"
	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/resource"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"
)

// maxAnswer bounds an answer of the admin API: a page of the largest resources.
const maxAnswer = 64 << 20

// admin is a connection to an admin API.
type admin struct {
	url       string
	rpc       *connect.Client
	resources *resource.Client
	config    adminv1connect.ConfigServiceClient
	consumers adminv1connect.ConsumerServiceClient
	nodes     adminv1connect.NodeServiceClient
	observe   adminv1connect.ObserveServiceClient
	logs      adminv1connect.LogServiceClient
}

// connect finds the control plane and returns clients of it. Nothing is sent yet.
func (a *app) connect() (*admin, error) {
	target, token, err := a.target()
	if err != nil {
		return nil, err
	}
	dial := a.Dial
	if dial == nil {
		dial = dialHTTP
	}
	transport, err := dial(target)
	if err != nil {
		return nil, err
	}
	rpc := connect.NewClient(transport, Bearer(token))
	return &admin{
		url: target, rpc: rpc, resources: resource.NewClient(rpc),
		config:    adminv1connect.NewConfigServiceClient(rpc),
		consumers: adminv1connect.NewConsumerServiceClient(rpc),
		nodes:     adminv1connect.NewNodeServiceClient(rpc),
		observe:   adminv1connect.NewObserveServiceClient(rpc),
		logs:      adminv1connect.NewLogServiceClient(rpc),
	}, nil
}

// target is the address of the admin API and the token for it.
func (a *app) target() (target, token string, err error) {
	g := a.globals
	target, token = strings.TrimRight(g.AdminURL, "/"), g.Token
	path := filepath.Join(g.Dir, devstate.File)
	if target == "" || token == "" {
		dev, err := devstate.Read(path)
		switch {
		case err == nil && (target == "" || target == dev.AdminURL):
			// The token of dev.json goes to the address of dev.json and nowhere else.
			if target = dev.AdminURL; token == "" {
				token = dev.AdminToken
			}
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return "", "", err
		}
	}
	switch {
	case target == "":
		return "", "", fmt.Errorf("no control plane is named: set --admin-url and --token (AIDY_ADMIN_URL, AIDY_ADMIN_TOKEN), or start one with `aidy dev` (looked for %s)", path)
	case token == "":
		return "", "", fmt.Errorf("no token for %s: set --token or AIDY_ADMIN_TOKEN", target)
	}
	u, err := url.Parse(target)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" {
		return "", "", usage("--admin-url: expected an address such as https://control-plane:8081, got %q", redactURL(target))
	}
	if u.Scheme == "http" && !loopback(u.Hostname()) {
		a.progress("aidy: warning: the token crosses the network in clear text to %s; use https", u.Host)
	}
	return target, token, nil
}

// builtinURL is the scripted provider of the aidy dev in --dir, empty if there is none.
func (a *app) builtinURL() string {
	dev, err := devstate.Read(filepath.Join(a.globals.Dir, devstate.File))
	if err != nil || a.globals.AdminURL != "" && strings.TrimRight(a.globals.AdminURL, "/") != dev.AdminURL {
		return ""
	}
	return dev.BuiltinURL
}

// redactURL drops what could be a secret from an address that is not understood.
func redactURL(s string) string {
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		return "…" + s[i:]
	}
	return s
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func dialHTTP(target string) (connect.Transport, error) {
	client := &http.Client{
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			TLSHandshakeTimeout:   5 * time.Second,
			ResponseHeaderTimeout: 2 * time.Minute, // longer than the longest wait for nodes
			MaxIdleConnsPerHost:   2,
			IdleConnTimeout:       30 * time.Second,
			ForceAttemptHTTP2:     true,
		},
		// A redirect could carry the token to somebody else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return connecthttp.NewTransport(client, target, connecthttp.WithReadMaxBytes(maxAnswer)), nil
}

// Bearer sends a token with every call.
func Bearer(token string) connect.ClientInterceptor {
	return func(next connect.ClientFunc) connect.ClientFunc {
		return func(ctx context.Context, spec connect.Spec) (connect.ClientStream, error) {
			info, ok := connect.CallInfoForClientContext(ctx)
			if !ok {
				ctx, info = connect.NewClientContext(ctx)
			}
			info.RequestHeader().Set("Authorization", "Bearer "+token)
			return next(ctx, spec)
		}
	}
}

// scope turns the names of flags into ids.
func (a *app) scope(ctx context.Context, c *admin, k *resource.Kind, tenant, parent string) (resource.Scope, error) {
	var s resource.Scope
	if tenant != "" {
		tk, err := resource.Find(a.kinds, "tenant")
		if err != nil {
			return s, err
		}
		m, err := c.resources.Find(ctx, tk, s, tenant)
		if err != nil {
			return s, err
		}
		s.TenantID = resource.ID(m)
	}
	if parent != "" {
		if k == nil || k.ParentField == "" {
			return s, usage("--parent: names of this kind are unique in their tenant; leave it out")
		}
		pk, err := resource.Find(a.kinds, strings.TrimSuffix(k.ParentField, "_id"))
		if err != nil {
			return s, err
		}
		m, err := c.resources.Find(ctx, pk, s, parent)
		if err != nil {
			return s, fmt.Errorf("--parent: %w", err)
		}
		s.ParentID = resource.ID(m)
	}
	return s, nil
}
