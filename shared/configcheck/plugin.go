package configcheck

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// MaxPluginPayload bounds the payload of a plugin, in bytes of protobuf.
const MaxPluginPayload = 64 << 10

// MaxPluginDepth bounds how deep objects and lists of a payload are nested.
const MaxPluginDepth = 12

// PluginKeys returns the keys of the plugins that configuration may name, in a
// new slice. Which of them a node runs is the node's to say.
func PluginKeys() []string {
	return []string{
		"access", "network", "window", "data", "tools", "bounds", "quality", "options",
		"guard.keyword", "guard.regex", "guard.pii", "guard.secret", "guard.shape", "guard.external", "guard.model",
		"transform.headers", "transform.params", "transform.system", "transform.extra",
		"cache.exact", "cache.semantic", "shadow", "notice",
	}
}

func knownPlugin(key string) bool {
	switch key {
	case "access", "network", "window", "data", "tools", "bounds", "quality", "options",
		"guard.keyword", "guard.regex", "guard.pii", "guard.secret", "guard.shape", "guard.external", "guard.model",
		"transform.headers", "transform.params", "transform.system", "transform.extra",
		"cache.exact", "cache.semantic", "shadow", "notice":
		return true
	}
	return false
}

func pluginAlone(l *list, who subject, key string, payload *structpb.Struct) {
	if !knownPlugin(key) {
		l.add(who, "plugin_key", "plugin.unknown", "there is no plugin %s; the keys are %q", quote(key), PluginKeys())
	}
	if n := proto.Size(payload); n > MaxPluginPayload {
		l.add(who, "payload", "plugin.size", "the payload has %d bytes; %d is the most", n, MaxPluginPayload)
		return
	}
	if structDepth(payload, MaxPluginDepth+1) > MaxPluginDepth {
		l.add(who, "payload", "plugin.depth", "the payload is nested more than %d levels deep; flatten it", MaxPluginDepth)
	}
}

// structDepth returns the depth of s, or limit if it is deeper.
func structDepth(s *structpb.Struct, limit int) int {
	if limit <= 1 {
		return limit
	}
	depth := 0
	for _, v := range s.GetFields() {
		depth = max(depth, valueDepth(v, limit-1))
	}
	return depth + 1
}

func valueDepth(v *structpb.Value, limit int) int {
	if limit <= 1 {
		return limit
	}
	switch k := v.GetKind().(type) {
	case *structpb.Value_StructValue:
		return structDepth(k.StructValue, limit)
	case *structpb.Value_ListValue:
		depth := 0
		for _, e := range k.ListValue.GetValues() {
			depth = max(depth, valueDepth(e, limit-1))
		}
		return depth + 1
	}
	return 0
}

func (s *tenantScope) checkPlugins(l *list) {
	for _, p := range s.shard.GetRoutePlugins() {
		if s.routes[p.GetRouteId()] == nil {
			l.add(subjectOf(p), "route_id", "ref.missing", "there is no route %s in this tenant; create it or name another", quote(p.GetRouteId()))
		}
	}
	for _, p := range s.shard.GetProviderPlugins() {
		who := subjectOf(p)
		if id := p.GetProviderId(); id != "" && s.providers[id] == nil {
			l.add(who, "provider_id", "ref.missing", "there is no provider %s of this tenant; a plugin of a global provider is global, one for this tenant alone goes on its upstream", quote(id))
		}
		if id := p.GetUpstreamId(); id != "" && s.upstreams[id] == nil {
			l.add(who, "upstream_id", "ref.missing", "there is no upstream %s in this tenant; create it or name another", quote(id))
		}
	}
}
