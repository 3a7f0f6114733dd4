// Package llm is the vocabulary of the data plane: what a request asks of a
// model and what the model's answer contained, in words of no single wire
// protocol. It is pure data; nothing here reads or writes a wire format.
package llm

// Usage counts what one model call consumed, in tokens unless a field says
// otherwise.
//
// The components are disjoint: every token stands in exactly one of them, so a
// price is a sum over fields and a total is never copied from a provider.
// Whoever reads a provider's numbers subtracts where that provider counts a part
// twice (cached tokens inside the prompt count, reasoning inside the output
// count). The zero value means nothing was consumed; whether a provider said so
// or said nothing is told beside it, not in it.
type Usage struct {
	Input           int64 // prompt tokens neither read from nor written to a cache, text
	CacheRead       int64 // prompt tokens read from the provider's cache, of any modality
	CacheWrite5m    int64 // prompt tokens written to a cache that lives five minutes
	CacheWrite1h    int64 // prompt tokens written to a cache that lives one hour
	CacheWriteOther int64 // prompt tokens written to a cache of another or an unstated lifetime
	InputAudio      int64 // uncached audio tokens of the prompt
	InputImage      int64 // uncached image and video tokens of the prompt

	Output      int64 // generated text, tool calls included, reasoning excluded
	Reasoning   int64 // generated reasoning, shown or not
	OutputAudio int64 // generated audio tokens
	OutputImage int64 // generated image tokens

	WebSearches int64 // searches the provider ran, a count of calls

	Images       int64 // pictures made, where they are sold by the piece
	AudioSeconds int64 // audio heard or made, where it is sold by its length
	VideoSeconds int64 // video made
	Calls        int64 // units in which a provider sells calls; 0 is one call
}

// PromptTokens is the size of the whole prompt, cached parts included.
func (u Usage) PromptTokens() int64 {
	return u.Input + u.CacheRead + u.CacheWrite() + u.InputAudio + u.InputImage
}

// CacheWrite is the number of tokens written to caches of any lifetime.
func (u Usage) CacheWrite() int64 {
	return u.CacheWrite5m + u.CacheWrite1h + u.CacheWriteOther
}

// CompletionTokens is everything that was generated, reasoning included.
func (u Usage) CompletionTokens() int64 {
	return u.Output + u.Reasoning + u.OutputAudio + u.OutputImage
}

// TotalTokens is the prompt and everything generated.
func (u Usage) TotalTokens() int64 { return u.PromptTokens() + u.CompletionTokens() }

// Plus is the usage of two calls together.
func (u Usage) Plus(o Usage) Usage {
	return Usage{
		Input:           u.Input + o.Input,
		CacheRead:       u.CacheRead + o.CacheRead,
		CacheWrite5m:    u.CacheWrite5m + o.CacheWrite5m,
		CacheWrite1h:    u.CacheWrite1h + o.CacheWrite1h,
		CacheWriteOther: u.CacheWriteOther + o.CacheWriteOther,
		InputAudio:      u.InputAudio + o.InputAudio,
		InputImage:      u.InputImage + o.InputImage,
		Output:          u.Output + o.Output,
		Reasoning:       u.Reasoning + o.Reasoning,
		OutputAudio:     u.OutputAudio + o.OutputAudio,
		OutputImage:     u.OutputImage + o.OutputImage,
		WebSearches:     u.WebSearches + o.WebSearches,
		Images:          u.Images + o.Images,
		AudioSeconds:    u.AudioSeconds + o.AudioSeconds,
		VideoSeconds:    u.VideoSeconds + o.VideoSeconds,
		Calls:           u.Calls + o.Calls,
	}
}

// Prompt is a provider's account of a prompt where the whole includes its parts.
type Prompt struct {
	Total      int64 // the whole prompt
	CacheRead  int64 // of it read from the cache
	CacheWrite int64 // of it written to the cache, lifetime unstated
	Audio      int64 // of it audio, cached audio included
	Image      int64 // of it images and video, cached ones included

	CachedAudio int64 // of CacheRead audio, where the provider says so
	CachedImage int64 // of CacheRead images and video, where the provider says so
}

// SetPrompt splits p into the disjoint prompt components of u and replaces them.
//
// The components add up to p.Total always. A part that claims more than is left
// of the whole is cut, cache reads first kept, then writes, audio, images:
// a provider that contradicts itself can make a split wrong but not a total.
func (u *Usage) SetPrompt(p Prompt) {
	left := max(p.Total, 0)
	take := func(n int64) int64 {
		n = min(max(n, 0), left)
		left -= n
		return n
	}
	u.CacheRead = take(p.CacheRead)
	u.CacheWrite5m, u.CacheWrite1h = 0, 0
	u.CacheWriteOther = take(p.CacheWrite)
	u.InputAudio = take(p.Audio - max(p.CachedAudio, 0))
	u.InputImage = take(p.Image - max(p.CachedImage, 0))
	u.Input = left
}

// Completion is a provider's account of what was generated where the whole
// includes its parts.
type Completion struct {
	Total     int64 // everything generated
	Reasoning int64 // of it reasoning
	Audio     int64 // of it audio
	Image     int64 // of it images
}

// SetCompletion splits c into the disjoint output components of u and replaces
// them. The components add up to c.Total always; parts that claim more than is
// left are cut in the order reasoning, audio, image.
func (u *Usage) SetCompletion(c Completion) {
	left := max(c.Total, 0)
	take := func(n int64) int64 {
		n = min(max(n, 0), left)
		left -= n
		return n
	}
	u.Reasoning = take(c.Reasoning)
	u.OutputAudio = take(c.Audio)
	u.OutputImage = take(c.Image)
	u.Output = left
}
