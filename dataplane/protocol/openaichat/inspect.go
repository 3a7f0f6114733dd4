package openaichat

import (
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// acted are the members the gateway acts on.
var acted = []string{"model", "stream", "stream_options", "max_completion_tokens", "max_tokens", "n", "tools", "store"}

// Inspect reads a Chat Completions request.
func (c *Codec) Inspect(body []byte, _ protocol.Target) (*protocol.Shape, *fault.Error) {
	var limit, oldLimit int64
	s, f := c.inspector.Inspect(body, acted, func(r *wirejson.Reader, name string, s *protocol.Shape) *fault.Error {
		from := r.Start()
		switch name {
		case "model":
			return protocol.ReadModel(r, s)
		case "stream":
			return protocol.ReadStream(r, s)
		case "stream_options":
			return readStreamOptions(r, s)
		case "messages":
			readMessages(r, s)
			s.AddPrompt(r, from)
		case "tools", "functions":
			readTools(r, s)
			s.AddPrompt(r, from)
		case "response_format":
			readResponseFormat(r, s)
			s.AddPrompt(r, from)
		case "max_completion_tokens":
			limit, _ = r.Int()
		case "max_tokens":
			oldLimit, _ = r.Int()
		case "n":
			if n, ok := r.Int(); ok && n > 0 {
				s.Choices = n
			}
		case "reasoning_effort":
			effort, ok := r.String(64)
			s.Reasoning = s.Reasoning || ok && effort != "none"
		case "modalities":
			readModalities(r, s)
		case "web_search_options":
			if r.Kind() == '{' {
				s.ServerTools |= protocol.ToolWebSearch
			}
		case "store":
			s.Store, s.StoreStated = r.Bool()
		case "prompt_cache_key":
			s.SessionKey = protocol.Hint(r)
		case "safety_identifier":
			if v := protocol.Hint(r); v != "" {
				s.User = v
			}
		case "user":
			if v := protocol.Hint(r); s.User == "" {
				s.User = v
			}
		}
		return nil
	})
	if f != nil {
		return nil, f
	}
	s.AddRefs(body)
	// The newer name wins, as upstreams that know both refuse the older one.
	s.MaxOutputTokens = max(limit, 0)
	if s.MaxOutputTokens == 0 {
		s.MaxOutputTokens = max(oldLimit, 0)
	}
	if f = s.CheckRefs(); f != nil {
		return nil, f
	}
	return s, s.RequireModel()
}

func readStreamOptions(r *wirejson.Reader, s *protocol.Shape) *fault.Error {
	s.StreamOptions.From = r.Start()
	switch r.Kind() {
	case '{':
		r.Enter('{')
		for r.Next() {
			if string(r.Name()) != "include_usage" {
				continue
			}
			s.UsageSpan.From = r.Start()
			if !r.Null() {
				s.IncludeUsage, _ = r.Bool()
			}
			s.UsageSpan.To = r.End()
		}
	case 'n':
		r.Skip()
	case 0:
		return nil
	default:
		return &fault.Error{Class: fault.InvalidRequest, Param: "stream_options", Public: "The member stream_options must be an object."}
	}
	s.StreamOptions.To = r.End()
	return nil
}

func readMessages(r *wirejson.Reader, s *protocol.Shape) {
	if !r.Enter('[') {
		return
	}
	for r.Next() {
		s.Messages++
		if !r.Enter('{') {
			continue
		}
		for r.Next() {
			if string(r.Name()) != "content" || r.Kind() != '[' {
				continue
			}
			r.Enter('[')
			for r.Next() {
				readPart(r, s)
			}
		}
	}
}

func readPart(r *wirejson.Reader, s *protocol.Shape) {
	if !r.Enter('{') {
		return
	}
	for r.Next() {
		switch string(r.Name()) {
		case "image_url":
			s.Images++
			readMedia(r, s, "url")
		case "input_audio":
			s.Audio++
			readMedia(r, s, "data")
		case "file":
			s.Documents++
			readMedia(r, s, "file_data")
		}
	}
}

// readMedia reads an object whose member holds the media.
func readMedia(r *wirejson.Reader, s *protocol.Shape, member string) {
	if !r.Enter('{') {
		return
	}
	for r.Next() {
		if string(r.Name()) == member {
			s.AddMediaString(r, member == "data")
		}
	}
}

func readTools(r *wirejson.Reader, s *protocol.Shape) {
	if !r.Enter('[') {
		return
	}
	for r.Next() {
		kind := ""
		if r.Enter('{') {
			for r.Next() {
				if string(r.Name()) == "type" {
					kind, _ = r.String(100)
				}
			}
		}
		s.AddTool(kind)
	}
}

func readResponseFormat(r *wirejson.Reader, s *protocol.Shape) {
	if !r.Enter('{') {
		return
	}
	for r.Next() {
		if string(r.Name()) == "type" {
			kind, _ := r.String(64)
			s.StructuredOutput = kind == "json_schema" || kind == "json_object"
		}
	}
}

func readModalities(r *wirejson.Reader, s *protocol.Shape) {
	if !r.Enter('[') {
		return
	}
	for r.Next() {
		switch m, _ := r.String(32); m {
		case "audio":
			s.AudioOutput = true
		case "image":
			s.ImageOutput = true
		}
	}
}
