package fakeprovider

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// MaxBody bounds a request body, in bytes.
const MaxBody = 64 << 20

// Config tunes a Provider. A zero field takes the default it documents.
type Config struct {
	// Models are the models the provider lists. Default DefaultModels.
	Models []string

	// OnlyListed refuses requests for models that are not listed. Default: every
	// name is served.
	OnlyListed bool

	// Keys are the credentials that are accepted. Default: none is asked for.
	Keys []string

	// Strict refuses what the real services refuse, in the vendor's words: unknown
	// fields at any depth, what is missing, calls without results and results without
	// calls, empty content, schemas that the protocol cannot take, parameters that
	// exclude each other, state (signatures, encrypted reasoning, ids) that this
	// provider did not give out. Default: everything that can be read is answered.
	Strict bool

	// Control serves the control interface below /_control, without any
	// authentication: for test set-ups on loopback only.
	Control bool

	// Record is the number of requests kept for Requests, default 1000, and
	// RecordBytes bounds the bytes of their bodies together, default 16 MiB.
	// The oldest are forgotten first.
	Record      int
	RecordBytes int

	// OnRequest, if not nil, is called with a copy of every recorded request before
	// it is answered, in the request's own goroutine.
	OnRequest func(*Request)

	// Now gives the time of creation told in answers. Default time.Now. With a
	// fixed time, equal requests get equal bodies.
	Now func() time.Time
}

// DefaultModels are the models listed unless Config.Models names others.
func DefaultModels() []string { return []string{"fake-large", "fake-small"} }

// Provider answers requests of all protocols at once; path and headers tell which
// one is meant. Paths work with and without their version (/v1, /v1beta, /v1alpha).
// Safe for concurrent use.
type Provider struct {
	cfg      Config
	scripts  scripts
	rec      *recorder
	stored   storage
	accounts accounts
	objects  objects
	library  objects // what is stored, and kept in files and batches
	strict   *strict // nil unless Config.Strict
}

// New returns a Provider without scripts. It starts no goroutine.
func New(cfg Config) *Provider {
	if len(cfg.Models) == 0 {
		cfg.Models = DefaultModels()
	}
	if cfg.Record == 0 {
		cfg.Record = 1000
	}
	if cfg.RecordBytes == 0 {
		cfg.RecordBytes = 16 << 20
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	p := &Provider{cfg: cfg, rec: newRecorder(cfg.Record, cfg.RecordBytes)}
	if cfg.Strict {
		p.strict = newStrict()
	}
	return p
}

// Script answers the requests that fit m with steps, one a request in order; the
// last one repeats. It replaces the script set for the same m before; without steps
// that is all it does.
func (p *Provider) Script(m Match, steps ...Step) { p.scripts.set(Script{Match: m, Steps: steps}) }

// SetScript is Script with every option.
func (p *Provider) SetScript(s Script) { p.scripts.set(s) }

// call is one request on its way through the provider.
type call struct {
	p *Provider
	w http.ResponseWriter
	r *http.Request

	target
	body      []byte
	key       string
	requestID string
	ids       idSource
	ask       ask
	form      *endpointAsk // of the operations that are not on texts
	record    *Request
	step      Step
	outcome   Outcome
	admission *admission // by the key's Account; nil if it has none
}

// ServeHTTP answers one request.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if rest, ok := strings.CutPrefix(r.URL.Path, "/_control"); ok && p.cfg.Control && (rest == "" || rest[0] == '/') {
		p.serveControl(w, r, rest)
		return
	}
	if (r.URL.Path == "/" || r.URL.Path == "") && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		w.WriteHeader(http.StatusOK) // some clients look whether anybody is at home
		return
	}

	c := &call{p: p, w: w, r: r, target: locate(r), key: credential(r)}
	number := p.rec.nextNumber()
	if c.operation == Session {
		c.serveSession(number)
		return
	}
	failure := c.read()
	c.ids = idSource{sum: sha256.Sum256(c.body)}
	c.requestID = requestID(c.protocol, number)
	if failure == nil {
		failure = c.parse()
	}
	c.record = &Request{
		Number: number, ID: c.requestID,
		Method: r.Method, Path: r.URL.Path, Query: r.URL.Query(), Header: r.Header.Clone(),
		Body: c.body, BodyBytes: len(c.body), Key: c.key,
		Operation: c.operation, Protocol: c.protocol, Model: c.ask.model, Stream: c.ask.stream,
		Started: time.Now(),
	}
	var seen Request
	if p.cfg.OnRequest != nil {
		seen = copyOf(c.record) // the recorder may drop the body
	}
	p.rec.begin(c.record)
	c.outcome = Broken // unless the answer gets to its end
	defer func() { p.rec.end(c.record, c.outcome) }()
	if p.cfg.OnRequest != nil {
		p.cfg.OnRequest(&seen)
	}

	c.setRequestID()
	if f := c.checkKey(); f != nil {
		failure = f // before anything is told about the request itself
	}
	if failure == nil {
		failure = c.checkModel()
	}
	if failure != nil {
		c.writeFailure(*failure)
		return
	}
	switch c.operation {
	case ListModels, GetModel:
		c.serveModels()
	case CountTokens:
		if c.step = c.p.scripts.next(c.key, c.ask.model, c.protocol, c.operation); c.step.Fail != nil {
			c.writeFailure(*c.step.Fail)
			return
		}
		c.serveCount()
	case Generate:
		c.generate()
	default:
		c.serveEndpoint()
	}
}

// read takes the body in.
func (c *call) read() *Failure {
	if c.r.Body == nil {
		return nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, MaxBody))
	c.body = body
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		c.body = nil
		return &Failure{Kind: TooLarge, Message: fmt.Sprintf("the request body exceeds %d bytes", MaxBody)}
	}
	if err != nil {
		return &Failure{Kind: BadRequest, Message: "the request body ended early"}
	}
	return nil
}

// parse reads what the operation needs from the body and checks it.
func (c *call) parse() *Failure {
	if c.operation == KeptObject {
		return c.parseKept()
	}
	if f, ok := form(c.operation); ok {
		return c.parseEndpoint(f)
	}
	want := http.MethodPost
	switch c.operation {
	case Unknown:
		return &Failure{Kind: NotFound, Message: "there is nothing at " + c.r.URL.Path}
	case ListModels, GetModel:
		want = http.MethodGet
	}
	if c.r.Method != want && (want != http.MethodGet || c.r.Method != http.MethodHead) {
		return &Failure{Kind: MethodNotAllowed, Message: c.r.URL.Path + " takes " + want}
	}
	if want == http.MethodGet {
		c.ask.model = c.model
		return nil
	}
	if c.p.strict != nil {
		if f := c.checkStrict(); f != nil {
			return f
		}
	}
	a, err := readAsk(c.target, c.body)
	if err != nil {
		return &Failure{Kind: BadRequest, Message: err.Error()}
	}
	c.ask = a
	if c.ask.model == "" {
		c.ask.model = c.p.cfg.Models[0]
	}
	return nil
}

func (c *call) checkKey() *Failure {
	if len(c.p.cfg.Keys) == 0 || slices.Contains(c.p.cfg.Keys, c.key) {
		return nil
	}
	f := Failure{Kind: Unauthorized}
	if c.key == "" {
		f.Message = "the request carries no API key"
	}
	return &f
}

func (c *call) checkModel() *Failure {
	if c.p.cfg.OnlyListed && c.operation != ListModels && !slices.Contains(c.p.cfg.Models, c.ask.model) {
		return &Failure{Kind: ModelNotFound, Param: "model", Message: fmt.Sprintf("the model %q does not exist", c.ask.model)}
	}
	return nil
}

// credential is the key of a request, from whichever place holds one.
func credential(r *http.Request) string {
	if scheme, key, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(key)
	}
	for _, name := range []string{"X-Api-Key", "X-Goog-Api-Key"} {
		if key := r.Header.Get(name); key != "" {
			return key
		}
	}
	return r.URL.Query().Get("key")
}

// setRequestID tells the request id the way the vendor does. Gemini has no such
// header.
func (c *call) setRequestID() {
	switch c.protocol {
	case Anthropic:
		c.w.Header().Set("Request-Id", c.requestID)
	case Chat, Responses:
		c.w.Header().Set("X-Request-Id", c.requestID)
	}
}

// requestID is unique within a provider, and the same in every run.
func requestID(p Protocol, number int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s request %d", p, number))
	if p == Anthropic {
		return "req_01" + letters(sum, 22)
	}
	return fmt.Sprintf("req_%x", sum[:16])
}

// idSource derives the ids of an answer from the request, so that they differ
// between the turns of a conversation and not between two runs of a test.
type idSource struct{ sum [sha256.Size]byte }

func (s idSource) hash(kind string, n int) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(s.sum[:len(s.sum):len(s.sum)], "%s %d", kind, n))
}

// hex is prefix and 48 hexadecimal digits, as in Responses.
func (s idSource) hex(prefix string, n int) string {
	sum := s.hash(prefix, n)
	return fmt.Sprintf("%s%x", prefix, sum[:24])
}

// short is prefix and n letters and digits.
func (s idSource) short(prefix string, n, length int) string {
	return prefix + letters(s.hash(prefix, n), length)
}

// letters spells up to 32 bytes with letters and digits.
func letters(sum [sha256.Size]byte, n int) string {
	const alphabet = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz123456789"
	var b strings.Builder
	for _, x := range sum[:n] {
		b.WriteByte(alphabet[int(x)%len(alphabet)])
	}
	return b.String()
}
