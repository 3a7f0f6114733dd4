package configcheck

import (
	"slices"
	"strings"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

// Place is where a route listens, normalised: the host in lower case without a
// final dot (empty for any host), the path with no final slash, "/" for the root.
type Place struct {
	Host       string
	PathPrefix string
}

// PlaceOf normalises a host and a path prefix, so that two routes that would
// answer the same requests have equal places.
func PlaceOf(host, pathPrefix string) Place {
	p := strings.TrimRight(pathPrefix, "/")
	if p == "" {
		p = "/"
	}
	return Place{Host: strings.TrimSuffix(strings.ToLower(host), "."), PathPrefix: p}
}

// RouteIndex finds routes by place over all tenants and is kept up to date a
// tenant at a time, so that one changed tenant costs what its routes cost. The
// zero value is empty. It is not safe for concurrent use while it changes.
type RouteIndex struct {
	at     map[Place][]RouteRef
	places map[string][]Place // of each tenant
}

// Set replaces the routes of a tenant; the empty id stands for the routes of all
// tenants. No routes removes the tenant.
func (x *RouteIndex) Set(tenantID string, routes []*configv1.Route) {
	if x.at == nil {
		x.at, x.places = map[Place][]RouteRef{}, map[string][]Place{}
	}
	for _, p := range x.places[tenantID] {
		left := slices.DeleteFunc(slices.Clone(x.at[p]), func(r RouteRef) bool { return r.TenantID == tenantID })
		if len(left) == 0 {
			delete(x.at, p)
		} else {
			x.at[p] = left
		}
	}
	delete(x.places, tenantID)
	for _, r := range routes {
		p := PlaceOf(r.GetHost(), r.GetPathPrefix())
		x.at[p] = append(x.at[p], RouteRef{tenantID, r.GetId()})
		x.places[tenantID] = append(x.places[tenantID], p)
	}
}

// At lists the routes at a place. The caller must not change the slice.
func (x *RouteIndex) At(p Place) []RouteRef { return x.at[p] }
