package fakeprovider

import (
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// KeptObject is an operation on what the provider keeps: stored answers, files,
// batches, cached prompts. Each belongs to the key that made it, and no other key
// finds it.
const KeptObject Operation = "kept_object"

// keptCollections are where such objects are, and the prefix of their ids.
var keptCollections = []struct{ path, prefix, kind string }{
	{"/messages/batches", "msgbatch_01", "message_batch"},
	{"/responses", "resp_", "response"},
	{"/chat/completions", "chatcmpl-", "chat.completion"},
	{"/conversations", "conv_", "conversation"},
	{"/files", "file-", "file"},
	{"/batches", "batch_", "batch"},
	{"/cachedContents", "cachedContents/", "cached_content"},
}

// keptTarget is what the path of such an operation names.
type keptTarget struct{ prefix, kind, id, action string }

// locateKept reads the paths of these operations.
func locateKept(r *http.Request, path, version string) (target, bool) {
	k, ok := keptAt(path)
	if !ok || k.id == "" && (k.kind == "response" || k.kind == "chat.completion" && r.Method != http.MethodGet) {
		return target{}, false
	}
	t := target{protocol: dialect(r, version), operation: KeptObject}
	switch k.kind {
	case "message_batch":
		t.protocol = Anthropic
	case "response", "conversation":
		t.protocol = Responses
	case "cached_content":
		t.protocol = Gemini
	}
	return t, true
}

func keptAt(path string) (keptTarget, bool) {
	for _, k := range keptCollections {
		rest, ok := strings.CutPrefix(path, k.path)
		if !ok || rest != "" && rest[0] != '/' {
			continue
		}
		id, action, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
		if id == "input_tokens" || id == "compact" {
			return keptTarget{}, false
		}
		return keptTarget{k.prefix, k.kind, id, action}, true
	}
	return keptTarget{}, false
}

func versionless(path string) string {
	for _, v := range []string{"/v1beta/", "/v1alpha/", "/v1/"} {
		if rest, ok := strings.CutPrefix(path, v); ok {
			return "/" + rest
		}
	}
	return path
}

// parseKept reads the body of such a request.
func (c *call) parseKept() *Failure {
	c.form = new(endpointAsk)
	if c.r.Method == http.MethodGet || c.r.Method == http.MethodDelete {
		if len(c.body) > 0 {
			return refuse("%s takes no body", c.r.URL.Path)
		}
		return nil
	}
	kind, params, _ := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	switch {
	case kind == "multipart/form-data":
		return c.readForm(endpointForm{files: []string{"file"}}, params["boundary"])
	case len(c.body) > 0:
		return c.readMembers()
	}
	return nil
}

// keep serves such a request.
func (c *call) keep() {
	k, _ := keptAt(versionless(c.r.URL.Path))
	switch {
	case k.id == "" && c.r.Method == http.MethodGet:
		c.listKept(k)
	case k.id == "":
		c.makeKept(k)
	default:
		c.useKept(k)
	}
}

func (c *call) listKept(k keptTarget) {
	data := list{}
	var first, last any
	for _, id := range c.p.library.of(c.key) {
		o, _ := c.p.library.look(id, c.key, false)
		if o.from != k.kind {
			continue
		}
		if first == nil {
			first = id
		}
		last = id
		data = append(data, o.answer)
	}
	if c.protocol == Gemini {
		name := "cachedContents"
		if k.kind == "file" {
			name = "files"
		}
		c.answerJSON(obj(name, data))
		return
	}
	c.answerJSON(obj("object", "list", "data", data, "first_id", first, "last_id", last, "has_more", false))
}

func (c *call) makeKept(k keptTarget) {
	id := c.ids.hex(k.prefix, 0)[:len(k.prefix)+24]
	created := c.p.cfg.Now().Unix()
	var o object
	content := ""
	switch k.kind {
	case "file":
		f, ok := c.form.files["file"]
		if !ok {
			c.writeFailure(*refuseAt("file", "Missing required parameter: 'file'."))
			return
		}
		content = string(f.body)
		o = obj("id", id, "object", "file", "bytes", len(f.body), "created_at", created, "filename", f.name, "purpose", c.form.text("purpose"), "status", "processed")
		if c.protocol == Anthropic {
			o = obj("id", id, "type", "file", "filename", f.name, "mime_type", "text/plain", "size_bytes", len(f.body), "created_at", "2026-01-01T00:00:00Z", "downloadable", true)
		}
	case "batch":
		in := c.form.text("input_file_id")
		if _, ok := c.p.library.look(in, c.key, false); !ok {
			c.writeFailure(*refuseAt("input_file_id", "No such File object: %s", in))
			return
		}
		o = obj("id", id, "object", "batch", "endpoint", c.form.text("endpoint"), "input_file_id", in, "completion_window", "24h", "status", "completed",
			"output_file_id", in, "error_file_id", nil, "created_at", created)
	case "message_batch":
		o = obj("id", id, "type", "message_batch", "processing_status", "ended", "request_counts", obj("processing", 0, "succeeded", 1, "errored", 0, "canceled", 0, "expired", 0),
			"created_at", "2026-01-01T00:00:00Z", "expires_at", "2026-01-02T00:00:00Z", "ended_at", nil, "cancel_initiated_at", nil, "archived_at", nil,
			"results_url", "https://provider.example/v1/messages/batches/"+id+"/results")
	case "cached_content":
		o = obj("name", id, "model", c.form.text("model"), "createTime", "2026-01-01T00:00:00Z", "expireTime", "2026-01-02T00:00:00Z", "usageMetadata", obj("totalTokenCount", 100))
	case "conversation":
		o = obj("id", id, "object", "conversation", "created_at", created, "metadata", obj())
	}
	c.p.library.add(id, &kept{key: c.key, answer: o, from: k.kind, prompt: content})
	c.answerJSON(o)
}

func (c *call) useKept(k keptTarget) {
	id := k.id
	if k.kind == "cached_content" {
		id = k.prefix + id
	}
	o, ok := c.p.library.look(id, c.key, false)
	if !ok || o.from != k.kind {
		c.writeFailure(Failure{Kind: NotFound, Message: fmt.Sprintf("No %s found with id '%s'.", k.kind, id)})
		return
	}
	switch {
	case c.r.Method == http.MethodDelete:
		c.p.library.drop(id, c.key)
		c.answerJSON(obj("id", id, "object", k.kind, "type", k.kind+"_deleted", "deleted", true))
	case k.action == "cancel":
		c.answerJSON(withMember(o.answer, "status", "cancelled"))
	case k.action == "input_items", k.action == "items", k.action == "messages":
		c.answerJSON(obj("object", "list", "data", list{obj("id", "msg_"+id[max(0, len(id)-8):], "type", "message", "role", "user",
			"content", list{obj("type", "input_text", "text", "hello there")})}, "first_id", "msg_"+id[max(0, len(id)-8):], "last_id", "msg_"+id[max(0, len(id)-8):], "has_more", false))
	case k.action == "content":
		c.w.Header().Set("Content-Type", "application/octet-stream")
		c.playWhole(&endpointAnswer{body: []byte(o.prompt)})
	case k.action == "results":
		c.w.Header().Set("Content-Type", "application/x-jsonl")
		c.playWhole(&endpointAnswer{body: append(appendJSON(nil, obj("custom_id", "one", "result", obj("type", "succeeded"))), '\n')})
	default:
		c.answerJSON(o.answer)
	}
}

// withMember is o with the value of a member replaced.
func withMember(o object, name string, value any) object {
	out := slices.Clone(o)
	for i := range out {
		if out[i].name == name {
			out[i].value = value
		}
	}
	return out
}

// storeAnswer keeps an answer of Responses or Chat Completions that asked for it.
func (c *call) storeAnswer(rd renderer) {
	var kind string
	store := string(c.ask.top["store"])
	switch {
	case c.protocol == Responses && store != "false":
		kind = "response"
	case c.protocol == Chat && store == "true":
		kind = "chat.completion"
	default:
		return
	}
	var o object
	id := ""
	for name, v := range members(jsontext.Value(rd.whole())) {
		if name == "id" {
			_ = decode(v, &id) // the provider's own
		}
		o = append(o, member{name, v.Clone()})
	}
	c.p.library.add(id, &kept{key: c.key, answer: o, from: kind})
}
