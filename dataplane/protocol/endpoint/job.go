package endpoint

import (
	"net/http"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

// Job is the Call of what a provider works on for a while and keeps: videos, and
// operations of Gemini's. The ids in its answers name their owner.
type Job struct{ *Call }

var _ protocol.Owned = Job{}

// NewRewriter implements protocol.Owned.
func (j Job) NewRewriter(_ bool, wrap func(id string) string) protocol.Rewriter {
	return &keptRewriter{wrap: wrap, collection: j.target.Protocol == protocol.Gemini}
}

// Classify makes a fault of an upstream's error answer. What is not found is the
// object, where the call names no model.
func (j Job) Classify(status int, header http.Header, body []byte, now time.Time) *fault.Error {
	f := j.Call.Classify(status, header, body, now)
	if f.Class == fault.ModelNotFound && j.target.Op.ByObject() {
		f.Class = fault.StateNotFound
	}
	return f
}

// keepsJob reports an operation that begins a job or looks after one.
func keepsJob(o protocol.Operation) bool {
	return o == protocol.OpVideo || o == protocol.OpPredictLong || o.ByObject()
}
