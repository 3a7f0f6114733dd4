package llm

// Number is a JSON number as it was written, so that 1.0 stays 1.0 and integers
// above 2^53 survive. Empty means not stated.
type Number string

// Request is what a caller asks of a model, in words of no single protocol. It is
// made by the codec of the caller's protocol and read by that of the upstream's.
//
// Fields that most protocols share have names here. What only some have is in
// Extras, each with the Feature it stands for, so that no field is lost unseen.
type Request struct {
	Model    string // the public model the caller asked for
	Stream   bool
	Messages []Message

	Tools      []Tool
	ToolChoice ToolChoice
	OneCall    bool // at most one tool call at a time

	MaxOutputTokens int64 // reasoning included; 0 if not stated
	Temperature     Number
	TopP            Number
	TopK            Number
	Stop            []string

	Format    Format
	Reasoning Reasoning

	User     string // the end user as the caller names it
	CacheKey string // groups calls that share a prompt prefix

	IncludeUsage bool // a Chat caller asked for the usage chunk of a stream
	WantState    bool // a Responses caller asked for encrypted reasoning, to send it back

	Extras  []Extra
	Unknown []string // paths of fields that the protocol's codec does not know; at most MaxUnknown
}

// MaxUnknown bounds how many unknown fields of a request are named.
const MaxUnknown = 32

// AddUnknown names a field that no codec knows.
func (r *Request) AddUnknown(path string) {
	if len(r.Unknown) < MaxUnknown {
		r.Unknown = append(r.Unknown, path)
	}
}

// Extra is a field of a request that is not shared by all protocols.
type Extra struct {
	Feature Feature
	Field   string // path in the caller's protocol, such as "logit_bias"
	Raw     []byte // its JSON value; aliases the caller's body
}

// Extra returns the first extra of a feature.
func (r *Request) Extra(f Feature) (Extra, bool) {
	for _, e := range r.Extras {
		if e.Feature == f {
			return e, true
		}
	}
	return Extra{}, false
}

// Role is who speaks.
type Role uint8

// The roles. Results of tools stand in messages of their own, whoever carries them
// on the wire.
const (
	RoleSystem Role = iota
	RoleUser
	RoleAssistant
	RoleTool // results of tool calls, and nothing else
)

var roleNames = [...]string{"system", "user", "assistant", "tool"}

// String is the role's name in logs and errors.
func (r Role) String() string {
	if int(r) < len(roleNames) {
		return roleNames[r]
	}
	return "unknown"
}

// Message is one turn of a conversation, or a part of one.
type Message struct {
	Role      Role
	Developer bool   // a system message that the caller called "developer"
	Name      string // who speaks, where the caller told several users apart
	Phase     string // of an assistant's message, such as commentary; FeaturePhase among the extras tells of it
	Parts     []Part
}

// PartKind is what a part of a message is.
type PartKind uint8

// The kinds.
const (
	PartText       PartKind = iota
	PartMedia               // image, document, audio or video: Media
	PartCall                // the model calls a tool: Call
	PartResult              // what the tool returned: Result
	PartReasoning           // reasoning: Text is what may be shown, State what only its maker can read
	PartRedacted            // reasoning of which nothing may be shown: State
	PartRefusal             // the model declines: Text
	PartNative              // something that only the caller's own protocol has: Native
	endOfPartKinds          //
)

var partNames = [...]string{"text", "media", "tool call", "tool result", "reasoning", "redacted reasoning", "refusal", "native"}

// String is the kind's name in logs and errors.
func (k PartKind) String() string {
	if k < endOfPartKinds {
		return partNames[k]
	}
	return "unknown"
}

// Part is a piece of a message. Which fields count is said by Kind; State, Cache and
// Citations may stand on any kind that has them in some protocol.
type Part struct {
	Kind      PartKind
	Text      string
	Media     *Media
	Call      *Call
	Result    *Result
	State     *State
	Citations []Citation
	Native    *Native
	Cache     Cache // a prompt-cache breakpoint after this part
}

// MediaKind is the modality of a Media.
type MediaKind uint8

// The modalities.
const (
	Image MediaKind = iota
	Document
	Audio
	Video
)

var mediaNames = [...]string{"image", "document", "audio", "video"}

// String is the modality's name.
func (k MediaKind) String() string {
	if int(k) < len(mediaNames) {
		return mediaNames[k]
	}
	return "unknown"
}

// Media is content that is not plain text. Exactly one of Data, URL, FileID and Text is
// set.
type Media struct {
	Kind   MediaKind
	MIME   string // such as image/png; may be empty with URL and FileID
	Data   string // base64, standard alphabet, without a data URL's head
	URL    string // http, https or a provider's own scheme such as gs
	FileID string // a file that the provider keeps
	Text   string // a document given as plain text

	Name    string // file name or title
	Detail  string // how closely to look: low, high, auto, original
	Context string // what the document is about, for the model
	Cite    bool   // citations of this document are wanted
}

// Call is a tool call of the model.
type Call struct {
	ID        string
	Name      string
	Namespace string // of the tool, where the caller groups tools
	Arguments string // as the model wrote them: a JSON object, "" for none, or cut JSON
	Custom    bool   // Arguments is free text: the tool takes no JSON
}

// Result is what a tool returned.
type Result struct {
	CallID string
	Name   string // of the tool, where the protocol repeats it; else empty
	Parts  []Part // text and media
	Raw    string // the JSON value of a protocol that has values and not text here; Parts is then empty
	Error  bool   // the tool failed
}

// StateKind says who made a State.
type StateKind uint8

// The makers.
const (
	NoState            StateKind = iota
	AnthropicSignature           // signature of a thinking block
	AnthropicRedacted            // data of a redacted_thinking block
	OpenAIEncrypted              // encrypted_content of a reasoning item
	GeminiSignature              // thoughtSignature of a part
)

var stateNames = [...]string{"none", "anthropic_signature", "anthropic_redacted", "openai_encrypted", "gemini_signature"}

// String is the name used in records.
func (k StateKind) String() string {
	if int(k) < len(stateNames) {
		return stateNames[k]
	}
	return stateNames[NoState]
}

// State is reasoning that only its maker can read. It never goes to another one.
type State struct {
	Kind StateKind
	Data string
	ID   string // the maker's id of the item that holds it; may be empty
	// Foreign says that Data was handed out by another account than the one that
	// will get the request, or cannot be proved to be ours.
	Foreign bool
}

// Cache marks a prompt-cache breakpoint.
type Cache uint8

// The breakpoints by the lifetime that is asked for.
const (
	NoCache Cache = iota
	CacheDefault
	Cache5m
	Cache1h
)

// Citation is a source that a text refers to.
type Citation struct {
	URL, Title, Text string // Text is what was cited
	Start, End       int    // span in the answer's text in characters; both 0 if not told
	Raw              []byte // in the maker's own form
}

// Native is a piece that only one protocol has, such as a call of a tool that the
// provider runs.
type Native struct {
	Type string // the protocol's word for it
	Raw  []byte
}

// Tool is a tool offered to the model.
type Tool struct {
	Name        string
	Description string
	Schema      []byte // JSON Schema of the arguments; nil for a tool that takes none. Aliases the caller's body
	Strict      *bool
	Cache       Cache
	Namespace   string
	Custom      bool   // takes free text
	Grammar     []byte // of a custom tool's text, in the caller's form; nil for any text
	Server      string // the type of a tool that the provider runs; Native is then all of it
	Native      []byte
	Extras      []Extra // fields of this tool that are not shared
}

// ChoiceMode says whether the model has to call a tool.
type ChoiceMode uint8

// The modes.
const (
	ChoiceUnset ChoiceMode = iota
	ChoiceAuto
	ChoiceNone
	ChoiceAny  // must call some tool
	ChoiceTool // must call Names[0]
)

// ToolChoice bounds the calls of the model.
type ToolChoice struct {
	Mode  ChoiceMode
	Names []string // with ChoiceTool the tool; with ChoiceAuto and ChoiceAny the only ones allowed, if not empty
}

// FormatKind is the form that the answer's text must have.
type FormatKind uint8

// The forms.
const (
	FormatText FormatKind = iota
	FormatJSON            // some JSON object
	FormatSchema
)

// Format is the form of the answer's text.
type Format struct {
	Kind        FormatKind
	Name        string
	Description string
	Schema      []byte // aliases the caller's body
	Strict      *bool
}

// Effort is how hard the model is to think. Protocols that count tokens have a Budget
// beside it.
type Effort string

// The efforts, in rising order. Empty means not stated.
const (
	EffortNone    Effort = "none"
	EffortMinimal Effort = "minimal"
	EffortLow     Effort = "low"
	EffortMedium  Effort = "medium"
	EffortHigh    Effort = "high"
	EffortXHigh   Effort = "xhigh"
	EffortMax     Effort = "max"
)

// Reasoning is what the caller wants of the model's reasoning. The zero value leaves
// it to the model.
type Reasoning struct {
	Off     bool   // no reasoning
	On      bool   // reasoning wanted, the model decides how much (Anthropic's adaptive)
	Effort  Effort // how hard
	Budget  int64  // most tokens of reasoning; 0 if not stated, -1 for the model's choice
	Show    bool   // what may be shown is wanted in the answer
	Hide    bool   // and this says that it is not
	Summary string // how detailed: auto, concise, detailed
}

// Stated reports whether the caller said anything.
func (r Reasoning) Stated() bool { return r != Reasoning{} }

// Wanted reports whether the caller asked for reasoning.
func (r Reasoning) Wanted() bool {
	return !r.Off && (r.On || r.Budget != 0 || r.Effort != "" && r.Effort != EffortNone)
}
