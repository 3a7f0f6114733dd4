package anthropic

import (
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// acted are the members the gateway acts on.
var acted = []string{"model", "stream", "max_tokens", "tools", "mcp_servers", "container", "metadata"}

// maxNested bounds how deep content blocks inside tool results are looked at.
const maxNested = 3

// Inspect reads a Messages request.
func (c *Codec) Inspect(body []byte, _ protocol.Target) (*protocol.Shape, *fault.Error) {
	s, f := c.inspector.Inspect(body, acted, func(r *wirejson.Reader, name string, s *protocol.Shape) *fault.Error {
		from := r.Start()
		switch name {
		case "model":
			return protocol.ReadModel(r, s)
		case "stream":
			return protocol.ReadStream(r, s)
		case "messages":
			readMessages(r, s)
			s.AddPrompt(r, from)
		case "system":
			readContent(r, s, 0)
			s.AddPrompt(r, from)
		case "tools":
			readTools(r, s)
			s.AddPrompt(r, from)
		case "max_tokens":
			n, _ := r.Int()
			s.MaxOutputTokens = max(n, 0)
		case "thinking":
			if r.Enter('{') {
				for r.Next() {
					if string(r.Name()) == "type" {
						kind, ok := r.String(64)
						s.Reasoning = ok && kind != "disabled"
					}
				}
			}
		case "output_config":
			if r.Enter('{') {
				for r.Next() {
					if string(r.Name()) == "format" {
						s.StructuredOutput = r.Kind() == '{'
					}
				}
			}
		case "mcp_servers":
			if r.Enter('[') {
				for r.Next() {
					s.ServerTools |= protocol.ToolMCP
				}
			}
		case "container":
			if k := r.Kind(); k == '"' || k == '{' {
				s.StoredItems++
			}
		case "metadata":
			readMetadata(r, s)
		}
		return nil
	})
	if f != nil {
		return nil, f
	}
	s.AddRefs(body)
	if f = s.CheckRefs(); f != nil {
		return nil, f
	}
	return s, s.RequireModel()
}

// readMetadata takes the end user, and the session that some clients hide in it
// after "_session_".
func readMetadata(r *wirejson.Reader, s *protocol.Shape) {
	if !r.Enter('{') {
		return
	}
	for r.Next() {
		if string(r.Name()) == "user_id" {
			s.User = protocol.Hint(r)
			if _, session, ok := strings.Cut(s.User, "_session_"); ok {
				s.SessionKey = session
			}
		}
	}
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
			if string(r.Name()) == "content" {
				readContent(r, s, 0)
			}
		}
	}
}

// readContent reads a list of content blocks; a text is left alone.
func readContent(r *wirejson.Reader, s *protocol.Shape, nested int) {
	if nested > maxNested || !r.Enter('[') {
		return
	}
	for r.Next() {
		if !r.Enter('{') {
			continue
		}
		for r.Next() {
			switch string(r.Name()) {
			case "type":
				switch kind, _ := r.String(64); kind {
				case "image":
					s.Images++
				case "document":
					s.Documents++
				}
			case "source":
				readSource(r, s)
			case "content":
				readContent(r, s, nested+1)
			}
		}
	}
}

func readSource(r *wirejson.Reader, s *protocol.Shape) {
	if !r.Enter('{') {
		return
	}
	base64, media := false, int64(0)
	for r.Next() {
		switch string(r.Name()) {
		case "type":
			kind, _ := r.String(64)
			base64 = kind == "base64"
		case "data":
			if raw, ok := r.Bytes(); ok {
				media = int64(len(raw))
			}
		case "file_id":
			s.StoredItems++
		}
	}
	if base64 {
		s.MediaBytes += media
		s.PromptBytes -= media
	}
}

func readTools(r *wirejson.Reader, s *protocol.Shape) {
	if !r.Enter('[') {
		return
	}
	for r.Next() {
		kind := "" // some clients leave the type out: a function
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
