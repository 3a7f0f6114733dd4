package openairesponses

import (
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// acted are the members the gateway acts on.
var acted = []string{"model", "stream", "max_output_tokens", "tools", "store", "background", "previous_response_id", "conversation"}

// Inspect reads a Responses request. The vendor stores the answer unless told not
// to, so Shape.Store is true without the member.
func (c *Codec) Inspect(body []byte, _ protocol.Target) (*protocol.Shape, *fault.Error) {
	s, f := c.inspector.Inspect(body, acted, func(r *wirejson.Reader, name string, s *protocol.Shape) *fault.Error {
		from := r.Start()
		switch name {
		case "model":
			return protocol.ReadModel(r, s)
		case "stream":
			return protocol.ReadStream(r, s)
		case "input":
			readInput(r, s)
			s.AddPrompt(r, from)
		case "instructions":
			r.Skip()
			s.AddPrompt(r, from)
		case "tools":
			readTools(r, s)
			s.AddPrompt(r, from)
		case "text":
			readText(r, s)
			s.AddPrompt(r, from)
		case "reasoning":
			s.Reasoning = r.Kind() == '{'
		case "max_output_tokens":
			n, _ := r.Int()
			s.MaxOutputTokens = max(n, 0)
		case "store":
			if v, ok := r.Bool(); ok {
				s.Store, s.StoreStated = v, true
			}
		case "background":
			s.Background, _ = r.Bool()
		case "previous_response_id":
			s.PreviousResponse = protocol.Hint(r)
		case "conversation":
			s.Conversation = readConversation(r)
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
	if !s.StoreStated {
		s.Store = true
	}
	return s, s.RequireModel()
}

func readConversation(r *wirejson.Reader) (id string) {
	if r.Kind() == '"' {
		return protocol.Hint(r)
	}
	if r.Enter('{') {
		for r.Next() {
			if string(r.Name()) == "id" {
				id = protocol.Hint(r)
			}
		}
	}
	return id
}

func readInput(r *wirejson.Reader, s *protocol.Shape) {
	if r.Kind() == '"' {
		s.Messages = 1
		r.Skip()
		return
	}
	if !r.Enter('[') {
		return
	}
	for r.Next() {
		s.Messages++
		if !r.Enter('{') {
			continue
		}
		for r.Next() {
			switch string(r.Name()) {
			case "type":
				if kind, _ := r.String(64); kind == "item_reference" {
					s.StoredItems++
				}
			case "content", "output":
				if r.Kind() == '[' {
					r.Enter('[')
					for r.Next() {
						readPart(r, s)
					}
				}
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
		case "type":
			switch kind, _ := r.String(64); kind {
			case "input_image":
				s.Images++
			case "input_file":
				s.Documents++
			case "input_audio":
				s.Audio++
			}
		case "image_url":
			s.AddMediaString(r, false)
		case "file_data":
			s.AddMediaString(r, true)
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
		if kind == "image_generation" {
			s.ImageOutput = true
		}
		s.AddTool(kind)
	}
}

// readText reads the member that sets the form of the answer.
func readText(r *wirejson.Reader, s *protocol.Shape) {
	if !r.Enter('{') {
		return
	}
	for r.Next() {
		if string(r.Name()) != "format" || !r.Enter('{') {
			continue
		}
		for r.Next() {
			if string(r.Name()) == "type" {
				kind, _ := r.String(64)
				s.StructuredOutput = kind == "json_schema" || kind == "json_object"
			}
		}
	}
}
