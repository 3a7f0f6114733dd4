package gemini

import (
	"strconv"

	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/stateid"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// pending is a call that has no result yet.
type pending struct {
	id, name string
	made     bool // the id is ours
}

// made is how ids begin that the gateway made for calls without one. They mean nothing
// to the provider and are not sent to it.
const made = "gwc_"

// partOptions are fields of a part beside what it holds. They stay with the part for
// an upstream of this protocol.
var partOptions = map[string]option{
	"audioTranscription": {llm.FeatureUnknown, '{'},
	"mediaProcessing":    {llm.FeatureMediaResolution, '"'},
	"mediaResolution":    {llm.FeatureMediaResolution, '{'},
	"partMetadata":       {llm.FeatureUnknown, '{'},
	"speechMetadata":     {llm.FeatureUnknown, '{'},
	"videoMetadata":      {llm.FeatureVideoInput, '{'},
}

// system reads systemInstruction, which stands first wherever it is in the body.
func (d *requestDecoder) system() {
	const at = "systemInstruction"
	if !d.object(at) {
		return
	}
	var parts []llm.Part
	for d.r.Next() {
		switch string(d.key()) {
		case "parts":
			parts = d.parts(at + ".parts")
		case "role": // is of no effect here
		default:
			d.unknown(at)
		}
	}
	for i := range parts {
		if k := parts[i].Kind; k == llm.PartCall || k == llm.PartResult {
			d.refuse(at+".parts", "may have no "+k.String())
		}
	}
	if parts = said(parts); len(parts) > 0 {
		d.req.Messages = append([]llm.Message{{Role: llm.RoleSystem, Parts: parts}}, d.req.Messages...)
	}
}

// content reads one turn. Its role may stand after its parts.
func (d *requestDecoder) content() {
	const at = "contents[]"
	if !d.object(at) {
		d.refuse(at, "must be an object")
		return
	}
	role := ""
	var parts []llm.Part
	for d.r.Next() {
		switch string(d.key()) {
		case "parts":
			parts = d.parts(at + ".parts")
		case "role":
			role = d.word(at, ".role")
		default:
			d.unknown(at)
		}
	}
	switch role {
	case "model":
		d.modelTurn(parts)
	case "user", "", "function", "tool":
		d.userTurn(parts)
	default:
		d.wrong(at+".role", `"user" or "model"`)
	}
}

func (d *requestDecoder) modelTurn(parts []llm.Part) {
	for i := range parts {
		if parts[i].Kind == llm.PartResult {
			d.refuse("contents[].parts["+strconv.Itoa(i)+"].functionResponse", "must stand in a content of the role user")
		}
	}
	d.req.Messages = append(d.req.Messages, llm.Message{Role: llm.RoleAssistant, Parts: said(parts)})
}

// userTurn makes messages of a turn: results of tools stand in messages of their own.
func (d *requestDecoder) userTurn(parts []llm.Part) {
	for i := range parts {
		switch parts[i].Kind {
		case llm.PartCall:
			d.refuse("contents[].parts["+strconv.Itoa(i)+"].functionCall", "must stand in a content of the role model")
		case llm.PartReasoning: // only a model thinks
			parts[i].Kind = llm.PartText
		}
	}
	parts = said(parts)
	for from := 0; from < len(parts) || from == 0; {
		to, role := from, llm.RoleUser
		if from < len(parts) && parts[from].Kind == llm.PartResult {
			role = llm.RoleTool
		}
		for to < len(parts) && (parts[to].Kind == llm.PartResult) == (role == llm.RoleTool) {
			to++
		}
		d.req.Messages = append(d.req.Messages, llm.Message{Role: role, Parts: parts[from:to:to]})
		if from = to; to == 0 {
			return
		}
	}
}

// said is the parts without empty texts.
func said(parts []llm.Part) []llm.Part {
	kept := parts[:0]
	for _, p := range parts {
		if (p.Kind != llm.PartText && p.Kind != llm.PartReasoning) || p.Text != "" || p.State != nil {
			kept = append(kept, p)
		}
	}
	return kept
}

func (d *requestDecoder) parts(path string) (parts []llm.Part) {
	element := path + "[]"
	d.each(path, maxParts, func() { parts = append(parts, d.part(element)) })
	return parts
}

// part reads one part. It has one of several data members, or a signature alone.
func (d *requestDecoder) part(at string) (p llm.Part) {
	if !d.object(at) {
		d.refuse(at, "must be an object")
		return p
	}
	held := 0
	thought := false
	var options []byte
	for d.r.Next() {
		if d.r.Kind() == 'n' {
			continue
		}
		key := d.key()
		switch string(key) {
		case "text":
			held++
			p.Text = d.text(at, ".text")
		case "thought":
			thought, _ = d.flag(at, ".thought")
		case "thoughtSignature":
			if s := d.text(at, ".thoughtSignature"); s != "" && standardBase64(s) != bypassBytes {
				p.State = &llm.State{Kind: llm.GeminiSignature, Data: unwrapToken(s)}
			}
		case "inlineData":
			held++
			p.Kind, p.Media = llm.PartMedia, d.inline(at+".inlineData")
		case "fileData":
			held++
			p.Kind, p.Media = llm.PartMedia, d.file(at+".fileData")
		case "functionCall":
			held++
			p.Kind, p.Call = llm.PartCall, d.call(at+".functionCall")
		case "functionResponse":
			held++
			p.Kind, p.Result = llm.PartResult, d.result(at+".functionResponse")
		case "executableCode", "codeExecutionResult", "toolCall", "toolResponse":
			held++
			p.Kind, p.Native = llm.PartNative, &llm.Native{Type: string(key)}
			p.Native.Raw = d.schema(at + "." + p.Native.Type)
		default:
			o, ok := partOptions[string(key)]
			if !ok {
				d.unknown(at)
				continue
			}
			name := string(key)
			if kind := byte(d.r.Kind()); kind != o.kind {
				d.wrong(at+"."+name, kindWords[o.kind])
				continue
			}
			raw := d.r.Value()
			d.addExtra(o.feature, at+"."+name, raw)
			if options == nil {
				options = []byte{'{'}
			}
			options = wirejson.AppendRawMember(options, name, raw)
		}
	}
	if held > 1 {
		d.refuse(at, "must have one of text, inlineData, fileData, functionCall, functionResponse, executableCode, codeExecutionResult, toolCall and toolResponse, and not several")
	}
	if thought && p.Kind == llm.PartText {
		p.Kind = llm.PartReasoning
		if p.Text == blank && p.State != nil && stateid.IsToken(p.State.Data) {
			p.Text = "" // see appendThought
		}
	}
	if options != nil && p.Kind != llm.PartNative {
		p.Native = &llm.Native{Type: besides, Raw: append(options, '}')}
	}
	return p
}

// besides is the type of a Native that only holds the options of a part of another kind.
const besides = "part options"

func (d *requestDecoder) call(at string) *llm.Call {
	call := &llm.Call{}
	if !d.object(at) {
		d.refuse(at, "must be an object")
		return call
	}
	for d.r.Next() {
		switch string(d.key()) {
		case "id":
			call.ID = d.text(at, ".id")
		case "name":
			call.Name = d.word(at, ".name")
		case "args":
			if raw := d.schema(at, ".args"); raw != nil {
				call.Arguments = string(raw)
			}
		default:
			d.unknown(at)
		}
	}
	if call.Name == "" {
		d.refuse(at+".name", "must be the name of a function")
	}
	p := pending{id: call.ID, name: call.Name}
	if call.ID == "" {
		d.calls++
		call.ID = made + strconv.Itoa(d.calls)
		p.id, p.made = call.ID, true
	}
	if len(d.pending) == maxPending {
		d.pending = append(d.pending[:0], d.pending[1:]...)
	}
	d.pending = append(d.pending, p)
	return call
}

// result reads a functionResponse. A response that is {"output":"text"} or
// {"error":"text"}, as the vendor documents the two names, is that text.
func (d *requestDecoder) result(at string) *llm.Result {
	res := &llm.Result{}
	if !d.object(at) {
		d.refuse(at, "must be an object")
		return res
	}
	text, plain := "", false
	var media []llm.Part
	for d.r.Next() {
		switch string(d.key()) {
		case "id":
			res.CallID = d.text(at, ".id")
		case "name":
			res.Name = d.word(at, ".name")
		case "response":
			text, plain = d.response(at+".response", res)
		case "parts":
			media = d.parts(at + ".parts")
		case "scheduling":
			d.option(option{llm.FeatureToolOption, '"'}, at+".scheduling")
		case "willContinue":
			d.option(option{llm.FeatureToolOption, 't'}, at+".willContinue")
		default:
			d.unknown(at)
		}
	}
	for i := range media {
		if media[i].Kind != llm.PartMedia {
			d.refuse(at+".parts", "may have inlineData and fileData alone")
		}
	}
	switch {
	case plain && (text != "" || len(media) == 0):
		res.Parts, res.Raw = append([]llm.Part{{Text: text}}, media...), ""
	case plain:
		res.Parts, res.Raw = media, ""
	case len(media) > 0: // a value beside media is the text of the value
		if res.Raw != "" && res.Raw != "{}" {
			media = append([]llm.Part{{Text: res.Raw}}, media...)
		}
		res.Parts, res.Raw = media, ""
	case res.Raw == "":
		res.Raw = "{}"
	}
	d.pair(res)
	return res
}

// response reads the value of a result into res.Raw. plain says that it is but a text.
func (d *requestDecoder) response(at string, res *llm.Result) (text string, plain bool) {
	from := d.r.Start()
	if !d.object(at) {
		return "", false
	}
	for n := 0; d.r.Next(); n++ {
		plain = false
		if n > 0 || d.r.Kind() != '"' {
			continue
		}
		switch string(d.r.Name()) {
		case "output":
			text, plain = d.r.Text()
		case "error":
			text, plain = d.r.Text()
			res.Error = true
		}
	}
	res.Error = res.Error && plain
	res.Raw = string(d.since(from))
	return text, plain
}

// pair finds the call that a result answers: by its id, else the oldest of the same
// function that has no result. Where there is none, the result's own id or name is
// left for the error that tells so.
func (d *requestDecoder) pair(res *llm.Result) {
	at := -1
	for i, p := range d.pending {
		if res.CallID != "" && p.id == res.CallID {
			at = i
			break
		}
		if at < 0 && p.name == res.Name && (res.CallID == "" || p.made) {
			at = i
		}
	}
	if at < 0 {
		if res.CallID == "" {
			res.CallID = res.Name
		}
		return
	}
	res.CallID, res.Name = d.pending[at].id, d.pending[at].name
	d.pending = append(d.pending[:at], d.pending[at+1:]...)
}
