package dataplane

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genai"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

// The list of models shows what the caller may use and nothing else, in every shape.
func TestListOfModelsShowsWhatTheCallerMayUse(t *testing.T) {
	t.Parallel()
	g := newRig(t, func(ts *syncv1.TenantShard) {
		ts.Groups = append(ts.Groups, &configv1.Group{Id: "grp_2", TenantId: "ten_1", Name: "others"})
		ts.Upstreams = append(ts.Upstreams, &configv1.Upstream{Id: "upr_2", TenantId: "ten_1", Name: "theirs", ProviderId: "prv_1", GroupId: "grp_2"})
		ts.Models = append(ts.Models,
			&configv1.UpstreamModel{Id: "upm_3", TenantId: "ten_1", UpstreamId: "upr_2", Model: "of-others"},
			&configv1.UpstreamModel{Id: "upm_4", TenantId: "ten_1", UpstreamId: "upr_1", Model: "switched-off", Disabled: true})
	})
	for name, tc := range map[string]struct {
		path   string
		header []string
	}{
		"openai":    {"/v1/models", nil},
		"anthropic": {"/v1/models", []string{"Anthropic-Version", "2023-06-01"}},
		"gemini":    {"/v1beta/models", nil},
	} {
		resp, body := g.send(t, "GET", tc.path, "", "", tc.header...)
		if resp.StatusCode != http.StatusOK || !strings.Contains(body, `m"`) || !strings.Contains(body, `alias"`) ||
			strings.Contains(body, "of-others") || strings.Contains(body, "switched-off") || strings.Contains(body, "fake-large") {
			t.Errorf("%s: status %d: %s", name, resp.StatusCode, body)
		}
		if resp, body := g.send(t, "GET", tc.path+"/of-others", "", "", tc.header...); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: a model of others: status %d: %s", name, resp.StatusCode, body)
		}
	}
}

func TestListOfModelsTellsWhichOnesEmbed(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		stated []configv1.Feature
		want   []string
	}{
		{nil, []string{"generateContent", "countTokens"}},
		{[]configv1.Feature{configv1.Feature_FEATURE_TOOLS}, []string{"generateContent", "countTokens"}},
		{[]configv1.Feature{configv1.Feature_FEATURE_EMBEDDINGS}, []string{"embedContent", "batchEmbedContents", "countTokens"}},
		{
			[]configv1.Feature{configv1.Feature_FEATURE_EMBEDDINGS, configv1.Feature_FEATURE_TOOLS},
			[]string{"generateContent", "embedContent", "batchEmbedContents", "countTokens"},
		},
	} {
		g := newRig(t, func(ts *syncv1.TenantShard) { ts.Models[0].Features = tc.stated })
		for _, name := range []string{"m", "alias"} {
			m, err := g.gemini(t).Models.Get(t.Context(), name, &genai.GetModelConfig{})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(m.SupportedActions, tc.want) {
				t.Errorf("%s with %v: %v, want %v", name, tc.stated, m.SupportedActions, tc.want)
			}
		}
	}
}
