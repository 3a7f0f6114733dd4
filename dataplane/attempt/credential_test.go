package attempt

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/snapshot"
)

// A request keeps the configuration of its admission, but not the credentials that
// were alive then.
func TestG05_CredentialDisabledMeanwhileStartsNoAttempt(t *testing.T) {
	t.Parallel()
	const second = time.Second
	for name, tc := range map[string]struct {
		first    answer
		disabled string
		want     string
	}{
		"the next one":             {answer{status: http.StatusTooManyRequests, latency: second}, "b", "a"},
		"the same one":             {answer{status: 529, latency: second}, "a", "a b"},
		"none":                     {answer{status: http.StatusTooManyRequests, latency: second}, "", "a b"},
		"the same one, still used": {answer{status: 529, latency: second}, "", "a a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				// One upstream each: an overload rests the whole of it.
				apart := func(ts *syncv1.TenantShard) {
					ts.Upstreams = append(ts.Upstreams, &configv1.Upstream{Id: "upr_2", ProviderId: "prv_1", GroupId: "grp_1", Priority: 2})
					ts.Models = append(ts.Models, &configv1.UpstreamModel{Id: "upm_2", UpstreamId: "upr_2", Model: "m", UpstreamModel: "up"})
					ts.Credentials[1].UpstreamId = "upr_2"
				}
				w := newWorld(t, apart, map[string][]answer{"a": {tc.first, ok()}, "b": {ok()}})
				go func() {
					time.Sleep(second / 2)
					secrets := &syncv1.CredentialShard{TenantId: "ten_1"}
					for _, name := range []string{"a", "b"} {
						secrets.Secrets = append(secrets.Secrets, &syncv1.SealedSecret{
							CredentialId: "crd_" + name, Sealed: []byte(name), Disabled: name == tc.disabled,
						})
					}
					later, err := snapshot.Static(nil, nil, secrets)
					if err != nil {
						t.Error(err)
						return
					}
					w.holder.Replace(later)
				}()
				w.run(t, t.Context(), nil)
				if got := w.path(); got != tc.want {
					t.Errorf("credentials were used in the order %q, want %q", got, tc.want)
				}
			})
		})
	}
}
