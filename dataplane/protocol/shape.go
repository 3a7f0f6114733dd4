package protocol

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// Bounds on what a body may hold and on what a Shape keeps of it.
const (
	// MaxMembers is how many top-level members a body may have.
	MaxMembers = 256
	// MaxHint is the longest hint, such as a session key, that is kept, in bytes.
	MaxHint = 512
)

// Member is a top-level member of a body.
type Member struct {
	Name  string
	Value Span
}

// Shape is what one strict look at a request body finds. Ranges index the body.
type Shape struct {
	Model     string // empty where the path names it
	ModelSpan Span   // the string, quotes included
	Open      int    // offset just after the body's opening brace

	Stream        bool
	StreamOptions Span // value of stream_options
	IncludeUsage  bool // the caller asked for a usage report
	UsageSpan     Span // value of stream_options.include_usage

	MaxOutputTokens int64 // the most the caller lets the model generate; 0 if not stated or not a number
	Choices         int64 // answers asked for; at least 1

	// What the request needs of a model.
	FunctionTools    int         // tools that the caller runs
	ServerTools      ServerTools // tools that the provider runs
	Images           int
	Audio            int
	Video            int
	Documents        int
	StructuredOutput bool // the answer must follow a schema or be JSON
	Reasoning        bool // the caller asks for reasoning, or sets how much
	AudioOutput      bool
	ImageOutput      bool

	// What ties the request to state on a provider's side.
	PreviousResponse string // id of the response it continues
	Conversation     string // id of the conversation it belongs to
	CachedContent    string // name of the cached content it uses
	StoredItems      int    // references to items the provider stores
	Refs             []Ref  // ids among all these that the gateway wrapped
	Store            bool   // the provider is to keep the answer
	StoreStated      bool   // the caller said so itself
	Background       bool   // the provider is to work without the client

	// Hints; none of them is an identity.
	SessionKey string // prompt_cache_key, or what else names the conversation
	User       string // the end user as the caller names it

	Messages    int
	PromptBytes int64 // bytes of the members that make the prompt, media excluded
	MediaBytes  int64 // bytes of media inside the body, as encoded

	Members []Member // all top-level members, in order
}

// Member returns the value of a top-level member.
func (s *Shape) Member(name string) (Span, bool) {
	for _, m := range s.Members {
		if m.Name == name {
			return m.Value, true
		}
	}
	return Span{}, false
}

// ImageTokens is what an image counts as in an estimate.
const ImageTokens = 1500

// PromptTokens estimates the size of the prompt: four bytes a token, and a flat number
// for every image.
func (s *Shape) PromptTokens() int64 {
	return (s.PromptBytes+3)/4 + ImageTokens*int64(s.Images)
}

// Guarded reports whether repeating the request could repeat an effect beside its
// cost: tools the provider runs, or state it keeps.
func (s *Shape) Guarded() bool {
	return s.ServerTools != 0 || s.Background || s.Store || s.Conversation != ""
}

// ServerTools is a set of classes of tools that providers run.
type ServerTools uint8

// The classes.
const (
	ToolWebSearch ServerTools = 1 << iota
	ToolCodeExecution
	ToolFileSearch
	ToolComputerUse
	ToolMCP
	ToolOther
)

var serverToolNames = [...]string{"web_search", "code_execution", "file_search", "computer_use", "mcp", "other"}

// Names lists the classes in the set.
func (s ServerTools) Names() []string {
	var names []string
	for i, n := range serverToolNames {
		if s&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return names
}

// ServerToolsNamed is the set of the classes with these names; other names are none.
func ServerToolsNamed(names []string) (s ServerTools) {
	for i, n := range serverToolNames {
		if slices.Contains(names, n) {
			s |= 1 << i
		}
	}
	return s
}

// AddTool notes a tool by its type (OpenAI, Anthropic) or its member's name
// (Gemini). An empty type is a function. A type that is not known is ToolOther.
func (s *Shape) AddTool(kind string) {
	k := strings.ToLower(strings.ReplaceAll(kind, "_", ""))
	has := func(prefixes ...string) bool {
		for _, p := range prefixes {
			if strings.HasPrefix(k, p) {
				return true
			}
		}
		return false
	}
	switch {
	case k == "", has("function", "custom", "namespace", "bash", "texteditor", "memory", "localshell", "shell", "applypatch"):
		s.FunctionTools++
	case has("websearch", "webfetch", "googlesearch", "urlcontext", "googlemaps", "enterprisewebsearch"):
		s.ServerTools |= ToolWebSearch
	case has("codeexecution", "codeinterpreter"):
		s.ServerTools |= ToolCodeExecution
	case has("filesearch", "retrieval"):
		s.ServerTools |= ToolFileSearch
	case has("computer"):
		s.ServerTools |= ToolComputerUse
	case has("mcp"):
		s.ServerTools |= ToolMCP
	default:
		s.ServerTools |= ToolOther
	}
}

// AddMedia notes a piece of media by its MIME type.
func (s *Shape) AddMedia(mime string) {
	kind, _, _ := strings.Cut(strings.ToLower(mime), "/")
	switch kind {
	case "image":
		s.Images++
	case "audio":
		s.Audio++
	case "video":
		s.Video++
	default:
		s.Documents++
	}
}

// Inspector reads request bodies for the codecs. The zero value is ready; it is
// safe for concurrent use and must not be copied.
type Inspector struct{ readers sync.Pool }

// Inspect walks over the members of body and calls member for each, which reads
// the value with r or leaves it. It fails with InvalidRequest for anything but one
// JSON object without duplicate names, bad UTF-8, trailing data, nesting beyond
// wirejson.MaxDepth and more than MaxMembers members.
//
// acted lists the members the gateway acts on. A name that differs from one of
// them by case alone is refused: some servers match names without regard to case
// and would read another value than the gateway did.
func (in *Inspector) Inspect(body []byte, acted []string, member func(r *wirejson.Reader, name string, s *Shape) *fault.Error) (*Shape, *fault.Error) {
	r, _ := in.readers.Get().(*wirejson.Reader)
	if r == nil {
		r = new(wirejson.Reader)
	}
	defer func() {
		r.Release()
		in.readers.Put(r)
	}()
	r.ResetStrict(body)
	s := &Shape{Choices: 1, Members: make([]Member, 0, 12)}
	if kind := r.Kind(); kind != '{' {
		if err := r.Done(); err != nil {
			return nil, bodyFault(err)
		}
		return nil, fault.New(fault.InvalidRequest, "The body must be a JSON object.")
	}
	r.Enter('{')
	s.Open = r.End()
	for r.Next() {
		if len(s.Members) == MaxMembers {
			return nil, fault.Newf(fault.InvalidRequest, "The body has more than %d top-level members.", MaxMembers)
		}
		name := nameOf(r, acted)
		for _, a := range acted {
			if name != a && strings.EqualFold(name, a) {
				return nil, &fault.Error{
					Class: fault.InvalidRequest, Param: clip(name, MaxHint),
					Public: fmt.Sprintf("The body has a member %q, which differs from %q by case alone. Send it as %q.", name, a, a),
				}
			}
		}
		at := Span{From: r.Start()}
		if f := member(r, name, s); f != nil {
			return nil, f
		}
		r.Skip()
		at.To = r.End()
		s.Members = append(s.Members, Member{Name: name, Value: at})
	}
	if err := r.Done(); err != nil {
		return nil, bodyFault(err)
	}
	return s, nil
}

// nameOf is the name of the member at hand, without a copy if it is one of known.
func nameOf(r *wirejson.Reader, known []string) string {
	raw := r.Name()
	for _, k := range known {
		if string(raw) == k {
			return k
		}
	}
	return string(raw)
}

// bodyFault tells the caller what is wrong with its JSON and where.
func bodyFault(err error) *fault.Error {
	f := fault.Wrap(fault.InvalidRequest, err)
	var syntax *jsontext.SyntacticError
	where := ""
	if errors.As(err, &syntax) {
		where = fmt.Sprintf(" at byte %d", syntax.ByteOffset)
	}
	switch {
	case errors.Is(err, wirejson.ErrDepth):
		f.Public = fmt.Sprintf("The body is nested more than %d levels deep.", wirejson.MaxDepth)
	case errors.Is(err, wirejson.ErrTrailing):
		f.Public = "The body has data after its JSON object. Send one object."
	case errors.Is(err, jsontext.ErrDuplicateName):
		name := ""
		if syntax != nil {
			name = clip(syntax.JSONPointer.LastToken(), 100)
		}
		f.Public = fmt.Sprintf("The body has the member %q twice in one object. Send it once.", name)
	case errors.Is(err, io.ErrUnexpectedEOF):
		f.Public = "The body ends before its JSON object does."
	case syntax != nil && strings.Contains(syntax.Error(), "UTF-8"):
		f.Public = "The body is not valid UTF-8" + where + "."
	default:
		f.Public = "The body is not valid JSON" + where + "."
	}
	return f
}

// ReadModel reads the member that names the model.
func ReadModel(r *wirejson.Reader, s *Shape) *fault.Error {
	bad := func(text string) *fault.Error {
		return &fault.Error{Class: fault.InvalidRequest, Param: "model", Public: text}
	}
	if r.Kind() != '"' {
		if r.Kind() == 0 {
			return nil // not JSON: the walk reports where
		}
		return bad("The member model must be a string.")
	}
	at := Span{From: r.Start()}
	name, ok := r.String(6 * MaxModelName)
	at.To = r.End()
	switch {
	case r.Err() != nil:
		return nil
	case !ok || len(name) > MaxModelName:
		return bad(fmt.Sprintf("The member model is longer than %d bytes.", MaxModelName))
	case name == "":
		return bad("The member model is empty. Name a model of the model list.")
	case badModelName(name):
		return bad("The member model must not contain control characters, \"..\", or a leading slash.")
	}
	s.Model, s.ModelSpan = name, at
	return nil
}

// RequireModel fails if the body names no model.
func (s *Shape) RequireModel() *fault.Error {
	if s.Model != "" {
		return nil
	}
	return &fault.Error{Class: fault.InvalidRequest, Param: "model", Public: "The member model is missing. Name a model of the model list."}
}

// ReadStream reads the member that asks for a stream.
func ReadStream(r *wirejson.Reader, s *Shape) *fault.Error {
	if r.Null() {
		return nil
	}
	v, ok := r.Bool()
	if !ok && r.Err() == nil {
		return &fault.Error{Class: fault.InvalidRequest, Param: "stream", Public: "The member stream must be true or false."}
	}
	s.Stream = v
	return nil
}

// AddPrompt counts a member as part of the prompt once its value, which starts at
// from, was read up to where r stands.
func (s *Shape) AddPrompt(r *wirejson.Reader, from int) {
	s.PromptBytes += int64(r.End() - from)
}

// AddMediaString reads a string that may hold media, a data URL or, if always is
// set, bare base64, and counts it as media rather than prompt.
func (s *Shape) AddMediaString(r *wirejson.Reader, always bool) {
	raw, ok := r.Bytes()
	if ok && (always || strings.HasPrefix(string(raw[:min(len(raw), 5)]), "data:")) {
		s.MediaBytes += int64(len(raw))
		s.PromptBytes -= int64(len(raw))
	}
}

// Hint reads a string to be kept as a hint; a longer or other value is none.
func Hint(r *wirejson.Reader) string {
	v, _ := r.String(MaxHint)
	return hint(v)
}

func hint(v string) string {
	if len(v) > MaxHint || strings.ContainsFunc(v, isControl) {
		return ""
	}
	return v
}

// ModelEdit replaces the model in the body, if it is another one.
func (s *Shape) ModelEdit(model string) []Edit {
	if s.ModelSpan.IsZero() || s.Model == model {
		return nil
	}
	return []Edit{{At: s.ModelSpan, Text: wirejson.AppendString(nil, model)}}
}
