package fakeprovider

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// dimensions of an embedding unless the request says otherwise, and the most it may ask.
const (
	dimensions    = 16
	maxDimensions = 3072
)

// vector is the embedding of a text: of length 1, the same for the same text, and
// exact as float32.
func vector(text string, n int) []float32 {
	raw := make([]float64, n)
	sum := 0.0
	for i := range raw {
		h := sha256.Sum256(fmt.Appendf(nil, "%d %s", i, text))
		raw[i] = float64(int32(binary.LittleEndian.Uint32(h[:4]))) / (1 << 31)
		sum += raw[i] * raw[i]
	}
	out := make([]float32, n)
	for i, v := range raw {
		out[i] = float32(v / math.Sqrt(sum))
	}
	return out
}

func floats(v []float32) list {
	out := make(list, len(v))
	for i, f := range v {
		out[i] = jsontext.Value(strconv.AppendFloat(nil, float64(f), 'g', -1, 32))
	}
	return out
}

func base64Floats(v []float32) string {
	var b []byte
	for _, f := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	return base64.StdEncoding.EncodeToString(b)
}

// embed answers embeddings requests of both protocols.
func (c *call) embed() {
	if c.protocol == Gemini {
		c.embedGemini()
		return
	}
	texts, prompt, failure := inputs(c.form.raw("input"))
	if failure == nil && len(texts) > 2048 {
		failure = refuseAt("input", "'input' has more than 2048 elements")
	}
	n := c.form.number("dimensions", dimensions)
	if failure == nil && (n < 1 || n > maxDimensions) {
		failure = refuseAt("dimensions", "'dimensions' has to be between 1 and %d", maxDimensions)
	}
	format := c.form.text("encoding_format")
	if failure == nil && format != "" && format != "float" && format != "base64" {
		failure = refuseAt("encoding_format", "'%s' is not one of 'float' and 'base64'", format)
	}
	if failure != nil {
		c.writeFailure(*failure)
		return
	}
	data := list{}
	for i, text := range texts {
		v := vector(text, n)
		o := obj("object", "embedding", "index", i)
		if format == "base64" {
			o = o.with("embedding", base64Floats(v))
		} else {
			o = o.with("embedding", floats(v))
		}
		data = append(data, o)
	}
	answer := obj("object", "list", "data", data, "model", c.ask.model)
	if !c.step.OmitUsage {
		n := prompt
		if c.step.Usage != nil && c.step.Usage.Input > 0 {
			n = c.step.Usage.Input
		}
		answer = answer.with("usage", obj("prompt_tokens", n, "total_tokens", n))
	}
	c.answerJSON(answer)
}

// inputs reads what is to be embedded: a text, texts, token ids or lists of those.
func inputs(v jsontext.Value) (texts []string, prompt int64, f *Failure) {
	bad := refuseAt("input", "'input' has to be a text, a list of texts, a list of token ids or a list of such lists")
	var one string
	var many []jsontext.Value
	switch v.Kind() {
	case '"':
		if decode(v, &one) != nil {
			return nil, 0, bad
		}
		return []string{one}, tokens(len(one)), emptyInput(one)
	case '[':
		if decode(v, &many) != nil || len(many) == 0 {
			return nil, 0, bad
		}
	default:
		return nil, 0, bad
	}
	if many[0].Kind() == '0' {
		return []string{string(v)}, int64(len(many)), nil
	}
	for _, e := range many {
		switch e.Kind() {
		case '"':
			if decode(e, &one) != nil {
				return nil, 0, bad
			}
			if f := emptyInput(one); f != nil {
				return nil, 0, f
			}
			texts, prompt = append(texts, one), prompt+tokens(len(one))
		case '[':
			var ids []int
			if decode(e, &ids) != nil || len(ids) == 0 {
				return nil, 0, bad
			}
			texts, prompt = append(texts, string(e)), prompt+int64(len(ids))
		default:
			return nil, 0, bad
		}
	}
	return texts, prompt, nil
}

func emptyInput(text string) *Failure {
	if text == "" {
		return refuseAt("input", "'input' may not be an empty text")
	}
	return nil
}

// checkEmbed checks one request of Gemini's for an embedding. where stands before the
// names of fields in refusals.
func (c *call) checkEmbed(fields []member, where string) *Failure {
	known := []string{"model", "content", "taskType", "title", "outputDimensionality", "autoTruncate", "documentOcr", "audioTrackExtraction"}
	content := false
	for _, m := range fields {
		if !slices.Contains(known, m.name) {
			return refuse("Invalid JSON payload received. Unknown name %q%s: Cannot find field.", m.name, where)
		}
		value := m.value.(jsontext.Value)
		switch m.name {
		case "content":
			content = true
		case "model":
			if string(value) != strconv.Quote("models/"+c.model) {
				return refuse("model%s: expected %q as in the path, got %s", where, "models/"+c.model, value)
			}
		case "title":
			if !slices.ContainsFunc(fields, func(o member) bool {
				v, _ := o.value.(jsontext.Value)
				return o.name == "taskType" && string(v) == `"RETRIEVAL_DOCUMENT"`
			}) {
				return refuse("title%s: only allowed when task_type is RETRIEVAL_DOCUMENT", where)
			}
		}
	}
	if !content {
		return refuse("content%s: is required", where)
	}
	return nil
}

func (c *call) embedGemini() {
	requests := [][]member{c.form.fields}
	batch := c.operation == EmbedBatch
	if batch {
		var raw []jsontext.Value
		if decode(c.form.raw("requests"), &raw) != nil || len(raw) == 0 || len(raw) > 100 {
			c.writeFailure(*refuse("requests: expected 1 to 100 requests"))
			return
		}
		requests = nil
		for i, r := range raw {
			var fields []member
			for name, value := range members(r) {
				fields = append(fields, member{name, value})
			}
			f := c.checkEmbed(fields, fmt.Sprintf(" at 'requests[%d]'", i))
			if f == nil && !slices.ContainsFunc(fields, func(m member) bool { return m.name == "model" }) {
				f = refuse("requests[%d].model: is required", i)
			}
			if f != nil {
				c.writeFailure(*f)
				return
			}
			requests = append(requests, fields)
		}
	}
	var vectors list
	for _, fields := range requests {
		text, n := embedText(fields)
		if text == "" {
			c.writeFailure(*refuse("content: contains no text"))
			return
		}
		vectors = append(vectors, obj("values", floats(vector(text, n))))
	}
	if batch {
		c.answerJSON(obj("embeddings", vectors))
		return
	}
	c.answerJSON(obj("embedding", vectors[0]))
}

// embedText is the text of a request, and how many dimensions are wanted.
func embedText(fields []member) (text string, n int) {
	n = dimensions
	for _, m := range fields {
		value := m.value.(jsontext.Value)
		switch m.name {
		case "content":
			var content struct {
				Parts []struct {
					Text string `json:"text"`
				} `json:"parts"`
			}
			_ = decode(value, &content) // what cannot be read has no text
			for _, p := range content.Parts {
				text += p.Text
			}
		case "outputDimensionality":
			if v, err := strconv.Atoi(string(value)); err == nil && v > 0 && v <= maxDimensions {
				n = v
			}
		}
	}
	return text, n
}

// answerJSON sends a whole answer, with the faults of the step.
func (c *call) answerJSON(o object) { c.playWhole(&endpointAnswer{body: appendJSON(nil, o)}) }

// moderate flags what speaks of an attack.
func (c *call) moderate() {
	texts := []string{string(c.form.raw("input"))}
	var many []jsontext.Value
	if decode(c.form.raw("input"), &many) == nil {
		texts = nil
		for _, v := range many {
			texts = append(texts, string(v))
		}
		if len(many) > 0 && many[0].Kind() == '{' { // parts of one input
			texts = []string{strings.Join(texts, " ")}
		}
	}
	results := list{}
	for _, text := range texts {
		flagged := strings.Contains(text, "attack")
		categories, scores := obj(), obj()
		for _, name := range []string{
			"harassment", "harassment/threatening", "hate", "hate/threatening", "illicit", "illicit/violent", "self-harm",
			"self-harm/instructions", "self-harm/intent", "sexual", "sexual/minors", "violence", "violence/graphic",
		} {
			hit := flagged && name == "violence"
			score := 0.01
			if hit {
				score = 0.9
			}
			categories, scores = categories.with(name, hit), scores.with(name, score)
		}
		results = append(results, obj("flagged", flagged, "categories", categories, "category_scores", scores))
	}
	c.answerJSON(obj("id", c.ids.short("modr-", 0, 24), "model", c.ask.model, "results", results))
}

// rerank orders documents by how many words of the query they have. Models whose name
// begins with jina are answered as Jina does, all others as Cohere does.
func (c *call) rerank() {
	var documents []jsontext.Value
	if decode(c.form.raw("documents"), &documents) != nil || len(documents) == 0 {
		c.writeFailure(*refuseAt("documents", "documents has to be a list that is not empty"))
		return
	}
	words := strings.Fields(strings.ToLower(c.form.text("query")))
	type hit struct {
		at    int
		score float64
	}
	hits := make([]hit, len(documents))
	size := 0
	for i, d := range documents {
		size += len(d)
		n := 0
		for _, w := range words {
			if strings.Contains(strings.ToLower(string(d)), w) {
				n++
			}
		}
		hits[i] = hit{i, float64(n) / float64(max(len(words), 1))}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(b.score, a.score) })
	hits = hits[:min(len(hits), max(c.form.number("top_n", len(hits)), 1))]
	results := list{}
	for _, h := range hits {
		o := obj("index", h.at, "relevance_score", h.score)
		if c.form.text("return_documents") == "true" {
			o = o.with("document", documents[h.at])
		}
		results = append(results, o)
	}
	if strings.HasPrefix(c.ask.model, "jina") {
		c.answerJSON(obj("model", c.ask.model, "usage", obj("total_tokens", tokens(size)), "results", results))
		return
	}
	c.answerJSON(obj("id", c.ids.short("", 0, 24), "results", results,
		"meta", obj("api_version", obj("version", "2"), "billed_units", obj("search_units", (len(documents)+99)/100))))
}

// compact answers with an item that stands for the conversation.
func (c *call) compact() {
	n := tokens(len(c.form.raw("input")) + len(c.form.raw("instructions")))
	item := obj("id", c.ids.hex("cmp_", 0), "type", "compaction", "encrypted_content", seal(c.ids.hash("state", 0), reasoningScope(c.key), ""))
	c.answerJSON(obj("id", c.ids.hex("resp_", 0), "object", "response.compaction", "created_at", c.p.cfg.Now().Unix(), "output", list{item},
		"usage", obj("input_tokens", n, "input_tokens_details", obj("cached_tokens", 0), "output_tokens", int64(7),
			"output_tokens_details", obj("reasoning_tokens", 0), "total_tokens", n+7)))
}
