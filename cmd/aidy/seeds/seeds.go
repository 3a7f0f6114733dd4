// Package seeds holds ready configurations, in the form that `aidy apply` takes.
package seeds

import (
	"embed"
	"fmt"
	"net/url"
	"strings"

	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/document"
	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

//go:embed *.yaml
var files embed.FS

// BaseURL is the address of the provider as the files write it. Load puts the real
// one in its place.
const BaseURL = "http://127.0.0.1:9000"

// Names of the tenant, consumer and key of the profile dev.
const (
	DevTenant   = "dev"
	DevConsumer = "developer"
	DevKey      = "dev"
)

// Key is a key that a profile needs. Its secret is made by the control plane when it
// is first needed, so no seed holds a secret that others know.
type Key struct {
	Tenant, Consumer, Name string
}

// Seed is a ready configuration.
type Seed struct {
	Bundle *adminv1.Bundle
	Keys   []Key
}

// Profiles are the names that Load knows.
func Profiles() []string { return []string{"dev", "demo", "mock"} }

func keys(profile string) []Key {
	switch profile {
	case "dev":
		return []Key{{DevTenant, DevConsumer, DevKey}}
	case "demo":
		return []Key{
			{"search", "indexer", "main"},
			{"search", "assistant", "main"},
			{"support", "helpdesk", "main"},
			{"research", "notebooks", "main"},
		}
	case "mock":
		return []Key{{"load", "generator", "main"}}
	}
	return nil
}

// Load returns the configuration of a profile, with the scripted provider or mock at
// baseURL, an address without a path. An empty baseURL leaves the address of the file.
func Load(profile, baseURL string) (*Seed, error) {
	name := profile + ".yaml"
	data, err := files.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("there is no profile %q; expected one of %s", profile, strings.Join(Profiles(), ", "))
	}
	bundle, err := document.Bundle(name, data)
	if err != nil {
		return nil, err
	}
	if baseURL != "" {
		u, err := url.Parse(baseURL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
			return nil, fmt.Errorf("address of the provider %q: expected one without a path, such as %s", baseURL, BaseURL)
		}
		Rebase(bundle, u.Scheme+"://"+u.Host)
	}
	return &Seed{bundle, keys(profile)}, nil
}

// Rebase points every capability at BaseURL to another address.
func Rebase(b *adminv1.Bundle, to string) {
	for _, r := range b.GetResources() {
		for _, c := range r.GetProvider().GetCapabilities() {
			if rest, ok := strings.CutPrefix(c.GetBaseUrl(), BaseURL); ok {
				c.BaseUrl = to + rest
			}
		}
	}
}

// Vendor is a real provider that a key of the environment opens.
type Vendor struct {
	Name string // of its provider and upstream, and of its file
	Env  string // variable with the key, as the vendor's own SDKs read it
}

// Vendors lists them.
func Vendors() []Vendor {
	return []Vendor{{"openai", "OPENAI_API_KEY"}, {"anthropic", "ANTHROPIC_API_KEY"}, {"gemini", "GEMINI_API_KEY"}}
}

// Real returns the configuration of a vendor for the tenant of the profile dev, with
// a key that the caller's account pays for.
func (v Vendor) Real(key string) (*adminv1.Bundle, error) {
	name := "vendor-" + v.Name + ".yaml"
	data, err := files.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	bundle, err := document.Bundle(name, data)
	if err != nil {
		return nil, err
	}
	bundle.Resources = append(bundle.Resources, &adminv1.BundleResource{Resource: &adminv1.BundleResource_UpstreamCredential{
		UpstreamCredential: &configv1.UpstreamCredential{TenantId: DevTenant, UpstreamId: v.Name, Name: "env", Secret: key},
	}})
	return bundle, nil
}
