package affinity

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

const (
	// maxChain is how many boundaries a Key keeps: the first keepFirst and the newest.
	maxChain  = 512
	keepFirst = 64

	// mediaTokens is what a piece of media counts.
	mediaTokens = 1500

	// maxTTL bounds the lifetime that a request can ask for.
	maxTTL = 24 * time.Hour
)

// Seed keys the hashes, so that nobody outside can make two prompts meet. All nodes of a
// fleet use the same.
type Seed uint64

// NewSeed derives the seed from the fleet's secret for prefix hashes.
func NewSeed(secret []byte) Seed {
	sum := sha256.Sum256(append([]byte("prefix hashes\x00"), secret...))
	return Seed(binary.BigEndian.Uint64(sum[:8]))
}

// Input is what a Key is made of.
type Input struct {
	Protocol protocol.Name
	Tenant   string
	Consumer string // empty if it is not known, like EndUser
	EndUser  string
	Model    string // logical model

	Header http.Header
	// SessionHeaders are the headers that can name a session, first to last; nil takes
	// those that common clients send.
	SessionHeaders []string

	Body  []byte
	Shape *protocol.Shape // of Body; nil if it has none

	Seed Seed

	// Scale corrects the estimate of four bytes a token, as Store.Scale has learned it for
	// the model; 0 is 1.
	Scale float64
}

// Read returns the key of a request. It reads each byte of the prompt once, keeps none,
// and needs about as long as that takes. Safe for concurrent use.
func Read(in Input) Key {
	r, _ := readers.Get().(*reader)
	if r == nil {
		r = new(reader)
	}
	r.start(&in)
	k := Key{}
	if in.Shape != nil {
		r.blocks(&k)
	}
	r.finish(&k)
	r.identify(&k)
	r.release()
	readers.Put(r)
	return k
}

var readers sync.Pool

// reader makes one chain.
type reader struct {
	canon
	in     *Input
	prefix [40]byte
	prev   Hash
	block  Block

	chain    []Boundary
	count    int // boundaries so far, those left out included
	tokens   int64
	unscaled int64
	media    bool
	turn     bool // the block before was the assistant's
	rootOnly bool // nothing after root is read
	root     Hash // up to the first message that is not of the system
	first    Hash // up to the first message
	marks    bool
}

func (r *reader) start(in *Input) {
	r.in = in
	r.body, r.end = in.Body, len(in.Body)
	r.canon.media, r.ttl = mediaMembers(in.Protocol), 0
	r.hash.ResetSeed(uint64(in.Seed))
	r.chain, r.count, r.tokens, r.unscaled = r.chain[:0], 0, 0, 0
	r.media, r.turn, r.root, r.first, r.marks, r.rootOnly = false, false, Hash{}, Hash{}, false, false
	_, _ = r.hash.WriteString("v1\x00")
	_, _ = r.hash.WriteString(in.Tenant)
	if in.Shape != nil && in.Shape.PreviousResponse+in.Shape.Conversation+in.Shape.CachedContent != "" {
		// What the upstream stores stands before the prompt.
		_, object := pinned(in.Shape)
		_, _ = r.hash.WriteString("\x00")
		_, _ = r.hash.WriteString(object)
	}
	r.prev = r.sum()
}

// release forgets what was read. The hasher keeps its last bytes, so they are written over.
func (r *reader) release() {
	r.hash.Reset()
	_, _ = r.hash.Write(zeros[:])
	r.hash.Reset()
	r.in, r.body = nil, nil
	if cap(r.cuts) > maxKept {
		r.cuts = nil
	}
}

// maxKept bounds what a reader keeps from one request to the next, in ranges.
const maxKept = 8 << 10

// zeros is as long as the block of a hasher and its stripe.
var zeros [1024 + 64]byte

func (r *reader) sum() Hash {
	s := r.hash.Sum128()
	return Hash{Hi: s.Hi, Lo: s.Lo}
}

// mediaMembers are the members of messages whose values are media.
func mediaMembers(p protocol.Name) []string {
	switch p {
	case protocol.OpenAIChat:
		return chatMedia
	case protocol.OpenAIResponses:
		return responsesMedia
	case protocol.Anthropic:
		return anthropicMedia
	case protocol.Gemini:
		return geminiMedia
	}
	return nil
}

var (
	chatMedia      = []string{"image_url", "input_audio", "file_data"}
	responsesMedia = []string{"image_url", "input_audio", "file_data", "result"}
	anthropicMedia = []string{"source"}
	geminiMedia    = []string{"inlineData", "inline_data", "fileData", "file_data"}
)

// blocks reads the prompt, block by block.
func (r *reader) blocks(k *Key) {
	switch r.in.Protocol {
	case protocol.OpenAIChat:
		r.tools(k, "tools", "functions")
		r.chat(k)
	case protocol.OpenAIResponses:
		r.tools(k, "tools", "")
		r.fields(k, System, "instructions", "text")
		r.fields(k, Params, "tool_choice", "")
		r.messages(k, "input")
	case protocol.Anthropic:
		r.tools(k, "tools", "")
		r.fields(k, System, "system", "")
		r.fields(k, Params, "tool_choice", "thinking")
		r.messages(k, "messages")
		r.automatic()
	case protocol.Gemini:
		r.tools(k, "tools", "")
		r.fields(k, System, r.either("systemInstruction", "system_instruction"), "")
		r.fields(k, Params, r.either("toolConfig", "tool_config"), "")
		r.messages(k, "contents")
	}
	r.options()
}

// either is the one of two spellings of a name that the body uses.
func (r *reader) either(name, other string) string {
	if _, ok := r.in.Shape.Member(other); ok {
		return other
	}
	return name
}

// member finds a top-level member that holds something.
func (r *reader) member(name string) (at protocol.Span, ok bool) {
	if name == "" {
		return at, false
	}
	at, ok = r.in.Shape.Member(name)
	if !ok || at.From < 0 || at.To > len(r.in.Body) || at.From >= at.To {
		return at, false
	}
	switch r.in.Body[at.From] {
	case 'n':
		return at, false
	case '[':
		inside := r.space(at.From + 1)
		return at, inside < at.To && r.in.Body[inside] != ']'
	}
	return at, string(at.Of(r.in.Body)) != `""`
}

func (r *reader) begin(b Block) {
	r.block = b
	r.canon.reset()
	r.hash.Reset()
	prev := r.prev.bytes()
	n := copy(r.prefix[:], prev[:])
	r.prefix[n] = 0
	n += 1 + copy(r.prefix[n+1:], b.String())
	r.prefix[n] = 0
	_, _ = r.hash.Write(r.prefix[:n+1])
}

// literal adds bytes that the gateway puts between those of the request.
func (r *reader) literal(text string) {
	_, _ = r.hash.WriteString(text)
	r.size += len(text)
}

// close ends the block: its boundary is known.
func (r *reader) close(k *Key) {
	r.prev = r.sum()
	bytes := int64(max(r.size-r.mediaBytes, 0))
	text := (bytes + 3) / 4
	extra := mediaTokens * int64(r.mediaCount)
	r.media = r.media || r.mediaCount > 0
	r.unscaled += text + extra
	if s := r.in.Scale; s > 0 && s != 1 {
		text = int64(math.Ceil(float64(text) * s))
	}
	r.tokens += text + extra
	r.marks = r.marks || r.marked
	b := Boundary{Hash: r.prev, Block: r.block, Tokens: r.tokens, Marked: r.marked}
	if r.count < maxChain {
		r.chain = append(r.chain, b)
	} else {
		r.chain[keepFirst+(r.count-keepFirst)%(maxChain-keepFirst)] = b
	}
	r.count++
	if r.block == Tools || r.block == System {
		k.Head, k.HeadTokens = r.prev, r.tokens
	}
}

// fields makes a block of one or two top-level members.
func (r *reader) fields(k *Key, b Block, name, other string) {
	open := false
	for _, n := range [2]string{name, other} {
		at, ok := r.member(n)
		if !ok {
			continue
		}
		if !open {
			r.begin(b)
			open = true
		}
		if other != "" {
			r.literal(n)
		}
		r.canon.media = nil // parameters and instructions are text
		r.plain(at.From)
		r.canon.media = mediaMembers(r.in.Protocol)
	}
	if open {
		r.close(k)
	}
}

// tools makes the block of tools.
func (r *reader) tools(k *Key, name, other string) {
	at, ok := r.member(name)
	if !ok {
		if at, ok = r.member(other); !ok {
			return
		}
	}
	r.begin(Tools)
	r.canon.media = nil // a tool's schema may have such names
	if r.body[at.From] == '[' {
		r.literal("[")
		for i, el := 0, r.element(at.From+1); el >= 0; i++ {
			if i > 0 {
				r.literal(",")
			}
			el = r.element(r.add(el))
		}
		r.literal("]")
	} else {
		r.plain(at.From)
	}
	r.canon.media = mediaMembers(r.in.Protocol)
	r.close(k)
}

// element is where the next element of an array starts; -1 at its end.
func (r *reader) element(at int) int {
	for at = r.space(at); at < r.end; at = r.space(at + 1) {
		switch r.body[at] {
		case ',':
			continue
		case ']':
			return -1
		}
		return at
	}
	return -1
}

// add reads the message or tool that starts at at, hashes it and returns its end.
func (r *reader) add(at int) int {
	end, ok := r.list(at)
	if !ok {
		return r.plain(at)
	}
	r.ordered()
	return end
}

// message makes a block of the message that starts at at and returns its end.
func (r *reader) message(k *Key, at int) int {
	r.begin(Message)
	end := r.add(at)
	r.said(k)
	return end
}

// said ends the block of a message.
func (r *reader) said(k *Key) {
	role, before := r.role(), r.tokens
	if assistant := role == roleAssistant; assistant != r.turn {
		r.turn = assistant
		if assistant {
			k.PriorTokens = before
		}
	}
	r.close(k)
	if r.first.IsZero() {
		r.first = r.prev
	}
	if r.root.IsZero() && role != roleSystem {
		r.root = r.prev
	}
}

// messages makes the blocks of the messages, which may be a single text or a single
// object, too.
func (r *reader) messages(k *Key, name string) {
	at, ok := r.member(name)
	if !ok {
		return
	}
	if r.body[at.From] != '[' {
		r.message(k, at.From)
		return
	}
	for el := r.element(at.From + 1); el >= 0 && !r.enough(); {
		el = r.element(r.message(k, el))
	}
}

// chat makes the blocks of Chat, whose system prompt is among the messages.
func (r *reader) chat(k *Key) {
	at, ok := r.member("messages")
	if !ok || r.body[at.From] != '[' {
		r.fields(k, System, "", "response_format")
		r.fields(k, Params, "tool_choice", "")
		return
	}
	leading, open := true, false
	for el := r.element(at.From + 1); el >= 0 && !r.enough(); {
		if !leading {
			el = r.element(r.message(k, el))
			continue
		}
		if !open {
			r.begin(System)
		}
		size, bytes, count, marked := r.size, r.mediaBytes, r.mediaCount, r.marked
		end, ok := r.list(el)
		if ok && r.role() == roleSystem {
			r.ordered()
			open = true
			el = r.element(end)
			continue
		}
		// It is the first of the conversation: what was read of it is read again.
		r.size, r.mediaBytes, r.mediaCount, r.marked = size, bytes, count, marked
		leading = false
		r.endSystem(k, open)
	}
	if leading {
		r.endSystem(k, open)
	}
}

// endSystem ends Chat's system block, which is open if there was a system message.
func (r *reader) endSystem(k *Key, open bool) {
	if open {
		if at, ok := r.member("response_format"); ok {
			r.literal("response_format")
			r.plain(at.From)
		}
		r.close(k)
	} else {
		r.fields(k, System, "", "response_format")
	}
	r.fields(k, Params, "tool_choice", "")
}

type role uint8

const (
	roleOther role = iota
	roleSystem
	roleAssistant
)

// role is whose the message at hand is.
func (r *reader) role() role {
	switch string(r.text("role")) {
	case "system", "developer":
		return roleSystem
	case "assistant", "model":
		return roleAssistant
	case "":
	default:
		return roleOther
	}
	if r.in.Protocol != protocol.OpenAIResponses {
		return roleOther
	}
	// Items of Responses that have no role are told by their type.
	kind := r.text("type")
	switch string(kind) {
	case "reasoning", "compaction", "mcp_list_tools", "mcp_approval_request":
		return roleAssistant
	}
	if n := len(kind) - len("_call"); n > 0 && string(kind[n:]) == "_call" {
		return roleAssistant
	}
	return roleOther
}

// enough reports that the rest of the prompt is not asked for.
func (r *reader) enough() bool { return r.rootOnly && !r.root.IsZero() }

// automatic takes note of Anthropic's marker at the top level, which stands for one at the
// end of the prompt.
func (r *reader) automatic() {
	at, ok := r.member("cache_control")
	if !ok || r.count == 0 {
		return
	}
	r.marks = true
	r.ttl = max(r.ttl, ttlOf(at.Of(r.body)))
	r.last().Marked = true
}

// options takes note of the lifetime that OpenAI's options ask for.
func (r *reader) options() {
	if at, ok := r.member("prompt_cache_options"); ok {
		r.ttl = max(r.ttl, ttlOf(at.Of(r.body)))
	}
}

// last is the newest boundary.
func (r *reader) last() *Boundary {
	if r.count <= maxChain {
		return &r.chain[r.count-1]
	}
	return &r.chain[keepFirst+(r.count-1-keepFirst)%(maxChain-keepFirst)]
}

// finish copies the chain, in order.
func (r *reader) finish(k *Key) {
	if r.count > 0 {
		k.Chain = make([]Boundary, 0, len(r.chain))
		if r.count <= maxChain {
			k.Chain = append(k.Chain, r.chain...)
		} else {
			oldest := keepFirst + (r.count-keepFirst)%(maxChain-keepFirst)
			k.Chain = append(k.Chain, r.chain[:keepFirst]...)
			k.Chain = append(k.Chain, r.chain[oldest:]...)
			k.Chain = append(k.Chain, r.chain[keepFirst:oldest]...)
		}
	}
	k.PromptTokens, k.unscaled, k.withMedia = r.tokens, r.unscaled, r.media
	k.Writes, k.MinTTL = r.marks, r.ttl
}

// identify finds out how the request is tied to others.
func (r *reader) identify(k *Key) {
	in := r.in
	if in.Shape != nil {
		if source, object := pinned(in.Shape); source != "" {
			k.Kind, k.Source = Pinned, source
			k.print = uint32(r.of("object", in.Tenant, object).Hi >> 32)
			return
		}
	}
	if source, name := session(in); source != "" {
		k.Kind, k.Source = Strong, source
		k.Session = r.of("session", in.Tenant, in.Consumer, in.EndUser, name, in.Model)
		k.Root = k.Session.hex()
		k.print = uint32(k.Session.Hi >> 32)
		return
	}
	if len(k.Chain) == 0 {
		return
	}
	k.Kind, k.Source = Weak, "prefix"
	root := r.opening()
	if root.IsZero() { // tools or a system prompt and nothing else
		k.print = uint32(k.Chain[0].Hash.Hi >> 32)
		return
	}
	k.Root = root.hex()
	k.print = uint32(root.Hi >> 32)
}

// opening is the chain up to the first message that is not of the system or, without one,
// up to the first.
func (r *reader) opening() Hash {
	if r.root.IsZero() {
		return r.first
	}
	return r.root
}

// of hashes names, each with its length, so that no two lists are the same bytes.
func (r *reader) of(parts ...string) Hash {
	r.hash.Reset()
	for _, p := range parts {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(p)))
		_, _ = r.hash.Write(size[:])
		_, _ = r.hash.WriteString(p)
	}
	return r.sum()
}
