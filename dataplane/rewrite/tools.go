package rewrite

import (
	"slices"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// tool is one of those that a request offers.
type tool struct {
	name, kind string
	in         []*item // what holds it: the tool itself first, then the lists and objects around it
}

// builtIn is the kind of Gemini's tools that are no functions.
const builtIn = "built_in"

// tools are those that the request offers and that are not taken away.
func (t *tree) tools() []tool {
	var out []tool
	for _, list := range t.find("tools") {
		for _, el := range t.of(list.node) {
			if t.p != protocol.Gemini {
				out = append(out, tool{t.toolName(el), t.memberText(el.node, "type"), []*item{el, list}})
				continue
			}
			for _, m := range t.of(el.node) {
				if !protocol.SameMember(t.p, m.name, "functionDeclarations") {
					out = append(out, tool{protocol.CamelCase(m.name), builtIn, []*item{m, el, list}})
					continue
				}
				for _, d := range t.of(m.node) {
					out = append(out, tool{name: t.toolName(d), kind: "function", in: []*item{d, m, el, list}})
				}
			}
		}
	}
	return out
}

func (t *tree) toolName(el *item) string {
	r := new(wirejson.Reader)
	r.ResetLenient(t.bytes(el.node))
	return protocol.ToolName(r, t.p)
}

func (t *tree) memberText(n *node, name string) string {
	for _, m := range t.members(n, name) {
		return t.text(m.node)
	}
	return ""
}

// removeTool takes the tools of that name away, and what refers to them.
func (t *tree) removeTool(name string) {
	left, was := 0, false
	for _, tl := range t.tools() {
		if tl.name != name && (tl.kind != builtIn || tl.name != protocol.CamelCase(name)) {
			left++
			continue
		}
		was = true
		for n, i := range tl.in {
			if n > 0 && len(t.of(i.node)) > 0 {
				break
			}
			i.gone = true
		}
	}
	if !was {
		return
	}
	choice := protocol.ToolChoice.Paths(t.p)[0]
	if left == 0 {
		t.cut(choice...)
		t.cut("parallel_tool_calls")
		return
	}
	for _, list := range [...]protocol.Path{
		{"tool_choice", "tools"}, {"tool_choice", "allowed_tools", "tools"}, {"toolConfig", "functionCallingConfig", "allowedFunctionNames"},
	} {
		t.removeAllowed(list, choice, name)
	}
	for _, named := range [...]protocol.Path{{"tool_choice", "name"}, {"tool_choice", "function", "name"}, {"tool_choice", "custom", "name"}} {
		for _, i := range t.find(named...) {
			if t.text(i.node) == name {
				t.cut(choice...)
			}
		}
	}
}

// removeAllowed takes a tool off the list of those that the model may call. Without any
// that is left, there is no such list.
func (t *tree) removeAllowed(list, choice protocol.Path, name string) {
	for _, l := range t.find(list...) {
		was := false
		for _, el := range t.of(l.node) {
			if t.toolName(el) == name || t.text(el.node) == name {
				el.gone, was = true, true
			}
		}
		if was && len(t.of(l.node)) == 0 {
			t.cut(choice...)
		}
	}
}

// toolChoice changes which tool the model is to call: auto, none, required, or one by
// its name. Where no tools are offered there is nothing to choose.
func (t *tree) toolChoice(rw *configv1.Rewrite) bool {
	path := protocol.ToolChoice.Paths(t.p)[0]
	if rw.GetOperation() == remove {
		t.cut(path...)
		return true
	}
	if rw.GetOperation() == preset && len(t.find(path...)) > 0 {
		return true
	}
	tools := t.tools()
	if len(tools) == 0 {
		return true
	}
	want := rw.GetValue().GetStringValue()
	switch want {
	case "auto", "none", "required":
		t.chooseAny(want, path)
		return true
	}
	at := slices.IndexFunc(tools, func(tl tool) bool { return tl.name == want && tl.kind != builtIn })
	if at < 0 {
		return false
	}
	t.choose(tools[at], path)
	return true
}

func (t *tree) chooseAny(want string, path protocol.Path) {
	switch t.p {
	case protocol.Anthropic:
		kind := want
		if want == "required" {
			kind = "any"
		}
		if kind == "none" { // takes nothing beside it
			t.set(object(member("type", word(kind))), path...)
			return
		}
		t.put(word(kind), append(slices.Clone(path), "type"))
		t.cut(append(slices.Clone(path), "name")...)
	case protocol.Gemini:
		mode := map[string]string{"auto": "AUTO", "none": "NONE", "required": "ANY"}[want]
		t.put(word(mode), append(slices.Clone(path), "mode"))
		t.cut(append(slices.Clone(path), "allowedFunctionNames")...)
	default:
		t.put(word(want), path)
	}
}

// choose has the model call one tool.
func (t *tree) choose(tl tool, path protocol.Path) {
	name := member("name", word(tl.name))
	kind := "function"
	if tl.kind != "" {
		kind = tl.kind
	}
	switch {
	case t.p == protocol.Anthropic:
		t.put(word("tool"), append(slices.Clone(path), "type"))
		t.put(word(tl.name), append(slices.Clone(path), "name"))
	case t.p == protocol.Gemini:
		t.put(word("ANY"), append(slices.Clone(path), "mode"))
		names := &node{kind: '[', read: true, items: []*item{{node: word(tl.name)}}}
		t.set(names, append(slices.Clone(path), "allowedFunctionNames")...)
	case kind != "function" && kind != "custom":
		t.set(object(member("type", word(kind))), path...)
	case t.p == protocol.OpenAIChat:
		t.set(object(member("type", word(kind)), member(kind, object(name))), path...)
	default:
		t.set(object(member("type", word(kind)), name), path...)
	}
}
