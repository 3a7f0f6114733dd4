package anthropic

import (
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// message reads one message.
func (d *requestReader) message() {
	const path = "messages[]"
	r := &d.r
	if r.Kind() != '{' {
		d.wrong(path, "an object")
	}
	if !r.Enter('{') {
		return
	}
	role, stated := "", false
	var parts []llm.Part
	for r.Next() {
		switch string(r.Name()) {
		case "role":
			role = d.word(r, path+".role")
		case "content":
			stated = r.Kind() != 'n'
			parts = d.content(r, d.body, &inMessages)
		case "clear_at", "output_config": // of a system message: what changes from there on
			at := d.where(path + "." + string(r.Name()))
			d.extra(llm.FeatureContextEdit, at, r.Value())
		default:
			d.unknown(path, string(r.Name()))
		}
	}
	if !stated && d.fault == nil {
		d.refuse(path+".content", "is missing")
	}
	switch role {
	case "user":
		d.userMessages(parts)
	case "assistant":
		d.allowed(parts, llm.PartResult, "tool_result", "user")
		d.add(llm.RoleAssistant, parts)
	case "system":
		d.add(llm.RoleSystem, parts)
	default:
		d.wrong(path+".role", `"user", "assistant" or "system"`)
	}
}

func (d *requestReader) add(role llm.Role, parts []llm.Part) {
	d.req.Messages = append(d.req.Messages, llm.Message{Role: role, Parts: parts})
}

// userMessages tells the results of a user's message apart from what the user says.
func (d *requestReader) userMessages(parts []llm.Part) {
	for _, kind := range [...]struct {
		part llm.PartKind
		name string
	}{{llm.PartCall, "tool_use"}, {llm.PartReasoning, "thinking"}, {llm.PartRedacted, "redacted_thinking"}} {
		d.allowed(parts, kind.part, kind.name, "assistant")
	}
	if len(parts) == 0 {
		d.add(llm.RoleUser, nil)
		return
	}
	for from := 0; from < len(parts); {
		to := from + 1
		result := parts[from].Kind == llm.PartResult
		for ; to < len(parts) && (parts[to].Kind == llm.PartResult) == result; to++ {
		}
		role := llm.RoleUser
		if result {
			role = llm.RoleTool
		}
		d.add(role, parts[from:to:to])
		from = to
	}
}

func (d *requestReader) allowed(parts []llm.Part, kind llm.PartKind, name, role string) {
	for i := range parts {
		if parts[i].Kind == kind {
			d.refuse("messages[].content", "has a block of type "+name+", which may stand in messages of the role "+role+" alone")
		}
	}
}

// place is where a content stands.
type place struct {
	list, element string
	inside        bool // of a result
}

// The places of contents.
var (
	inSystem   = place{list: "system", element: "system[]"}
	inMessages = place{list: "messages[].content", element: "messages[].content[]"}
	inResults  = place{list: "messages[].content[].content", element: "messages[].content[].content[]", inside: true}
)

// content reads a text or a list of blocks. data is what r reads.
func (d *requestReader) content(r *wirejson.Reader, data []byte, at *place) []llm.Part {
	switch r.Kind() {
	case '"':
		return []llm.Part{{Text: d.text(r, at.list)}}
	case 'n':
		r.Skip()
		return nil
	case '[':
	default:
		d.wrong(at.list, "a string or a list of blocks")
	}
	var parts []llm.Part
	d.each(r, at.list, maxBlocks, func() {
		if p, ok := d.block(r, data, at); ok {
			parts = append(parts, p)
		}
	})
	return parts
}

// block is what one content block holds, whose members come in any order.
type block struct {
	kind                                      string
	text, thinking, signature, data           string
	id, name, toolUse, title, context, said   string
	source, content, citations, input, caller []byte
	toolset, transformations                  []byte
	failed                                    *bool
	cache                                     llm.Cache

	spoken  bool     // the content is the text said
	bad     string   // a member that is no text and should be one
	unknown []string // members that no block of this protocol's basic types has
}

// block reads a block. It reports false if it cannot be understood.
func (d *requestReader) block(r *wirejson.Reader, data []byte, at *place) (llm.Part, bool) {
	from := r.Start()
	if r.Kind() != '{' {
		d.wrong(at.element, "an object")
	}
	if !r.Enter('{') {
		return llm.Part{}, false
	}
	var b block
	for r.Next() {
		d.blockMember(r, &b, at.element)
	}
	return d.part(&b, at, data[from:r.End()])
}

// take reads a text. Blocks of other types may have the same name for something else,
// so that it is not known yet whether another value is wrong.
func (b *block) take(r *wirejson.Reader, to *string, name string) {
	if r.Null() {
		return
	}
	s, ok := r.Text()
	if !ok && b.bad == "" {
		b.bad = name
	}
	*to = s
}

func (d *requestReader) blockMember(r *wirejson.Reader, b *block, path string) {
	switch string(r.Name()) {
	case "type":
		b.kind, _ = r.String(maxWord)
	case "text":
		b.take(r, &b.text, "text")
	case "thinking":
		b.take(r, &b.thinking, "thinking")
	case "signature":
		b.take(r, &b.signature, "signature")
	case "data":
		b.take(r, &b.data, "data")
	case "id":
		b.take(r, &b.id, "id")
	case "name":
		b.take(r, &b.name, "name")
	case "tool_use_id":
		b.take(r, &b.toolUse, "tool_use_id")
	case "title":
		b.take(r, &b.title, "title")
	case "context":
		b.take(r, &b.context, "context")
	case "source":
		b.source = r.Value()
	case "content":
		if b.spoken = r.Kind() == '"'; b.spoken {
			b.said, _ = r.Text()
		} else {
			b.content = r.Value()
		}
	case "citations":
		b.citations = r.Value()
	case "input":
		b.input = r.Value()
	case "caller":
		b.caller = r.Value()
	case "toolset_name":
		b.toolset = r.Value()
	case "transformations":
		b.transformations = r.Value()
	case "is_error":
		b.failed = d.flag(r, "messages[].content[].is_error")
	case "cache_control":
		b.cache = d.cache(r, path+".cache_control")
	default:
		b.unknown = append(b.unknown, string(r.Name()))
		r.Skip()
	}
}

// part makes a part of a block. raw is the block as it stands.
func (d *requestReader) part(b *block, at *place, raw []byte) (llm.Part, bool) {
	p, path := llm.Part{Cache: b.cache}, at.element
	switch b.kind {
	case "text":
		p.Text = b.text
		p.Citations = d.citations(b.citations, path)
	case "image", "document":
		p.Kind = llm.PartMedia
		if p.Media = d.media(b, path); p.Media == nil {
			return native(b.kind, raw), d.fault == nil
		}
	case "thinking":
		p.Kind, p.Text = llm.PartReasoning, b.thinking
		if b.signature != "" {
			p.State = &llm.State{Kind: llm.AnthropicSignature, Data: b.signature}
		}
	case "redacted_thinking":
		p.Kind, p.State = llm.PartRedacted, &llm.State{Kind: llm.AnthropicRedacted, Data: b.data}
	case "tool_use":
		p.Kind, p.Call = llm.PartCall, d.call(b, path)
	case "tool_result":
		if at.inside {
			d.refuse(path, "is a tool_result inside another one")
			return p, false
		}
		p.Kind, p.Result = llm.PartResult, d.result(b, path)
	case "":
		d.refuse(path+".type", "is missing")
		return p, false
	default:
		return native(b.kind, raw), true
	}
	if b.bad != "" {
		d.wrong(path+"."+b.bad, "a string")
	}
	for _, name := range b.unknown {
		d.unknown(path, name)
	}
	return p, d.fault == nil
}

// native keeps a block as it stands, its mark of the cache included.
func native(kind string, raw []byte) llm.Part {
	return llm.Part{Kind: llm.PartNative, Native: &llm.Native{Type: kind, Raw: raw}}
}

// call reads a tool_use.
func (d *requestReader) call(b *block, path string) *llm.Call {
	switch {
	case b.id == "":
		d.refuse(path+".id", "is missing")
	case b.name == "":
		d.refuse(path+".name", "is missing")
	case len(b.input) > 0 && b.input[0] != '{' && b.input[0] != 'n':
		d.wrong(path+".input", "an object")
	}
	if len(b.caller) > 0 && !d.direct(b.caller) {
		d.extra(llm.FeatureServerTool, d.where(path)+".caller", b.caller)
	}
	d.toolset(b, path)
	c := &llm.Call{ID: PlainID(b.id), Name: b.name}
	if len(b.input) > 0 && b.input[0] == '{' {
		c.Arguments = string(b.input)
	}
	return c
}

// direct reports whether a caller is the model itself and not a program that it runs.
func (d *requestReader) direct(caller []byte) bool {
	r := &d.source
	r.ResetStrict(caller)
	kind := ""
	if r.Enter('{') {
		for r.Next() {
			if string(r.Name()) == "type" {
				kind, _ = r.String(maxWord)
			}
		}
	}
	return kind == "direct" || kind == ""
}

// result reads a tool_result.
func (d *requestReader) result(b *block, path string) *llm.Result {
	if b.toolUse == "" {
		d.refuse(path+".tool_use_id", "is missing")
	}
	d.toolset(b, path)
	res := &llm.Result{CallID: PlainID(b.toolUse), Error: b.failed != nil && *b.failed}
	switch {
	case b.spoken:
		res.Parts = []llm.Part{{Text: b.said}}
	case len(b.content) > 0:
		d.inner.ResetStrict(b.content)
		res.Parts = d.content(&d.inner, b.content, &inResults)
	}
	return res
}

// toolset keeps the name of a set of tools that the vendor defines.
func (d *requestReader) toolset(b *block, path string) {
	if len(b.toolset) > 0 {
		d.extra(llm.FeatureServerTool, d.where(path)+".toolset_name", b.toolset)
	}
}

// citations reads the sources of a text.
func (d *requestReader) citations(raw []byte, path string) []llm.Citation {
	if len(raw) == 0 || raw[0] == 'n' {
		return nil
	}
	if raw[0] != '[' {
		d.wrong(path+".citations", "a list")
		return nil
	}
	var list []llm.Citation
	r := &d.source
	r.ResetStrict(raw)
	d.each(r, path+".citations", maxSources, func() {
		from := r.Start()
		c, ok := readCitation(r)
		if !ok {
			d.wrong(path+".citations[]", "an object")
		}
		c.Raw = raw[from:r.End()]
		list = append(list, c)
	})
	return list
}

// readCitation reads a citation's fields that other protocols have too.
func readCitation(r *wirejson.Reader) (c llm.Citation, ok bool) {
	if !r.Enter('{') {
		return c, false
	}
	for r.Next() {
		switch string(r.Name()) {
		case "url":
			c.URL, _ = r.Text()
		case "title", "document_title":
			c.Title, _ = r.Text()
		case "cited_text":
			c.Text, _ = r.Text()
		}
	}
	return c, true
}
