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
			s.PreviousResponse = s.HintRef(r, name)
		case "conversation":
			s.Conversation = readConversation(r, s)
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
	if f := s.CheckRefs(); f != nil {
		return nil, f
	}
	return s, s.RequireModel()
}

func readConversation(r *wirejson.Reader, s *protocol.Shape) (id string) {
	if r.Kind() == '"' {
		return s.HintRef(r, "conversation")
	}
	if r.Enter('{') {
		for r.Next() {
			if string(r.Name()) == "id" {
				id = s.HintRef(r, "conversation.id")
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
		if r.Enter('{') {
			readItem(r, s, s.Messages)
		}
		s.Messages++
	}
}

// readItem reads an item of the input. Its id names what the provider stores if the
// item has nothing else: a reference, which may leave its type out, or reasoning
// without its encrypted content.
func readItem(r *wirejson.Reader, s *protocol.Shape, index int) {
	kind, id, whole := "", -1, false
	for r.Next() {
		switch string(r.Name()) { // without a name for it, which would be a copy
		case "type":
			if kind, _ = r.String(64); kind == "item_reference" {
				s.StoredItems++
			}
		case "id":
			id = s.AddRef(r, "input", index, "id", false)
		case "approval_request_id":
			s.AddRef(r, "input", index, "approval_request_id", true)
		case "container_id":
			s.AddRef(r, "input", index, "container_id", true)
		case "role":
			whole = true
		case "encrypted_content":
			whole = whole || r.Kind() == '"'
		case "content", "output":
			switch r.Kind() {
			case '[':
				r.Enter('[')
				for r.Next() {
					readPart(r, s, index)
				}
			case '{':
				readPart(r, s, index)
			}
		}
	}
	if id >= 0 {
		s.Refs[id].Pins = !whole && (kind == "" || kind == "item_reference" || kind == "reasoning")
	}
}

func readPart(r *wirejson.Reader, s *protocol.Shape, index int) {
	if !r.Enter('{') {
		return
	}
	for r.Next() {
		switch string(r.Name()) {
		case "file_id":
			s.AddRef(r, "input", index, "file_id", true)
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
	for i := 0; r.Next(); i++ {
		kind := ""
		if r.Enter('{') {
			for r.Next() {
				switch string(r.Name()) {
				case "type":
					kind, _ = r.String(100)
				case "container":
					readToolRefs(r, s, i, "container")
				case "vector_store_ids":
					readToolRefs(r, s, i, "vector_store_ids")
				case "file_ids":
					readToolRefs(r, s, i, "file_ids")
				}
			}
		}
		if kind == "image_generation" {
			s.ImageOutput = true
		}
		s.AddTool(kind)
	}
}

// readToolRefs reads what of a tool names stored objects: an id, a list of them, or a
// container with files.
func readToolRefs(r *wirejson.Reader, s *protocol.Shape, index int, param string) {
	switch r.Kind() {
	case '"':
		s.AddRef(r, "tools", index, param, true)
	case '[':
		r.Enter('[')
		for r.Next() {
			s.AddRef(r, "tools", index, param, true)
		}
	case '{':
		r.Enter('{')
		for r.Next() {
			if string(r.Name()) == "file_ids" && r.Enter('[') {
				for r.Next() {
					s.AddRef(r, "tools", index, param+".file_ids", true)
				}
			}
		}
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
