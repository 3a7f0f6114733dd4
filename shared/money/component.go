package money

import "fmt"

// Component is one kind of unit that a provider may bill. Components are
// disjoint: a token is counted under exactly one of them.
type Component uint8

// The components, in the order of the ledger's columns. Units are tokens unless
// the comment says otherwise.
const (
	Input        Component = iota // prompt text tokens read without any cache
	CacheRead                     // prompt tokens read from a prompt cache
	CacheWrite5m                  // prompt tokens written to a cache for 5 minutes
	CacheWrite1h                  // prompt tokens written to a cache for 1 hour
	Output                        // generated text tokens without reasoning
	Reasoning                     // generated tokens of hidden thought
	AudioIn                       // prompt audio tokens
	AudioOut                      // generated audio tokens
	ImageIn                       // prompt image tokens
	ImageOut                      // generated image tokens
	ImageUnit                     // pictures made, where billed by the piece
	AudioSecond                   // seconds of audio
	VideoSecond                   // seconds of video
	WebSearch                     // searches run by the provider
	Request                       // the call itself

	NumComponents = int(Request) + 1
)

var componentNames = [NumComponents]string{
	"input", "cache_read", "cache_write_5m", "cache_write_1h", "output", "reasoning",
	"audio_in", "audio_out", "image_in", "image_out", "image_unit", "audio_second",
	"video_second", "web_search", "request",
}

// String returns the ledger's name of the component, for instance "cache_read".
func (c Component) String() string {
	if int(c) < NumComponents {
		return componentNames[c]
	}
	return fmt.Sprintf("component(%d)", uint8(c))
}

// ParseComponent returns the component with the ledger's name s, or ErrInvalid.
func ParseComponent(s string) (Component, error) {
	for i, name := range componentNames {
		if name == s {
			return Component(i), nil
		}
	}
	return 0, fmt.Errorf("component %s: %w: want one of %v", clip(s), ErrInvalid, componentNames)
}

// standIn returns the component whose price serves when a version holds none
// for c.
func standIn(c Component) (Component, bool) {
	switch c {
	case CacheWrite1h:
		return CacheWrite5m, true
	case CacheWrite5m, CacheRead, AudioIn, ImageIn:
		return Input, true
	case Reasoning, AudioOut, ImageOut:
		return Output, true
	}
	return 0, false
}

// promptOrder is the order in which marginal tiers lay out the tokens of a
// prompt. What a cache holds is a prefix, so cached tokens come first.
var promptOrder = [...]Component{CacheRead, CacheWrite5m, CacheWrite1h, Input, AudioIn, ImageIn}

// Units counts what one attempt used, per component.
type Units [NumComponents]int64

// Prompt returns the total prompt tokens, which choose the price tier: all
// components of the prompt, cached or not. It fails with ErrOverflow if the sum
// does not fit, with ErrInvalid if a count is negative.
func (u *Units) Prompt() (int64, error) {
	var sum uint64
	for _, c := range promptOrder {
		if u[c] < 0 {
			return 0, fmt.Errorf("%s of %d units: %w: want 0 or more", c, u[c], ErrInvalid)
		}
		if sum += uint64(u[c]); sum>>63 != 0 {
			return 0, fmt.Errorf("total prompt tokens: %w", ErrOverflow)
		}
	}
	return int64(sum), nil
}

// Add returns the sum of two counts, or ErrOverflow.
func (u *Units) Add(o *Units) (Units, error) {
	var out Units
	for c := range u {
		sum, err := Amount(u[c]).Add(Amount(o[c]))
		if err != nil {
			return Units{}, fmt.Errorf("add %s units: %w", Component(c), ErrOverflow)
		}
		out[c] = int64(sum)
	}
	return out, nil
}
