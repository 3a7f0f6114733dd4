// Package openaiusage reads what the usage reports of both OpenAI protocols have in
// common: the parts of the prompt and of what was generated.
package openaiusage

import (
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// PromptDetails reads prompt_tokens_details or input_tokens_details into p.
func PromptDetails(r *wirejson.Reader, p *llm.Prompt) {
	if r.Enter('{') {
		for r.Next() {
			switch string(r.Name()) {
			case "cached_tokens":
				p.CacheRead, _ = r.Int()
			case "cache_write_tokens":
				p.CacheWrite, _ = r.Int()
			case "audio_tokens":
				p.Audio, _ = r.Int()
			case "image_tokens":
				p.Image, _ = r.Int()
			}
		}
	}
}

// CompletionDetails reads completion_tokens_details or output_tokens_details into c.
func CompletionDetails(r *wirejson.Reader, c *llm.Completion) {
	if r.Enter('{') {
		for r.Next() {
			switch string(r.Name()) {
			case "reasoning_tokens":
				c.Reasoning, _ = r.Int()
			case "audio_tokens":
				c.Audio, _ = r.Int()
			case "image_tokens":
				c.Image, _ = r.Int()
			}
		}
	}
}
