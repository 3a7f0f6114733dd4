package schedule

import (
	"slices"
	"strings"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
)

// Needs is what a request needs of a model. Each is a set with a bit for each value of
// its enumeration.
type Needs struct {
	Reads    uint32 // modalities of the prompt, beside text
	Writes   uint32 // modalities of the answer, beside text
	Features uint32
}

// Read adds a modality of the prompt.
func (n *Needs) Read(m configv1.Modality) { n.Reads |= 1 << m }

// Write adds a modality of the answer.
func (n *Needs) Write(m configv1.Modality) { n.Writes |= 1 << m }

// Feature adds a feature.
func (n *Needs) Feature(f configv1.Feature) { n.Features |= 1 << f }

// lacking names the first thing that the request needs and that the candidate's model
// or upstream rules out; empty if there is none. A list that is empty states nothing
// and rules nothing out.
func (n Needs) lacking(c *plan.Candidate) string {
	if n == (Needs{}) {
		return ""
	}
	if m, out := missing(n.Reads, c.Model.GetModalities()); out {
		return modalityName(m) + " input"
	}
	if m, out := missing(n.Writes, c.Model.GetOutputModalities()); out {
		return modalityName(m) + " output"
	}
	for _, stated := range [2][]configv1.Feature{c.Model.GetFeatures(), c.Upstream.GetFeatures()} {
		if f, out := missing(n.Features, stated); out {
			return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(f.String(), "FEATURE_")), "_", " ")
		}
	}
	return ""
}

func modalityName(m configv1.Modality) string {
	return strings.ToLower(strings.TrimPrefix(m.String(), "MODALITY_"))
}

// missing is the first value of a set that a stated list does not have.
func missing[T ~int32](needed uint32, stated []T) (T, bool) {
	if needed == 0 || len(stated) == 0 {
		return 0, false
	}
	for v := T(0); needed>>v != 0; v++ {
		if needed&(1<<v) != 0 && !slices.Contains(stated, v) {
			return v, true
		}
	}
	return 0, false
}

// lacking says what no candidate has that the request needs.
func (s *Selection) lacking() string {
	var names []string
	for i := range s.Rows {
		if s.Rows[i].Reason != CapabilityMissing {
			continue
		}
		if name := s.query.Needs.lacking(&s.candidates[i]); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "no upstream that serves the model can do what the request needs"
	}
	return "the request needs " + strings.Join(names, " and ") + ", which no upstream of the model has; leave it out or choose another model"
}
