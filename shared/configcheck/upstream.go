package configcheck

import (
	"fmt"
	"strings"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

func upstreamAlone(l *list, u *configv1.Upstream) {
	who := subjectOf(u)
	headers(l, who, "headers", u.GetHeaders())
	headers(l, who, "request_header_overrides", u.GetRequestHeaderOverrides())
	seen := map[configv1.Protocol]bool{}
	for i, b := range u.GetBaseUrls() {
		if seen[b.GetProtocol()] {
			l.add(who, fmt.Sprintf("base_urls[%d].protocol", i), "base_url.duplicate", "%s has a base URL already; keep one for each protocol", b.GetProtocol())
		}
		seen[b.GetProtocol()] = true
	}
	proxyAlone(l, who, u.GetProxy())
}

func proxyAlone(l *list, who subject, p *configv1.EgressProxy) {
	if p.GetSecret() != "" && p.GetUsername() == "" {
		l.add(who, "proxy.username", "proxy.username", "give the user whose password the secret is")
	}
}

func proxyURL(l *list, who subject, p *configv1.EgressProxy, of *configv1.Provider) {
	if p == nil {
		return
	}
	// The proxy itself may be spoken to in clear text: what it carries is TLS.
	endpoint{
		schemes: []string{"http", "https", "socks5"}, allowPlaintext: true,
		allowPrivate: of.GetAllowPrivateAddress(), bare: true,
	}.check(l, who, "proxy.url", p.GetUrl())
}

// kindOf is the kind of a credential; unset means a plain key.
func kindOf(c *configv1.UpstreamCredential) configv1.CredentialKind {
	if k := c.GetKind(); k != configv1.CredentialKind_CREDENTIAL_KIND_UNSPECIFIED {
		return k
	}
	return configv1.CredentialKind_CREDENTIAL_KIND_API_KEY
}

func credentialAlone(l *list, c *configv1.UpstreamCredential) {
	who := subjectOf(c)
	kind := kindOf(c)
	var given configv1.CredentialKind
	var field string
	switch c.GetSource().(type) {
	case *configv1.UpstreamCredential_ApiKey:
		given, field = configv1.CredentialKind_CREDENTIAL_KIND_API_KEY, "api_key"
	case *configv1.UpstreamCredential_Oauth2Client:
		given, field = configv1.CredentialKind_CREDENTIAL_KIND_OAUTH2_CLIENT, "oauth2_client"
	case *configv1.UpstreamCredential_Oauth2Refresh:
		given, field = configv1.CredentialKind_CREDENTIAL_KIND_OAUTH2_REFRESH, "oauth2_refresh"
	case *configv1.UpstreamCredential_GcpServiceAccount:
		given, field = configv1.CredentialKind_CREDENTIAL_KIND_GCP_SERVICE_ACCOUNT, "gcp_service_account"
	case *configv1.UpstreamCredential_AwsSigv4:
		given, field = configv1.CredentialKind_CREDENTIAL_KIND_AWS_SIGV4, "aws_sigv4"
	case *configv1.UpstreamCredential_AzureAd:
		given, field = configv1.CredentialKind_CREDENTIAL_KIND_AZURE_AD, "azure_ad"
	default:
		given = configv1.CredentialKind_CREDENTIAL_KIND_API_KEY
	}
	if given != kind {
		want := strings.ToLower(strings.TrimPrefix(kind.String(), "CREDENTIAL_KIND_"))
		if field == "" {
			l.add(who, want, "credential.source", "the kind %s needs its own fields; set %s", want, want)
		} else {
			l.add(who, field, "credential.source", "the kind is %s and the fields are of %s; change one of them", want, field)
		}
	}
	if c.GetSecret() != "" && c.GetSecretRef() != "" {
		l.add(who, "secret_ref", "credential.secret", "give the secret by value or by reference, not both")
	}
	if ref := c.GetSecretRef(); ref != "" {
		secretRef(l, who, "secret_ref", ref)
	}
	proxyAlone(l, who, c.GetProxy())
	if c.GetExpireTime() != nil && !c.GetExpireTime().IsValid() {
		l.add(who, "expire_time", "time.range", "give a time between the years 1 and 9999")
	}
}

// secretRef checks the shape of a reference. Whether a node may resolve it is
// its own configuration's to say.
func secretRef(l *list, who subject, path, ref string) {
	scheme, rest, _ := strings.Cut(ref, ":")
	switch {
	case scheme == "env" && rest != "":
	case scheme == "file" && strings.HasPrefix(rest, "/") && !strings.Contains(rest+"/", "/../"):
	default:
		l.add(who, path, "credential.secret_ref", "write env:NAME, or file: and an absolute path without \"..\"")
	}
}

func modelAlone(l *list, m *configv1.UpstreamModel) {
	who := subjectOf(m)
	if m.GetAliasOf() == m.GetModel() && m.GetModel() != "" {
		l.add(who, "alias_of", "model.alias_self", "a model is no alias of itself; clear alias_of")
	}
	tasks := map[string]bool{}
	for i, q := range m.GetQuality() {
		if tasks[q.GetTask()] {
			l.add(who, fmt.Sprintf("quality[%d].task", i), "quality.duplicate", "%s has a hint already; keep one for each task", quote(q.GetTask()))
		}
		tasks[q.GetTask()] = true
	}
}

// checkUpstreams checks upstreams, credentials and models against each other.
func (s *tenantScope) checkUpstreams(l *list) {
	for _, u := range s.shard.GetUpstreams() {
		who := subjectOf(u)
		if s.groups[u.GetGroupId()] == nil {
			l.add(who, "group_id", "ref.missing", "there is no group %s in this tenant; create it or name another", quote(u.GetGroupId()))
		}
		s.label(l, who, "max_data_label", u.GetMaxDataLabel())
		p := s.provider(u.GetProviderId())
		if p == nil {
			l.add(who, "provider_id", "ref.missing", "there is no provider %s for this tenant; create it or name another", quote(u.GetProviderId()))
			continue
		}
		speaks := protocolsOf(p)
		for i, b := range u.GetBaseUrls() {
			at := fmt.Sprintf("base_urls[%d]", i)
			if !speaks[b.GetProtocol()] {
				l.add(who, at+".protocol", "upstream.protocol", "provider %s has no capability %s; an upstream may change addresses, not protocols", quote(p.GetName()), b.GetProtocol())
			}
			endpointOf(p).check(l, who, at+".url", b.GetUrl())
		}
		proxyURL(l, who, u.GetProxy(), p)
	}
	for _, c := range s.shard.GetCredentials() {
		who := subjectOf(c)
		u := s.upstreams[c.GetUpstreamId()]
		if u == nil {
			l.add(who, "upstream_id", "ref.missing", "there is no upstream %s in this tenant; create it or name another", quote(c.GetUpstreamId()))
			continue
		}
		for i, m := range c.GetModels() {
			if s.models[modelKey{u.GetId(), m}] == nil {
				l.add(who, fmt.Sprintf("models[%d]", i), "ref.missing", "upstream %s has no model %s; add it there or take it from this list", quote(u.GetName()), quote(m))
			}
		}
		p := s.provider(u.GetProviderId())
		if p == nil {
			continue // said of the upstream
		}
		proxyURL(l, who, c.GetProxy(), p)
		for _, t := range [...]struct{ path, url string }{
			{"oauth2_client.token_url", c.GetOauth2Client().GetTokenUrl()},
			{"oauth2_refresh.token_url", c.GetOauth2Refresh().GetTokenUrl()},
		} {
			if t.url != "" {
				endpoint{schemes: []string{"https"}, allowPrivate: p.GetAllowPrivateAddress()}.check(l, who, t.path, t.url)
			}
		}
	}
	for _, m := range s.shard.GetModels() {
		s.checkModel(l, m)
	}
}

func (s *tenantScope) checkModel(l *list, m *configv1.UpstreamModel) {
	who := subjectOf(m)
	u := s.upstreams[m.GetUpstreamId()]
	if u == nil {
		l.add(who, "upstream_id", "ref.missing", "there is no upstream %s in this tenant; create it or name another", quote(m.GetUpstreamId()))
		return
	}
	if s.models[modelKey{m.GetUpstreamId(), m.GetModel()}] != m {
		l.add(who, "model", "unique", "upstream %s has a model of this name already; change or delete one", quote(u.GetName()))
	}
	if alias := m.GetAliasOf(); alias != "" {
		switch of := s.models[modelKey{m.GetUpstreamId(), alias}]; {
		case of == nil:
			l.add(who, "alias_of", "ref.missing", "upstream %s has no model %s; create it or name another", quote(u.GetName()), quote(alias))
		case of.GetAliasOf() != "":
			l.add(who, "alias_of", "model.alias_chain", "%s is itself an alias; name %s", quote(alias), quote(of.GetAliasOf()))
		}
	}
	if p := s.provider(u.GetProviderId()); p != nil {
		speaks := protocolsOf(p)
		for i, pr := range m.GetProtocols() {
			if !speaks[pr] {
				l.add(who, fmt.Sprintf("protocols[%d]", i), "upstream.protocol", "provider %s has no capability %s", quote(p.GetName()), pr)
			}
		}
	}
}

func protocolsOf(p *configv1.Provider) map[configv1.Protocol]bool {
	speaks := map[configv1.Protocol]bool{}
	for _, c := range p.GetCapabilities() {
		speaks[c.GetProtocol()] = true
	}
	return speaks
}
