package endpoint

import (
	"strconv"
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// acted are the fields that the gateway acts on.
func acted() []string {
	return []string{"model", "stream", "stream_format", "n", "seconds", "response_format"}
}

// inspectFields reads a request of OpenAI's endpoints, whose fields are members of a JSON
// object or parts of a form.
func (c *Call) inspectFields(body []byte) (*protocol.Shape, *fault.Error) {
	c.ask.images, c.ask.seconds = 1, defaultSeconds
	s, f := c.readFields(body)
	if f != nil {
		return nil, f
	}
	switch c.target.Op {
	case protocol.OpImageEdit, protocol.OpImageVariation:
		s.Images = max(s.Images, 1)
		s.ImageOutput = true
	case protocol.OpImage:
		s.ImageOutput = true
	case protocol.OpSpeech:
		s.AudioOutput = true
	case protocol.OpTranscribe, protocol.OpTranslate:
		s.Audio = 1
	case protocol.OpVideo, protocol.OpVideoRemix:
		s.Store = true // what begins a job is not to be repeated
	}
	if c.target.Op == protocol.OpVideoRemix {
		return s, nil
	}
	return s, s.RequireModel()
}

// What no vendor makes at once is not estimated either: a caller that leaves early is
// booked with the estimate, whatever it asked for.
const (
	mostImages  = 16
	mostSeconds = 240
)

// defaultSeconds is how long OpenAI's videos are unless the request says otherwise.
const defaultSeconds = 4

func (c *Call) readFields(body []byte) (*protocol.Shape, *fault.Error) {
	if c.target.Boundary != "" {
		return c.readForm(body)
	}
	switch c.target.Op {
	case protocol.OpTranscribe, protocol.OpTranslate, protocol.OpImageVariation:
		return nil, fault.New(fault.InvalidRequest, "The body must be multipart/form-data with a boundary in its Content-Type, because it holds a file.")
	}
	return c.inspector.Inspect(body, acted(), func(r *wirejson.Reader, name string, s *protocol.Shape) *fault.Error {
		switch name {
		case "model":
			return protocol.ReadModel(r, s)
		case "stream":
			return protocol.ReadStream(r, s)
		case "n", "seconds", "stream_format", "response_format":
			if v, ok := scalar(r); ok {
				c.field(name, v, s)
			}
		case "prompt", "input", "query", "instructions":
			c.words(r, s, false)
		case "documents":
			c.words(r, s, true)
		case "images":
			c.pictures(r, s)
		case "user":
			s.User = protocol.Hint(r)
		}
		return nil
	})
}

// scalar is a text or a number.
func scalar(r *wirejson.Reader) (string, bool) {
	switch r.Kind() {
	case '0':
		return string(r.Raw()), true
	case '"':
		return r.String(64)
	}
	return "", false
}

// field takes a short field, wherever it stood.
func (c *Call) field(name, value string, s *protocol.Shape) {
	n, err := strconv.ParseFloat(value, 64)
	sound := err == nil && n >= 1 && n <= 1e6
	switch {
	case name == "n" && sound:
		c.ask.images, s.Choices = min(int64(n), mostImages), int64(n)
	case name == "seconds" && sound:
		c.ask.seconds = min(int64(n), mostSeconds)
	case name == "stream_format":
		s.Stream = s.Stream || value == "sse"
	case name == "response_format":
		c.ask.format = value
	}
}

// words counts the texts in a value. each says that it is a list whose elements go to
// the model one at a time.
func (c *Call) words(r *wirejson.Reader, s *protocol.Shape, each bool) {
	if !each {
		n := c.texts(r, s)
		s.PromptBytes += n
		c.ask.tokens += tokensOf(n)
		return
	}
	longest := int64(0)
	for ok := r.Enter('['); ok && r.Next(); {
		n := c.texts(r, s)
		s.Messages++
		longest = max(longest, n)
		c.ask.tokens += tokensOf(n)
	}
	s.PromptBytes += longest
}

// texts is the length of all texts in a value, without pictures.
func (c *Call) texts(r *wirejson.Reader, s *protocol.Shape) (n int64) {
	switch kind := r.Kind(); kind {
	case '"':
		n, _ = r.Len()
	case '[':
		for ok := r.Enter('['); ok && r.Next(); {
			n += c.texts(r, s)
		}
	case '{':
		for ok := r.Enter('{'); ok && r.Next(); {
			switch string(r.Name()) {
			case "image_url":
				s.Images++
			case "type":
			default:
				n += c.texts(r, s)
			}
		}
	}
	return n
}

// pictures counts the pictures that a JSON body has edited.
func (c *Call) pictures(r *wirejson.Reader, s *protocol.Shape) {
	for ok := r.Enter('['); ok && r.Next(); {
		s.Images++
	}
}

// readForm reads the parts of a form.
func (c *Call) readForm(body []byte) (*protocol.Shape, *fault.Error) {
	parts, f := readParts(body, c.target.Boundary)
	if f != nil {
		return nil, f
	}
	s := &protocol.Shape{Choices: 1}
	seen := make(map[string]bool, len(parts))
	for _, p := range parts {
		for _, a := range acted() {
			if p.name != a && strings.EqualFold(p.name, a) {
				return nil, invalid(p.name, "The body has a part that differs from \""+a+"\" by case alone. Send it as \""+a+"\".")
			}
			if p.name == a && (seen[a] || p.file || p.coded) {
				return nil, invalid(a, "The part "+a+" must stand once, as plain text without a file name or a transfer encoding.")
			}
		}
		seen[p.name] = true
		value := p.value.Of(body)
		switch {
		case p.file:
			c.file(p.name, value, s)
		case p.name == "model":
			if f := modelPart(value, s); f != nil {
				return nil, f
			}
			s.ModelSpan = p.value
		case p.name == "stream":
			switch string(value) {
			case "true", "True", "1":
				s.Stream = true
			case "false", "False", "0", "":
			default:
				return nil, invalid("stream", "The part stream must be true or false.")
			}
		case p.name == "prompt":
			s.PromptBytes += int64(len(value))
			c.ask.tokens += tokensOf(int64(len(value)))
		case len(value) <= 64:
			c.field(p.name, string(value), s)
		}
	}
	if op := c.target.Op; op == protocol.OpTranslate || op == protocol.OpImageVariation {
		s.Stream = false // neither has a stream
	}
	return s, nil
}

// modelPart reads the model by the rules for one in JSON.
func modelPart(value []byte, s *protocol.Shape) *fault.Error {
	r := new(wirejson.Reader)
	r.ResetStrict(wirejson.AppendString(nil, string(value)))
	if f := protocol.ReadModel(r, s); f != nil {
		return f
	}
	if r.Done() != nil || s.Model != string(value) {
		return invalid("model", "The part model must be UTF-8.")
	}
	return nil
}

// file takes note of a file.
func (c *Call) file(name string, value []byte, s *protocol.Shape) {
	s.MediaBytes += int64(len(value))
	switch {
	case name == "file":
		c.ask.audio += soundLength("", value[:min(len(value), soundHead)], int64(len(value)))
	case strings.HasPrefix(name, "image"):
		s.Images++
	}
}

// inspectInstances reads a predict or a predictLongRunning request of Gemini, whose
// path names the model.
func (c *Call) inspectInstances(body []byte) (*protocol.Shape, *fault.Error) {
	count, seconds := int64(0), int64(0)
	s, f := c.inspector.Inspect(body, []string{"instances", "parameters"}, func(r *wirejson.Reader, name string, s *protocol.Shape) *fault.Error {
		switch name {
		case "instances":
			s.PromptBytes += instanceText(r)
		case "parameters":
			for ok := r.Enter('{'); ok && r.Next(); {
				switch string(r.Name()) {
				case "sampleCount":
					count, _ = r.Int()
				case "durationSeconds":
					seconds, _ = r.Int()
				}
			}
		}
		return nil
	})
	if f != nil {
		return nil, f
	}
	if _, ok := s.Member("instances"); !ok {
		return nil, invalid("instances", "The member instances is missing.")
	}
	sound := func(n, otherwise, most int64) int64 {
		if n < 1 {
			return otherwise
		}
		return min(n, most)
	}
	// The vendor's defaults: four pictures; one video of eight seconds.
	if c.target.Op == protocol.OpPredict {
		c.ask.images = sound(count, 4, mostImages)
		s.ImageOutput = true
	} else {
		c.ask.seconds = min(sound(seconds, 8, mostSeconds)*sound(count, 1, mostImages), mostSeconds)
		s.Store = true // what begins a job is not to be repeated
	}
	c.ask.tokens = tokensOf(s.PromptBytes)
	s.Model = c.target.Model
	return s, s.RequireModel()
}

// instanceText is the length of the prompts in a list of instances.
func instanceText(r *wirejson.Reader) (n int64) {
	for ok := r.Enter('['); ok && r.Next(); {
		for in := r.Enter('{'); in && r.Next(); {
			if string(r.Name()) == "prompt" {
				length, _ := r.Len()
				n += length
			}
		}
	}
	return n
}
