package endpoint

import (
	"math"

	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/openaiusage"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// event reads an event of Realtime that tells a usage, and returns the error of a
// response that failed; nil for another. The caller holds d.mu.
func (d *Dialog) event(event []byte) (failure *protocol.ErrorInfo) {
	r := &d.read
	r.ResetLenient(event)
	defer r.Release()
	for ok := r.Enter('{'); ok && r.Next(); {
		switch string(r.Name()) {
		case "response":
			failure = d.response(r)
		case "usage": // of a transcript
			d.used(r)
		}
	}
	return failure
}

func (d *Dialog) response(r *wirejson.Reader) (failure *protocol.ErrorInfo) {
	for ok := r.Enter('{'); ok && r.Next(); {
		switch string(r.Name()) {
		case "id":
			if id, ok := r.String(protocol.MaxHint); ok {
				d.id = id
			}
		case "usage":
			d.used(r)
		case "status_details":
			var e protocol.ErrorInfo
			for in := r.Enter('{'); in && r.Next(); {
				if string(r.Name()) == "error" && e.ReadMember(r) {
					failure = &e
				}
			}
		}
	}
	return failure
}

// used reads a usage of Realtime: of tokens, or of the seconds of a recording.
func (d *Dialog) used(r *wirejson.Reader) {
	var p llm.Prompt
	var c llm.Completion
	var u llm.Usage
	counted := false
	for ok := r.Enter('{'); ok && r.Next(); {
		switch string(r.Name()) {
		case "input_tokens":
			n, ok := r.Int()
			p.Total, counted = n, counted || ok
		case "output_tokens":
			n, ok := r.Int()
			c.Total, counted = n, counted || ok
		case "input_token_details":
			prompt(r, &p)
		case "output_token_details":
			openaiusage.CompletionDetails(r, &c)
		case "seconds":
			if s := number(r); s > 0 {
				u.AudioSeconds, counted = int64(math.Ceil(s)), true
			}
		}
	}
	if counted {
		u.SetPrompt(p)
		u.SetCompletion(c)
		d.add(u)
	}
}

func prompt(r *wirejson.Reader, p *llm.Prompt) {
	for ok := r.Enter('{'); ok && r.Next(); {
		switch string(r.Name()) {
		case "cached_tokens":
			p.CacheRead, _ = r.Int()
		case "audio_tokens":
			p.Audio, _ = r.Int()
		case "image_tokens":
			p.Image, _ = r.Int()
		case "cached_tokens_details":
			for in := r.Enter('{'); in && r.Next(); {
				switch string(r.Name()) {
				case "audio_tokens":
					p.CachedAudio, _ = r.Int()
				case "image_tokens":
					p.CachedImage, _ = r.Int()
				}
			}
		}
	}
}
