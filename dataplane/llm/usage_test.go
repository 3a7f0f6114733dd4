package llm_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
)

// Whatever a provider claims, no component is negative and the parts add up to
// the whole it stated.
func TestQuotaUsageComponentsAreDisjointAndAddUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := func(label string) int64 { return rapid.Int64Range(-5, 1_000_000).Draw(t, label) }
		p := llm.Prompt{
			Total: n("total"), CacheRead: n("read"), CacheWrite: n("write"), Audio: n("audio"), Image: n("image"),
			CachedAudio: n("cached audio"), CachedImage: n("cached image"),
		}
		c := llm.Completion{Total: n("out"), Reasoning: n("reasoning"), Audio: n("audio out"), Image: n("image out")}
		u := llm.Usage{CacheWrite5m: 3, CacheWrite1h: 4}
		u.SetPrompt(p)
		u.SetCompletion(c)

		for name, v := range map[string]int64{
			"input": u.Input, "cache_read": u.CacheRead, "5m": u.CacheWrite5m, "1h": u.CacheWrite1h, "other": u.CacheWriteOther,
			"audio": u.InputAudio, "image": u.InputImage, "output": u.Output, "reasoning": u.Reasoning,
			"audio out": u.OutputAudio, "image out": u.OutputImage,
		} {
			if v < 0 {
				t.Errorf("%s = %d, want no negative component", name, v)
			}
		}
		if got, want := u.PromptTokens(), max(p.Total, 0); got != want {
			t.Errorf("prompt components add up to %d, want %d", got, want)
		}
		if got, want := u.CompletionTokens(), max(c.Total, 0); got != want {
			t.Errorf("completion components add up to %d, want %d", got, want)
		}
		if got, want := u.TotalTokens(), max(p.Total, 0)+max(c.Total, 0); got != want {
			t.Errorf("total %d, want %d", got, want)
		}
	})
}

// A cached image token is charged once, as a cache read.
func TestField_F59_CachedImageTokensAreCountedOnce(t *testing.T) {
	t.Parallel()
	var u llm.Usage
	u.SetPrompt(llm.Prompt{Total: 1000, CacheRead: 600, Image: 500, CachedImage: 400})
	want := llm.Usage{Input: 300, CacheRead: 600, InputImage: 100}
	if u != want {
		t.Errorf("got %+v, want %+v", u, want)
	}
}

func TestStopReasonNamesAreDistinct(t *testing.T) {
	t.Parallel()
	seen := map[string]llm.StopReason{}
	for r := llm.StopUnknown; r <= llm.StopFailed; r++ {
		name := r.String()
		if other, ok := seen[name]; ok || name == "" {
			t.Errorf("reason %d has the name %q of reason %d", r, name, other)
		}
		seen[name] = r
	}
	if got := llm.StopReason(200).String(); got != "unknown" {
		t.Errorf("a reason out of range is called %q, want unknown", got)
	}
}
