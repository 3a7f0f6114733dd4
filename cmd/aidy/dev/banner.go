package dev

import (
	"fmt"
	"io"
	"time"

	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/devstate"
)

// banner tells people where everything is and gives them three things to paste.
func banner(w io.Writer, s devstate.State, file string, took time.Duration) {
	fmt.Fprintf(w, `
aidy-gateway is ready after %.1f s

  Requests    %s
  Admin API   %s
  Node sync   %s
  Operations  %s (node), %s (control plane)
  Provider    %s (built in; it costs nothing)
  Key         %s
  All of it, with the administrator's token, is in %s

A streamed call:

  curl -N %s/v1/chat/completions \
    -H 'Authorization: Bearer %s' -H 'Content-Type: application/json' \
    -d '{"model": "gpt-5", "stream": true, "messages": [{"role": "user", "content": "Hello"}]}'

SDKs and agents:

  export OPENAI_BASE_URL=%s/v1 OPENAI_API_KEY=%s
  export ANTHROPIC_BASE_URL=%s ANTHROPIC_API_KEY=%s
  export GOOGLE_GEMINI_BASE_URL=%s GEMINI_API_KEY=%s

The admin API, which `+"`aidy get tenants`"+` and the other commands talk to as well:

  buf curl --http2-prior-knowledge --reflect-header '*' \
    -H 'Authorization: Bearer %s' \
    %s/aidy.admin.v1.TenantService/ListTenants

Ctrl-C stops it; the next start has everything again.
`,
		took.Seconds(), s.InferenceURL, s.AdminURL, s.SyncURL, s.OpsURLs[0], s.OpsURLs[1], s.BuiltinURL, orElse(s.APIKey, "none"), file,
		s.InferenceURL, s.APIKey,
		s.InferenceURL, s.APIKey, s.InferenceURL, s.APIKey, s.InferenceURL, s.APIKey,
		s.AdminToken, s.AdminURL)
}
