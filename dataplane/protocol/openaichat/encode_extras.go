package openaichat

import (
	"bytes"
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// option is a member that is written with the caller's own value.
type option int

// The options, in the order in which they are written.
const (
	optVerbosity option = iota
	optFrequencyPenalty
	optPresencePenalty
	optSeed
	optLogitBias
	optPrediction
	optModalities
	optAudio
	optWebSearch
	optCacheOptions
	optCacheRetention
	optStore
	optMetadata
	optServiceTier
	// What follows is a part of another member.
	optUser
	optCacheMode
	optCacheTTL
	optObfuscation
	endOfOptions
)

var optionNames = [endOfOptions]string{
	"verbosity", "frequency_penalty", "presence_penalty", "seed", "logit_bias", "prediction", "modalities", "audio",
	"web_search_options", "prompt_cache_options", "prompt_cache_retention", "store", "metadata", "service_tier",
}

// ownPaths are the members of a Chat request that are parts of others.
var ownPaths = map[string]option{
	"user":                               optUser,
	"prompt_cache_options.mode":          optCacheMode,
	"prompt_cache_options.ttl":           optCacheTTL,
	"stream_options.include_obfuscation": optObfuscation,
}

// extras decides on all that not every protocol has.
func (e *requestEncoder) extras() *fault.Error {
	q := *e.r
	q.Extras = nil
	for _, x := range e.r.Extras {
		switch {
		case e.own && e.keep(x), says(x):
		default:
			q.Extras = append(q.Extras, x)
		}
	}
	return e.c.Extras(&q, e.carry)
}

// keep takes an extra of Chat's own. It reports false for what one answer in the
// gateway's terms cannot hold.
func (e *requestEncoder) keep(x llm.Extra) bool {
	switch x.Feature {
	case llm.FeatureChoices, llm.FeatureLogprobs, llm.FeatureModeration, llm.FeatureLegacyFunctions:
		return false
	case llm.FeatureStore:
		return e.store(x.Raw)
	case llm.FeatureOutputModality:
		if e.c.Stream {
			return false // audio in pieces is no part of an answer
		}
	case llm.FeatureCacheLifetime:
		if strings.HasSuffix(x.Field, ".prompt_cache_breakpoint.ttl") {
			e.ttl = x.Raw
			return true
		}
	}
	if o, ok := ownPaths[x.Field]; ok {
		e.given[o] = x.Raw
		return true
	}
	for o, name := range optionNames {
		if name == x.Field && name != "" {
			e.given[o] = x.Raw
			return true
		}
	}
	return false
}

// store writes store unless the server refuses the member. A server without it keeps
// nothing, so that false needs no saying there.
func (e *requestEncoder) store(raw []byte) bool {
	if e.compat().GetNoStore() {
		return string(raw) == "false"
	}
	e.given[optStore] = raw
	return true
}

// says reports whether an extra asks for what Chat does anyway, so that leaving it
// out loses nothing.
func says(x llm.Extra) bool {
	switch x.Feature {
	case llm.FeatureSpeed:
		return string(x.Raw) == `"standard"`
	case llm.FeatureBackground:
		return string(x.Raw) == "false"
	case llm.FeatureTruncation:
		return string(x.Raw) == `"disabled"`
	case llm.FeatureOutputModality:
		return bytes.EqualFold(x.Raw, []byte(`["text"]`))
	case llm.FeatureSafety:
		return unfiltered(x.Raw)
	case llm.FeatureServiceTier:
		return string(x.Raw) == `"auto"` || bytes.EqualFold(x.Raw, []byte(`"unspecified"`))
	}
	return false
}

// unfiltered reports whether safety settings ask for no filter at all.
func unfiltered(raw []byte) bool {
	var r wirejson.Reader
	r.ResetLenient(raw)
	if !r.Enter('[') {
		return false
	}
	all := true
	for r.Next() {
		off := false
		if r.Enter('{') {
			for r.Next() {
				if string(r.Name()) == "threshold" {
					word, _ := r.String(maxName)
					off = word == "BLOCK_NONE" || word == "OFF"
				}
			}
		}
		all = all && off
	}
	return all && r.Err() == nil
}

// carry takes an extra of another protocol that Chat has a member for.
func (e *requestEncoder) carry(x llm.Extra) *fault.Error {
	kind := byte(0)
	if len(x.Raw) > 0 {
		kind = x.Raw[0]
	}
	number, text := kind == '-' || kind >= '0' && kind <= '9', kind == '"'
	responses := e.c.From == protocol.OpenAIResponses
	give := func(o option, ok bool) *fault.Error {
		if !ok {
			return e.c.Dropped(x.Feature, x.Field)
		}
		e.given[o] = x.Raw
		return nil
	}
	switch x.Feature {
	case llm.FeatureSeed:
		return give(optSeed, number)
	case llm.FeaturePenalty:
		if strings.HasPrefix(strings.ToLower(x.Field[strings.LastIndexByte(x.Field, '.')+1:]), "frequency") {
			return give(optFrequencyPenalty, number)
		}
		return give(optPresencePenalty, number)
	case llm.FeatureVerbosity:
		return give(optVerbosity, text)
	case llm.FeatureServiceTier:
		return e.tier(x)
	case llm.FeatureStore:
		// What another protocol stores can be asked for again by its id, and that of Chat cannot.
		if string(x.Raw) != "false" || !e.store(x.Raw) {
			return e.c.Dropped(x.Feature, x.Field)
		}
		return nil
	case llm.FeatureStreamOption:
		return give(optObfuscation, strings.HasSuffix(x.Field, "include_obfuscation"))
	case llm.FeatureUser:
		return give(optUser, text && responses)
	case llm.FeatureCacheLifetime:
		if strings.HasSuffix(x.Field, "prompt_cache_retention") {
			return give(optCacheRetention, text)
		}
		if strings.HasSuffix(x.Field, "prompt_cache_breakpoint.ttl") && text {
			e.ttl = x.Raw
			return nil
		}
		return e.cacheOption(x, optCacheTTL)
	case llm.FeatureCacheMark:
		return e.cacheOption(x, optCacheMode)
	}
	return e.c.Dropped(x.Feature, x.Field)
}

// cacheOption takes a mark of the whole request: prompt_cache_options of Responses, or
// a member of it, and Anthropic's cache_control beside the messages.
func (e *requestEncoder) cacheOption(x llm.Extra, o option) *fault.Error {
	switch {
	case e.c.From == protocol.Anthropic && x.Field == "cache_control":
		// A mark after the last block that can have one is what Chat's implicit breakpoint is.
		if bytes.Contains(x.Raw, []byte(`"1h"`)) {
			return e.c.Dropped(llm.FeatureCacheLifetime, x.Field)
		}
		return nil
	case e.c.From != protocol.OpenAIResponses:
	case strings.HasSuffix(x.Field, "prompt_cache_options"):
		e.given[optCacheOptions] = x.Raw
		return nil
	case strings.Contains(x.Field, "prompt_cache_options."):
		e.given[o] = x.Raw
		return nil
	}
	return e.c.Dropped(x.Feature, x.Field)
}

// tier takes the tiers that have the same meaning in Chat.
func (e *requestEncoder) tier(x llm.Extra) *fault.Error {
	word := strings.ToLower(strings.Trim(string(x.Raw), `"`))
	switch {
	case e.c.From == protocol.OpenAIResponses:
		if word == "ultrafast" {
			return e.c.Dropped(x.Feature, x.Field)
		}
	case word == "standard", word == "standard_only":
		word = "default"
	case word == "flex", word == "priority":
	default:
		return e.c.Dropped(x.Feature, x.Field)
	}
	e.given[optServiceTier] = wirejson.AppendString(nil, word)
	return nil
}
