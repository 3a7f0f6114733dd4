package openairesponses

import (
	"slices"
	"strconv"
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
)

// Types of items.
const (
	itemMessage      = "message"
	itemReasoning    = "reasoning"
	itemCall         = "function_call"
	itemCallOutput   = "function_call_output"
	itemCustom       = "custom_tool_call"
	itemCustomOutput = "custom_tool_call_output"
	itemReference    = "item_reference"
	itemImage        = "image_generation_call"
)

// pending is a call that waits for its result.
type pending struct{ id, name string }

// item is what one item of the input holds, whose members come in any order.
type item struct {
	kind, id, role, phase   string
	callID, name, namespace string
	text                    string // arguments or input
	content                 []llm.Part
	summary                 []string
	state                   string
	output                  []byte
	result, format          string // of an image
}

const itemPath = "input[]"

// input reads the conversation.
func (d *requestDecoder) input() {
	switch d.r.Kind() {
	case '"':
		if text := d.text("input"); text != "" {
			d.say(llm.RoleUser, llm.Part{Kind: llm.PartText, Text: text})
		}
	case '[', 'n':
		d.each("input", maxItems, d.item)
	default:
		d.wrong("input", "a string or a list of items")
	}
}

// say adds a message of one part.
func (d *requestDecoder) say(role llm.Role, p llm.Part) {
	d.req.Messages = append(d.req.Messages, llm.Message{Role: role, Parts: []llm.Part{p}})
}

// item reads one item of the input.
func (d *requestDecoder) item() {
	if d.r.Kind() != '{' {
		d.wrong(itemPath, "an object")
		return
	}
	from, before := d.r.Start(), d.mark()
	d.r.Enter('{')
	var it item
	for d.r.Next() {
		d.itemMember(&it)
	}
	if it.kind == "" {
		switch {
		case it.role != "":
			it.kind = itemMessage
		case it.id != "":
			it.kind = itemReference
		}
	}
	raw := d.span(from)
	switch it.kind {
	case itemMessage:
		d.message(&it)
	case itemReasoning:
		d.reasoningItem(&it)
	case itemCall, itemCustom:
		d.call(&it)
	case itemCallOutput, itemCustomOutput:
		d.callOutput(&it)
	case itemReference:
		d.forget(before)
		d.add(llm.FeatureStoredState, itemPath+".id", raw)
		d.say(llm.RoleAssistant, llm.Part{Kind: llm.PartNative, Native: &llm.Native{Type: itemReference, Raw: raw}})
	case "":
		d.refuse(itemPath, `has no type; an item is {"role":…,"content":…} or has a type such as function_call`)
	default:
		d.forget(before)
		d.native(&it, raw)
	}
}

func (d *requestDecoder) itemMember(it *item) {
	switch string(d.r.Name()) {
	case "type":
		it.kind = d.name(itemPath + ".type")
	case "id":
		it.id = d.name(itemPath + ".id")
	case "role":
		it.role = d.name(itemPath + ".role")
	case "phase":
		from := d.r.Start()
		if it.phase = d.name(itemPath + ".phase"); it.phase != "" {
			d.add(llm.FeaturePhase, itemPath+".phase", d.span(from))
		}
	case "status":
	case "content":
		it.content = d.content(itemPath + ".content")
	case "call_id":
		it.callID = d.text(itemPath + ".call_id")
	case "name":
		it.name = d.name(itemPath + ".name")
	case "namespace":
		it.namespace = d.name(itemPath + ".namespace")
	case "arguments":
		if d.r.Kind() == '{' { // which some clients send
			it.text = string(d.r.Value())
			return
		}
		it.text = d.text(itemPath + ".arguments")
	case "input":
		it.text = d.text(itemPath + ".input")
	case "output":
		it.output = d.r.Value()
	case "summary":
		d.each(itemPath+".summary", maxParts, func() {
			if p := d.part(itemPath + ".summary[]"); p.Text != "" {
				it.summary = append(it.summary, p.Text)
			}
		})
	case "encrypted_content":
		it.state = d.text(itemPath + ".encrypted_content")
	case "result":
		it.result = d.text(itemPath + ".result")
	case "output_format":
		it.format = d.name(itemPath + ".output_format")
	case "async":
		from := d.r.Start()
		if v := d.flag(itemPath + ".async"); v != nil && *v {
			d.add(llm.FeatureToolOption, itemPath+".async", d.span(from))
		}
	case "caller":
		d.caller()
	default:
		d.unknown(itemPath)
	}
}

// caller reads who made a call: the model itself, or a program that the provider runs.
func (d *requestDecoder) caller() {
	from := d.r.Start()
	if !d.object(itemPath + ".caller") {
		return
	}
	kind := ""
	for d.r.Next() {
		if string(d.r.Name()) == "type" {
			kind = d.name(itemPath + ".caller.type")
		}
	}
	if kind != "direct" {
		d.add(llm.FeatureServerTool, itemPath+".caller", d.span(from))
	}
}

func (d *requestDecoder) message(it *item) {
	m := llm.Message{Phase: it.phase, Parts: it.content}
	switch it.role {
	case "user":
		m.Role = llm.RoleUser
	case "assistant":
		m.Role = llm.RoleAssistant
	case "system":
		m.Role = llm.RoleSystem
	case "developer":
		m.Role, m.Developer = llm.RoleSystem, true
	case "":
		d.refuse(itemPath+".role", "is missing; expected one of user, assistant, system, developer")
		return
	default:
		d.wrong(itemPath+".role", "one of user, assistant, system, developer")
		return
	}
	if m.Role != llm.RoleAssistant { // nobody else can decline
		for i := range m.Parts {
			if m.Parts[i].Kind == llm.PartRefusal {
				m.Parts[i].Kind = llm.PartText
			}
		}
	}
	d.req.Messages = append(d.req.Messages, m)
}

// reasoningItem reads reasoning. Without its encrypted content and without a text it is a
// reference to what the provider keeps.
func (d *requestDecoder) reasoningItem(it *item) {
	p := llm.Part{Kind: llm.PartReasoning, Text: strings.Join(it.summary, "\n\n")}
	if p.Text == "" {
		for _, c := range it.content {
			p.Text += c.Text
		}
	}
	switch {
	case it.state != "":
		p.State = &llm.State{Kind: llm.OpenAIEncrypted, Data: it.state, ID: it.id}
	case p.Text == "":
		p.State = &llm.State{Kind: llm.OpenAIEncrypted, ID: it.id, Foreign: true}
	}
	d.say(llm.RoleAssistant, p)
}

func (d *requestDecoder) call(it *item) {
	c := &llm.Call{ID: it.callID, Name: it.name, Namespace: it.namespace, Arguments: it.text, Custom: it.kind == itemCustom}
	if c.ID == "" {
		c.ID = it.id
	}
	if c.ID == "" {
		c.ID = "call_" + strconv.Itoa(len(d.req.Messages))
	}
	if c.Name == "" {
		d.refuse(itemPath+".name", "is missing; a call names its tool")
	}
	d.open = append(d.open, pending{c.ID, c.Name})
	d.say(llm.RoleAssistant, llm.Part{Kind: llm.PartCall, Call: c})
}

func (d *requestDecoder) callOutput(it *item) {
	r := &llm.Result{CallID: it.callID, Name: it.name}
	if i := slices.IndexFunc(d.open, func(p pending) bool {
		return p.id == r.CallID || r.CallID == "" && (r.Name == "" || r.Name == p.name)
	}); i >= 0 {
		r.CallID = d.open[i].id
		d.open = slices.Delete(d.open, i, i+1)
	}
	if r.CallID == "" {
		d.refuse(itemPath+".call_id", "is missing; it must be the id of the call that the item answers")
		return
	}
	if it.output == nil {
		d.refuse(itemPath+".output", "is missing")
		return
	}
	d.sub(it.output, func() {
		switch d.r.Kind() {
		case '"', '[', 'n':
			r.Parts = d.content(itemPath + ".output")
		default:
			r.Raw = string(it.output)
		}
	})
	d.say(llm.RoleTool, llm.Part{Kind: llm.PartResult, Result: r})
}

// native keeps an item of the provider's own. An image that the model made is one that
// other protocols have, too.
func (d *requestDecoder) native(it *item, raw []byte) {
	if it.kind == itemImage && it.result != "" {
		d.say(llm.RoleAssistant, llm.Part{Kind: llm.PartMedia, Media: madeImage(it.result, it.format)})
		return
	}
	role := llm.RoleAssistant
	if isOutput(it.kind) {
		role = llm.RoleUser
	}
	d.say(role, llm.Part{Kind: llm.PartNative, Native: &llm.Native{Type: it.kind, Raw: raw}})
}

// madeImage is an image that the model made.
func madeImage(data, format string) *llm.Media {
	m := &llm.Media{Kind: llm.Image, Data: data}
	if _, rest, ok := strings.Cut(data, ";base64,"); ok && strings.HasPrefix(data, "data:") {
		m.Data = rest
	}
	switch {
	case format != "":
		m.MIME = "image/" + strings.TrimPrefix(strings.ToLower(format), "image/")
	default:
		m.MIME = imageMIME(m.Data)
	}
	return m
}
