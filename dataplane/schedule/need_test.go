package schedule

import (
	"strings"
	"testing"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
)

func TestField_F87_WhatAModelCannotDoIsAReasonAndNamed(t *testing.T) {
	t.Parallel()
	var image, audio, search, speech Needs
	image.Read(configv1.Modality_MODALITY_IMAGE)
	audio.Read(configv1.Modality_MODALITY_AUDIO)
	search.Feature(configv1.Feature_FEATURE_WEB_SEARCH)
	speech.Write(configv1.Modality_MODALITY_AUDIO)
	for _, tc := range []struct {
		name     string
		needs    Needs
		model    *configv1.UpstreamModel
		upstream *configv1.Upstream
		want     string
	}{
		{name: "nothing stated", needs: image},
		{name: "stated", needs: image, model: &configv1.UpstreamModel{Modalities: []configv1.Modality{configv1.Modality_MODALITY_IMAGE}}},
		{name: "text alone", needs: image, model: &configv1.UpstreamModel{Modalities: []configv1.Modality{configv1.Modality_MODALITY_TEXT}}, want: "image input"},
		{name: "images alone", needs: audio, model: &configv1.UpstreamModel{Modalities: []configv1.Modality{configv1.Modality_MODALITY_IMAGE}}, want: "audio input"},
		{name: "silent", needs: speech, model: &configv1.UpstreamModel{OutputModalities: []configv1.Modality{configv1.Modality_MODALITY_TEXT}}, want: "audio output"},
		{name: "model without", needs: search, model: &configv1.UpstreamModel{Features: []configv1.Feature{configv1.Feature_FEATURE_TOOLS}}, want: "web search"},
		{name: "upstream without", needs: search, upstream: &configv1.Upstream{Features: []configv1.Feature{configv1.Feature_FEATURE_TOOLS}}, want: "web search"},
		{name: "nothing needed", model: &configv1.UpstreamModel{Features: []configv1.Feature{configv1.Feature_FEATURE_TOOLS}}},
	} {
		c := plan.Candidate{Account: &plan.Account{Model: tc.model, Upstream: tc.upstream}}
		if got := tc.needs.lacking(&c); got != tc.want {
			t.Errorf("%s: lacking %q, want %q", tc.name, got, tc.want)
		}
		s := Selection{query: &Query{Needs: tc.needs}, candidates: []plan.Candidate{c}, Rows: []Row{{Reason: CapabilityMissing}}}
		if tc.want != "" && !strings.Contains(s.lacking(), tc.want) {
			t.Errorf("%s: the refusal %q does not name it", tc.name, s.lacking())
		}
	}
}
