package openairesponses

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
	optPreviousResponse option = iota
	optConversation
	optPrompt
	optTruncation
	optContextManagement
	optMaxToolCalls
	optAccessPrograms
	optImage
	optCacheRetention
	optMetadata
	optServiceTier
	optUser
	optClientMetadata
	optStore
	endOfMembers
)

// What follows is a part of another member.
const (
	optCacheMode option = endOfMembers + iota
	optCacheTTL
	optCacheCompare
	optCachePrewarm
	optVerbosity
	optReasoningMode
	optReasoningContext
	optObfuscation
	optToolChoice
	optWebSearch // of a Chat caller
	endOfOptions
)

var optionNames = [endOfMembers]string{
	"previous_response_id", "conversation", "prompt", "truncation", "context_management", "max_tool_calls", "access_programs", "image",
	"prompt_cache_retention", "metadata", "service_tier", "user", "client_metadata", "store",
}

// cacheOptionNames are the members of prompt_cache_options.
var cacheOptionNames = [...]struct {
	option option
	name   string
}{
	{optCacheMode, "mode"},
	{optCacheTTL, "ttl"},
	{optCacheCompare, "comparison_response_id"},
	{optCachePrewarm, "prewarm"},
}

// ownPaths are the members of a Responses request that are parts of others.
var ownPaths = map[string]option{
	"prompt_cache_options.mode":                   optCacheMode,
	"prompt_cache_options.ttl":                    optCacheTTL,
	"prompt_cache_options.comparison_response_id": optCacheCompare,
	"prompt_cache_options.prewarm":                optCachePrewarm,
	"text.verbosity":                              optVerbosity,
	"reasoning.mode":                              optReasoningMode,
	"reasoning.context":                           optReasoningContext,
	"stream_options.include_obfuscation":          optObfuscation,
	"tool_choice":                                 optToolChoice,
}

// extras decides on all that not every protocol has.
func (e *requestEncoder) extras() *fault.Error {
	q := *e.r
	q.Extras = nil
	for _, x := range e.r.Extras {
		if e.own && e.keep(x) || says(x) {
			continue
		}
		if x.Feature == llm.FeatureWebSearch { // the provider can, if the caller declares it
			if f := e.webSearch(x); f != nil {
				return f
			}
			continue
		}
		q.Extras = append(q.Extras, x)
	}
	return e.c.Extras(&q, e.carry)
}

// keep takes an extra of Responses' own. It reports false for what an answer in the
// gateway's terms cannot hold.
func (e *requestEncoder) keep(x llm.Extra) bool {
	switch x.Feature {
	case llm.FeatureLogprobs, llm.FeatureModeration, llm.FeatureBackground:
		return false
	case llm.FeatureStore:
		return e.store(x.Raw)
	case llm.FeatureInclude:
		e.included = append(e.included, x.Raw)
		return true
	case llm.FeaturePhase: // the message has it
		return true
	case llm.FeatureStoredState, llm.FeaturePromptTemplate:
		e.stored = true
		if strings.HasPrefix(x.Field, "input[") {
			return true // the item stands in its place
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
		if name == x.Field {
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

// says reports whether an extra asks for what Responses does anyway, so that leaving it
// out loses nothing.
func says(x llm.Extra) bool {
	switch x.Feature {
	case llm.FeatureSpeed:
		return string(x.Raw) == `"standard"`
	case llm.FeatureOutputModality:
		return bytes.EqualFold(x.Raw, []byte(`["text"]`))
	case llm.FeatureServiceTier:
		return string(x.Raw) == `"auto"` || bytes.EqualFold(x.Raw, []byte(`"unspecified"`))
	}
	return false
}

// carry takes an extra of another protocol that Responses has a member for.
func (e *requestEncoder) carry(x llm.Extra) *fault.Error {
	chat := e.c.From == protocol.OpenAIChat
	give := func(o option, ok bool) *fault.Error {
		if !ok {
			return e.c.Dropped(x.Feature, x.Field)
		}
		e.given[o] = x.Raw
		return nil
	}
	switch x.Feature {
	case llm.FeatureVerbosity:
		return give(optVerbosity, len(x.Raw) > 0 && x.Raw[0] == '"')
	case llm.FeatureMetadata:
		return give(optMetadata, chat)
	case llm.FeatureServiceTier:
		return e.tier(x)
	case llm.FeatureStore:
		if stored := string(x.Raw) == "true"; !chat && stored || !stored && string(x.Raw) != "false" || !e.store(x.Raw) {
			return e.c.Dropped(x.Feature, x.Field)
		}
		return nil
	case llm.FeatureStreamOption:
		return give(optObfuscation, strings.HasSuffix(x.Field, "include_obfuscation"))
	case llm.FeatureUser:
		return give(optUser, chat)
	case llm.FeatureCacheLifetime:
		switch {
		case !chat:
		case strings.HasSuffix(x.Field, "prompt_cache_breakpoint.ttl"):
			e.ttl = x.Raw
			return nil
		case x.Field == "prompt_cache_retention":
			return give(optCacheRetention, true)
		case x.Field == "prompt_cache_options.ttl":
			return give(optCacheTTL, true)
		}
	case llm.FeatureCacheMark:
		if chat && x.Field == "prompt_cache_options.mode" {
			return give(optCacheMode, true)
		}
	}
	return e.c.Dropped(x.Feature, x.Field)
}

// tier takes the tiers that have the same meaning in Responses.
func (e *requestEncoder) tier(x llm.Extra) *fault.Error {
	word := strings.ToLower(strings.Trim(string(x.Raw), `"`))
	switch {
	case e.c.From == protocol.OpenAIChat:
	case word == "standard", word == "standard_only":
		word = "default"
	case word == "flex", word == "priority":
	default:
		return e.c.Dropped(x.Feature, x.Field)
	}
	e.given[optServiceTier] = wirejson.AppendString(nil, word)
	return nil
}

// webSearch takes the wish of a Chat caller that the provider searches.
func (e *requestEncoder) webSearch(x llm.Extra) *fault.Error {
	a, f := e.c.Lose(x.Feature, x.Field)
	if f == nil && a == protocol.Substitute {
		e.given[optWebSearch] = x.Raw
	}
	return f
}
