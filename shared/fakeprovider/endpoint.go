package fakeprovider

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Operations beside those on texts.
const (
	Embed          Operation = "embed"
	EmbedBatch     Operation = "embed_batch"
	Images         Operation = "images"
	ImageEdit      Operation = "image_edit"
	ImageVariation Operation = "image_variation"
	Predict        Operation = "predict"
	Speech         Operation = "speech"
	Transcribe     Operation = "transcribe"
	Translate      Operation = "translate"
	NewVideo       Operation = "video"
	RemixVideo     Operation = "video_remix"
	ListVideos     Operation = "video_list"
	GetVideo       Operation = "video_get"
	DeleteVideo    Operation = "video_delete"
	VideoContent   Operation = "video_content"
	PredictLong    Operation = "predict_long_running"
	GetLongRunning Operation = "get_operation"
	Moderate       Operation = "moderate"
	Rerank         Operation = "rerank"
	Compact        Operation = "compact"
)

// endpointForm is how the request of an operation looks: its fields, the first of them
// required, and the files among them.
type endpointForm struct {
	path     string
	required []string
	optional []string
	files    []string
}

// form is how the operation's requests look; false for the operations on texts.
func form(o Operation) (endpointForm, bool) {
	switch o {
	case Embed:
		return endpointForm{path: "/embeddings", required: []string{"model", "input"}, optional: []string{"encoding_format", "dimensions", "user"}}, true
	case Images:
		return endpointForm{path: "/images/generations", required: []string{"prompt"}, optional: []string{
			"model", "n", "size", "quality", "style", "background", "moderation", "output_format", "output_compression", "response_format", "stream", "partial_images", "user",
		}}, true
	case ImageEdit:
		return endpointForm{path: "/images/edits", required: []string{"prompt"}, files: []string{"image", "image[]", "mask"}, optional: []string{
			"model", "n", "size", "quality", "background", "input_fidelity", "moderation", "output_format", "output_compression", "response_format", "stream", "partial_images", "user",
			"images", "image", "image[]", "mask",
		}}, true
	case ImageVariation:
		return endpointForm{path: "/images/variations", required: []string{"image"}, files: []string{"image"}, optional: []string{"model", "n", "size", "response_format", "user"}}, true
	case Speech:
		return endpointForm{path: "/audio/speech", required: []string{"model", "input", "voice"}, optional: []string{"instructions", "response_format", "speed", "stream_format"}}, true
	case Transcribe:
		return endpointForm{path: "/audio/transcriptions", required: []string{"file", "model"}, files: []string{"file"}, optional: []string{
			"language", "prompt", "response_format", "temperature", "stream", "include[]", "timestamp_granularities[]", "chunking_strategy",
		}}, true
	case Translate:
		return endpointForm{path: "/audio/translations", required: []string{"file", "model"}, files: []string{"file"}, optional: []string{"prompt", "response_format", "temperature"}}, true
	case NewVideo:
		return endpointForm{path: "/videos", required: []string{"prompt"}, files: []string{"input_reference"}, optional: []string{"model", "seconds", "size", "input_reference"}}, true
	case Moderate:
		return endpointForm{path: "/moderations", required: []string{"input"}, optional: []string{"model"}}, true
	case Rerank:
		return endpointForm{path: "/rerank", required: []string{"model", "query", "documents"}, optional: []string{"top_n", "return_documents", "max_tokens_per_doc", "rank_fields"}}, true
	case Compact:
		return endpointForm{path: "/responses/compact", required: []string{"model"}, optional: []string{
			"input", "instructions", "previous_response_id", "prompt_cache_key", "prompt_cache_retention", "tools", "parallel_tool_calls", "reasoning", "text", "service_tier",
		}}, true
	case RemixVideo:
		return endpointForm{required: []string{"prompt"}}, true
	case EmbedBatch:
		return endpointForm{required: []string{"requests"}}, true
	case Predict, PredictLong:
		return endpointForm{required: []string{"instances"}, optional: []string{"parameters"}}, true
	case ListVideos, GetVideo, DeleteVideo, VideoContent, GetLongRunning:
		return endpointForm{}, true
	}
	return endpointForm{}, false
}

// locateEndpoint reads the paths of these operations.
func locateEndpoint(r *http.Request, path string) (target, bool) {
	for _, o := range []Operation{Embed, Images, ImageEdit, ImageVariation, Speech, Transcribe, Translate, Moderate, Rerank, Compact} {
		if f, _ := form(o); path == f.path {
			p := Chat
			if o == Compact {
				p = Responses
			}
			return target{protocol: p, operation: o}, true
		}
	}
	if name, ok := strings.CutPrefix(path, "/models/"); ok {
		if model, _, ok := strings.Cut(name, "/operations/"); ok {
			return target{protocol: Gemini, operation: GetLongRunning, model: model}, true
		}
		i := strings.LastIndexByte(name, ':')
		if i <= 0 {
			return target{}, false
		}
		t := target{protocol: Gemini, model: name[:i]}
		switch name[i+1:] {
		case "embedContent":
			t.operation = Embed
		case "batchEmbedContents":
			t.operation = EmbedBatch
		case "predict":
			t.operation = Predict
		case "predictLongRunning":
			t.operation = PredictLong
		}
		return t, t.operation != ""
	}
	rest, ok := strings.CutPrefix(path, "/videos")
	if !ok || rest != "" && rest[0] != '/' {
		return target{}, false
	}
	id, action, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
	t := target{protocol: Chat}
	switch {
	case id == "" && r.Method == http.MethodGet:
		t.operation = ListVideos
	case id == "":
		t.operation = NewVideo
	case action == "content":
		t.operation = VideoContent
	case action == "remix":
		t.operation = RemixVideo
	case r.Method == http.MethodDelete:
		t.operation = DeleteVideo
	default:
		t.operation = GetVideo
	}
	return t, true
}

// method is the one that an operation takes.
func (o Operation) method() string {
	switch o {
	case ListVideos, GetVideo, VideoContent, GetLongRunning:
		return http.MethodGet
	case DeleteVideo:
		return http.MethodDelete
	}
	return http.MethodPost
}

// upload is a file in a form.
type upload struct {
	name string
	body []byte
}

// endpointAsk is what a request of these operations holds: members of JSON, or the
// fields of a form as JSON texts, and its files.
type endpointAsk struct {
	fields []member // values are jsontext.Value
	files  map[string]upload
}

func (a *endpointAsk) raw(name string) jsontext.Value {
	for _, m := range a.fields {
		if m.name == name {
			return m.value.(jsontext.Value)
		}
	}
	return nil
}

// text is a field that is a text, a number or a bool; empty if it is none or not there.
func (a *endpointAsk) text(name string) string {
	v := a.raw(name)
	if v.Kind() != '"' {
		return string(v)
	}
	var s string
	_ = decode(v, &s) // a text decodes
	return s
}

func (a *endpointAsk) number(name string, otherwise int) int {
	n, err := strconv.Atoi(a.text(name))
	if err != nil {
		return otherwise
	}
	return n
}

// parseEndpoint reads and checks a request of these operations.
func (c *call) parseEndpoint(f endpointForm) *Failure {
	if want := c.operation.method(); c.r.Method != want {
		return &Failure{Kind: MethodNotAllowed, Message: c.r.URL.Path + " takes " + want}
	}
	c.ask.model = c.model
	c.form = new(endpointAsk)
	if c.operation.method() != http.MethodPost {
		if len(c.body) > 0 {
			return refuse("%s takes no body", c.r.URL.Path)
		}
		return nil
	}
	kind, params, _ := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	var failure *Failure
	if kind == "multipart/form-data" {
		failure = c.readForm(f, params["boundary"])
	} else {
		failure = c.readMembers()
	}
	if failure != nil {
		return failure
	}
	if c.protocol == Gemini && c.operation == Embed {
		return c.checkEmbed(c.form.fields, "")
	}
	known := slices.Concat(f.required, f.optional)
	for i, m := range c.form.fields {
		if !slices.Contains(known, m.name) {
			return refuseAt(m.name, "Unknown parameter: '%s'.", m.name)
		}
		if slices.ContainsFunc(c.form.fields[:i], func(o member) bool { return o.name == m.name }) && !strings.HasSuffix(m.name, "[]") {
			return refuseAt(m.name, "Duplicate parameter: '%s'.", m.name)
		}
	}
	for _, name := range f.required {
		if _, file := c.form.files[name]; !file && len(c.form.raw(name)) == 0 {
			return refuseAt(name, "Missing required parameter: '%s'.", name)
		}
	}
	if c.protocol != Gemini {
		c.ask.model = c.form.text("model")
	}
	if c.ask.model == "" {
		c.ask.model = c.p.cfg.Models[0]
	}
	c.ask.stream = c.form.text("stream") == "true" || c.form.text("stream_format") == "sse"
	return nil
}

func (c *call) readMembers() *Failure {
	if _, err := readWhole(c.body); err != nil {
		return &Failure{Kind: BadRequest, Message: err.Error()}
	}
	for name, value := range members(c.body) {
		c.form.fields = append(c.form.fields, member{name, value})
	}
	return nil
}

func (c *call) readForm(f endpointForm, boundary string) *Failure {
	if len(f.files) == 0 {
		return refuse("Unsupported content type: 'multipart/form-data'. This API method only accepts 'application/json' requests.")
	}
	c.form.files = make(map[string]upload)
	mr := multipart.NewReader(bytes.NewReader(c.body), boundary)
	for {
		part, err := mr.NextPart()
		if err == io.EOF { //nolint:errorlint // the reader's own
			return nil
		}
		if err != nil {
			return refuse("Could not parse multipart form")
		}
		body, err := io.ReadAll(part)
		if err != nil {
			return refuse("Could not parse multipart form")
		}
		if part.FileName() != "" {
			if !slices.Contains(f.files, part.FormName()) {
				return refuseAt(part.FormName(), "Unknown parameter: '%s'.", part.FormName())
			}
			c.form.files[part.FormName()] = upload{part.FileName(), body}
			continue
		}
		c.form.fields = append(c.form.fields, member{part.FormName(), jsontext.Value(appendString(nil, string(body)))})
	}
}

// serveEndpoint answers a request of these operations by its step.
func (c *call) serveEndpoint() {
	c.step = c.p.scripts.next(c.key, c.ask.model, c.protocol, c.operation)
	if !c.pause(c.step.DelayHeaders) || !c.pass(c.step.HeaderGate) {
		return
	}
	if c.step.Reset {
		c.reset()
		return
	}
	for name, value := range c.step.Header {
		c.w.Header().Set(name, value)
	}
	c.tellLimits()
	switch {
	case c.step.Fail != nil:
		c.writeFailure(*c.step.Fail)
		return
	case c.step.Raw != nil:
		c.playRaw(&endpointAnswer{})
		return
	}
	switch c.operation {
	case Embed, EmbedBatch:
		c.embed()
	case Images, ImageEdit, ImageVariation:
		c.picture()
	case Predict:
		c.predict()
	case Speech:
		c.speak()
	case Transcribe, Translate:
		c.transcribe()
	case Moderate:
		c.moderate()
	case Rerank:
		c.rerank()
	case Compact:
		c.compact()
	case KeptObject:
		c.keep()
	case PredictLong, GetLongRunning:
		c.longRunning()
	default:
		c.video()
	}
}

// endpointAnswer plays what is not said by a model.
type endpointAnswer struct {
	body   []byte
	events []frame
}

func (a *endpointAnswer) whole() []byte { return a.body }

func (a *endpointAnswer) frames() iter.Seq[frame] { return slices.Values(a.events) }

func (a *endpointAnswer) broken() []byte { return []byte("data: {\"type\": broken\n\n") }

func (a *endpointAnswer) failed(r rendered, _ bool) []byte {
	return fmt.Appendf(nil, "event: error\ndata: %s\n\n", appendJSON(nil, obj("type", "error", "error", r.openai())))
}

func (a *endpointAnswer) keepAlive() []byte { return []byte(": keep-alive\n\n") }

// event is one of OpenAI's named events.
func (a *endpointAnswer) event(content, terminal bool, kind string, o object) {
	body := appendJSON(nil, append(obj("type", kind), o...))
	a.events = append(a.events, frame{data: fmt.Appendf(nil, "event: %s\ndata: %s\n\n", kind, body), content: content, terminal: terminal})
}

// playEvents streams an answer.
func (c *call) playEvents(a *endpointAnswer) {
	c.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	c.play(http.StatusOK, a, a.frames())
}
