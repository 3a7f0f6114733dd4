package configcheck

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

func (c *Checker) providerAlone(l *list, p *configv1.Provider) {
	who := subjectOf(p)
	headers(l, who, "request_header_overrides", p.GetRequestHeaderOverrides())
	seen := map[configv1.Protocol]bool{}
	for i, cp := range p.GetCapabilities() {
		at := fmt.Sprintf("capabilities[%d]", i)
		if seen[cp.GetProtocol()] {
			l.add(who, at+".protocol", "capability.duplicate", "%s has a capability already; keep one for each protocol", cp.GetProtocol())
		}
		seen[cp.GetProtocol()] = true
		endpointOf(p).check(l, who, at+".base_url", cp.GetBaseUrl())
		headers(l, who, at+".headers", cp.GetHeaders())
		for j, x := range cp.GetExtra() {
			at := fmt.Sprintf("%s.extra[%d]", at, j)
			headers(l, who, at+".extra_headers", x.GetExtraHeaders())
			if raw := x.GetExtraBodyJson(); raw != "" && !jsonObject(raw) {
				l.add(who, at+".extra_body_json", "json.object", "give one JSON object without duplicate names")
			}
		}
	}
	classes := map[string]bool{}
	for i, r := range p.GetErrorRules() {
		at := fmt.Sprintf("error_rules[%d].class", i)
		if classes[r.GetClass()] {
			l.add(who, at, "error_rule.duplicate", "%s has a rule already; keep one for each class", quote(r.GetClass()))
		}
		classes[r.GetClass()] = true
	}
}

func endpointOf(p *configv1.Provider) endpoint {
	return endpoint{
		schemes:        []string{"https", "http"},
		allowPlaintext: p.GetAllowPlaintext(),
		allowPrivate:   p.GetAllowPrivateAddress(),
	}
}

// jsonObject reports whether s is exactly one JSON object.
func jsonObject(s string) bool {
	v := jsontext.Value(s)
	return v.IsValid() && v.Kind() == '{'
}

// provider finds a provider that the tenant may use: its own or a global one.
func (s *tenantScope) provider(id string) *configv1.Provider {
	if p := s.providers[id]; p != nil {
		return p
	}
	return s.global.provider(id)
}

// globalScope finds things of the global shard.
type globalScope struct{ providers map[string]*configv1.Provider }

func (g *globalScope) provider(id string) *configv1.Provider { return g.providers[id] }
