package gemini

import (
	"bytes"
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

// option is a field that only this protocol has, or that not all have.
type option struct {
	feature llm.Feature
	kind    byte // of its value: { [ " 0 or t
}

// requestOptions are those of the request itself. Some are Vertex AI's alone.
var requestOptions = map[string]option{
	"cachedContent":     {llm.FeatureCachedContent, '"'},
	"continuationToken": {llm.FeatureStoredState, '"'},
	"labels":            {llm.FeatureLabels, '{'},
	"modelArmorConfig":  {llm.FeatureSafety, '{'},
	"outputConfig":      {llm.FeatureStore, '{'},
	"safetySettings":    {llm.FeatureSafety, '['},
	"serviceTier":       {llm.FeatureServiceTier, '"'},
	"store":             {llm.FeatureStore, 't'},
}

// configOptions are those of generationConfig.
var configOptions = map[string]option{
	"audioTimestamp":             {llm.FeatureMediaResolution, 't'},
	"audioTranscriptionConfig":   {llm.FeatureOutputModality, '{'},
	"candidateCount":             {llm.FeatureChoices, '0'},
	"continuationToken":          {llm.FeatureStoredState, '"'},
	"enableAffectiveDialog":      {llm.FeatureOutputModality, 't'},
	"enableEnhancedCivicAnswers": {llm.FeatureSafety, 't'},
	"frequencyPenalty":           {llm.FeaturePenalty, '0'},
	"imageConfig":                {llm.FeatureOutputModality, '{'},
	"logprobs":                   {llm.FeatureLogprobs, '0'},
	"mediaResolution":            {llm.FeatureMediaResolution, '"'},
	"modelConfig":                {llm.FeatureUnknown, '{'}, // how Vertex AI chooses a model
	"modelSelectionConfig":       {llm.FeatureUnknown, '{'},
	"presencePenalty":            {llm.FeaturePenalty, '0'},
	"responseFormat":             {llm.FeatureOutputModality, '['},
	"responseLogprobs":           {llm.FeatureLogprobs, 't'},
	"responseModalities":         {llm.FeatureOutputModality, '['},
	"routingConfig":              {llm.FeatureUnknown, '{'},
	"seed":                       {llm.FeatureSeed, '0'},
	"speechConfig":               {llm.FeatureOutputModality, '{'},
	"translationConfig":          {llm.FeatureOutputModality, '{'},
}

var kindWords = map[byte]string{'{': "an object", '[': "a list", '"': "a string", '0': "a number", 't': "true or false"}

// DecodeRequest reads a generateContent request. The path says the model and whether
// the answer is streamed. What says the same as nothing, such as a candidateCount of
// 1, is left out.
func (c *Codec) DecodeRequest(body []byte, t protocol.Target) (*llm.Request, *fault.Error) {
	d := c.requests.get(body)
	defer c.requests.put(d)
	d.req.Model, d.req.Stream = t.Model, t.Stream
	if !d.r.Enter('{') {
		return nil, fault.New(fault.InvalidRequest, "The body must be a JSON object.")
	}
	for d.r.Next() {
		if d.fault == nil {
			d.member()
		}
	}
	if err := d.r.Done(); err != nil {
		return nil, &fault.Error{Class: fault.InvalidRequest, Public: "The body is not one valid JSON object.", Err: err}
	}
	if len(d.req.Messages) == 0 {
		d.refuse("contents", "must be a list with at least one content")
	}
	if d.fault != nil {
		return nil, d.fault
	}
	d.req.Messages = joinThoughts(d.req.Messages)
	return d.req, nil
}

func (d *requestDecoder) member() {
	key := d.key()
	switch string(key) {
	case "contents":
		d.each("contents", maxContents, d.content)
	case "systemInstruction":
		d.system()
	case "tools":
		d.each("tools", maxTools, d.tool)
	case "toolConfig":
		d.toolConfig()
	case "generationConfig":
		d.config()
	case "model": // Inspect has compared it with the path
	default:
		if o, ok := requestOptions[string(key)]; ok {
			d.option(o, string(key))
			return
		}
		d.unknown("")
	}
}

// option keeps a value that not every protocol has a place for, unless it is the
// default.
func (d *requestDecoder) option(o option, path string) {
	kind := byte(d.r.Kind())
	if kind == 'f' {
		kind = 't'
	}
	switch {
	case kind == 'n':
		d.r.Skip()
		return
	case kind != o.kind && (o.kind != '[' || kind != '{'):
		d.wrong(path, kindWords[o.kind])
		d.r.Skip()
		return
	}
	raw := d.r.Value()
	if !idle(o, raw) {
		d.addExtra(o.feature, path, raw)
	}
}

// idle reports whether an option says what is so without it.
func idle(o option, raw []byte) bool {
	switch string(raw) {
	case "{}", "[]", `""`:
		return true
	case "false":
		return o.feature != llm.FeatureStore
	case "1":
		return o.feature == llm.FeatureChoices
	}
	switch o.feature {
	case llm.FeatureOutputModality:
		return bytes.EqualFold(raw, []byte(`["TEXT"]`))
	case llm.FeatureServiceTier, llm.FeatureMediaResolution:
		return unspecified(strings.Trim(string(raw), `"`))
	case llm.FeaturePenalty:
		return len(bytes.Trim(raw, "-0.")) == 0
	}
	return false
}

func (d *requestDecoder) config() {
	const at = "generationConfig"
	if !d.object(at) {
		return
	}
	q := d.req
	for d.r.Next() {
		key := d.key()
		switch string(key) {
		case "temperature":
			q.Temperature = d.number(at + ".temperature")
		case "topP":
			q.TopP = d.number(at + ".topP")
		case "topK":
			q.TopK = d.number(at + ".topK")
		case "maxOutputTokens":
			q.MaxOutputTokens, _ = d.integer(at+".maxOutputTokens", 0)
		case "stopSequences":
			d.each(at+".stopSequences", maxStops, func() {
				if s := d.text(at + ".stopSequences[]"); s != "" {
					q.Stop = append(q.Stop, s)
				}
			})
		case "responseMimeType":
			d.mimeType()
		case "responseSchema":
			if s := d.openAPI(at + ".responseSchema"); s != nil && q.Format.Schema == nil {
				q.Format.Schema = s
			}
		case "responseJsonSchema":
			if s := d.schema(at + ".responseJsonSchema"); s != nil {
				q.Format.Schema = s
			}
		case "thinkingConfig":
			d.thinking()
		default:
			if o, ok := configOptions[string(key)]; ok {
				d.option(o, at+"."+string(key))
				continue
			}
			d.unknown(at)
		}
	}
	switch {
	case q.Format.Schema != nil:
		q.Format.Kind = llm.FormatSchema
	case d.mime == "application/json":
		q.Format.Kind = llm.FormatJSON
	}
}

// mimeType reads the type of the answer. Others than text and JSON, such as the bare
// word text/x.enum, have no equal elsewhere.
func (d *requestDecoder) mimeType() {
	const path = "generationConfig.responseMimeType"
	from := d.r.Start()
	d.mime = strings.ToLower(d.word(path))
	switch d.mime {
	case "", "text/plain", "application/json":
	default:
		d.addExtra(llm.FeatureOutputModality, path, d.since(from))
	}
}

func (d *requestDecoder) thinking() {
	const at = "generationConfig.thinkingConfig"
	if !d.object(at) {
		return
	}
	want := &d.req.Reasoning
	for d.r.Next() {
		switch string(d.key()) {
		case "includeThoughts":
			show, stated := d.flag(at + ".includeThoughts")
			want.Show, want.Hide = show, stated && !show
		case "thinkingBudget":
			if n, stated := d.integer(at+".thinkingBudget", -1); stated {
				want.Budget, want.Off = n, n == 0
			}
		case "thinkingLevel":
			switch word := d.enum(at + ".thinkingLevel"); word {
			case "":
			case "MINIMAL", "LOW", "MEDIUM", "HIGH":
				want.Effort = llm.Effort(strings.ToLower(word))
			default:
				d.wrong(at+".thinkingLevel", "one of MINIMAL, LOW, MEDIUM, HIGH")
			}
		default:
			d.unknown(at)
		}
	}
}

func (d *requestDecoder) toolConfig() {
	const at = "toolConfig"
	if !d.object(at) {
		return
	}
	for d.r.Next() {
		switch string(d.key()) {
		case "functionCallingConfig":
			d.callingConfig()
		case "retrievalConfig":
			d.option(option{llm.FeatureServerTool, '{'}, at+".retrievalConfig")
		case "includeServerSideToolInvocations":
			d.option(option{llm.FeatureServerTool, 't'}, at+".includeServerSideToolInvocations")
		default:
			d.unknown(at)
		}
	}
}

func (d *requestDecoder) callingConfig() {
	const at = "toolConfig.functionCallingConfig"
	if !d.object(at) {
		return
	}
	mode := ""
	var names []string
	var raw []byte
	for d.r.Next() {
		switch string(d.key()) {
		case "mode":
			from := d.r.Start()
			mode = d.enum(at + ".mode")
			raw = d.since(from)
		case "allowedFunctionNames":
			d.each(at+".allowedFunctionNames", maxNames, func() {
				names = append(names, d.word(at+".allowedFunctionNames[]"))
			})
		case "streamFunctionCallArguments":
			d.option(option{llm.FeatureStreamOption, 't'}, at+".streamFunctionCallArguments")
		default:
			d.unknown(at)
		}
	}
	choice := &d.req.ToolChoice
	switch mode {
	case "":
		return
	case "AUTO":
		choice.Mode = llm.ChoiceAuto
	case "NONE":
		choice.Mode = llm.ChoiceNone
	case "VALIDATED": // calls or text, but calls that keep to the schema
		*choice = llm.ToolChoice{Mode: llm.ChoiceAuto, Names: names}
		d.addExtra(llm.FeatureToolOption, at+".mode", raw)
	case "ANY":
		*choice = llm.ToolChoice{Mode: llm.ChoiceAny, Names: names}
		if len(names) == 1 {
			choice.Mode = llm.ChoiceTool
		}
	default:
		d.wrong(at+".mode", "one of AUTO, ANY, NONE, VALIDATED")
	}
}
