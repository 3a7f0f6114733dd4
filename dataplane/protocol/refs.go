package protocol

import (
	"bytes"

	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// AddRefs notes every wrapped id in a body that stands in a member which names stored
// files, containers or cached prompts, at any depth. It is for the protocols that have
// such members in many places; a body without any wrapped id is not looked at.
func (s *Shape) AddRefs(body []byte) {
	if !bytes.Contains(body, refMark) {
		return
	}
	var r wirejson.Reader
	r.ResetLenient(body)
	defer r.Release()
	s.addRefs(&r, "")
}

func (s *Shape) addRefs(r *wirejson.Reader, name string) {
	switch r.Kind() {
	case '{':
		for ok := r.Enter('{'); ok && r.Next(); {
			member := string(r.Name())
			if member == "input" && name == "content" {
				r.Skip() // arguments of a call, which are the model's and no reference
				continue
			}
			s.addRefs(r, member)
		}
	case '[':
		for ok := r.Enter('['); ok && r.Next(); {
			s.addRefs(r, name)
		}
	case '"':
		switch name {
		case "file_id", "file_ids", "input_file_id", "fileUri", "file_uri", "container", "container_id", "cachedContent":
			s.AddRef(r, "", -1, name, true)
		default:
			r.Skip()
		}
	default:
		r.Skip()
	}
}
