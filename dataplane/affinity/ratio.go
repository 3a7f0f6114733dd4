package affinity

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	ratioAlpha = 0.1
	ratioMin   = 0.1
	ratioMax   = 1.0

	// maxRatios is how many models are measured.
	maxRatios = 4096

	scaleAlpha = 0.05
	scaleMin   = 0.25 // 16 bytes a token
	scaleMax   = 8.0  // half a byte a token
)

// average moves towards what is observed. It knows how much of its start is left in it, so
// that the start can be chosen when it is read.
type average struct {
	sum   float64
	start float64 // share of the start, in [0, 1]
}

func (a *average) add(x, alpha float64) {
	a.sum = (1-alpha)*a.sum + alpha*x
	a.start *= 1 - alpha
}

func (a *average) from(start float64) float64 { return a.sum + a.start*start }

// ratios measures how predictions and estimates come true.
type ratios struct {
	mu     sync.Mutex
	models *simplelru.LRU[modelKey, *measured] // guarded by mu
	scales *simplelru.LRU[modelKey, *average]  // guarded by mu
}

// modelKey is a provider's model, or a tenant's logical one.
type modelKey struct{ owner, model string }

type measured struct{ matches, priors average }

func newRatios() ratios {
	return ratios{models: newLRU[modelKey, *measured](maxRatios), scales: newLRU[modelKey, *average](maxRatios)}
}

// observe learns from one answer. scale is by how much the prompt was larger than its
// estimate.
func (r *ratios) observe(k *Key, served *Served, scale float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if served.Reported && served.Predicted > 0 {
		key := modelKey{served.Provider, served.Model}
		m, ok := r.models.Get(key)
		if !ok {
			m = &measured{average{start: 1}, average{start: 1}}
			r.models.Add(key, m)
		}
		a := &m.matches
		if served.Prior {
			a = &m.priors
		}
		a.add(bound(float64(served.Read)/(float64(served.Predicted)*scale), ratioMin, ratioMax), ratioAlpha)
	}
	if served.Logical != "" && served.Prompt > 0 && k.unscaled > 0 && !k.withMedia && k.Kind != Pinned {
		key := modelKey{served.Tenant, served.Logical}
		a, ok := r.scales.Get(key)
		if !ok {
			a = &average{start: 1}
			r.scales.Add(key, a)
		}
		a.add(bound(float64(served.Prompt)/float64(k.unscaled), scaleMin, scaleMax), scaleAlpha)
	}
}

func bound(x, least, most float64) float64 { return min(max(x, least), most) }

// Ratio is how much of what matches promise a provider's model is seen to read, in
// [0.1, 1]; 1 before anything was seen. Confidence is to be multiplied by it.
func (s *Store) Ratio(provider, model string) float64 {
	s.ratios.mu.Lock()
	defer s.ratios.mu.Unlock()
	m, ok := s.ratios.models.Peek(modelKey{provider, model})
	if !ok {
		return 1
	}
	return bound(m.matches.from(1), ratioMin, ratioMax)
}

// PriorConfidence is the same measured on priors: it moves from def, the confidence that is
// configured, to what is seen.
func (s *Store) PriorConfidence(provider, model string, def float64) float64 {
	s.ratios.mu.Lock()
	defer s.ratios.mu.Unlock()
	m, ok := s.ratios.models.Peek(modelKey{provider, model})
	if !ok || m.priors.start == 1 {
		return def
	}
	return bound(m.priors.from(def), ratioMin, ratioMax)
}

// Scale is by how much prompts of a tenant's logical model are larger than four bytes a
// token; 1 before anything was seen. It is for Input.Scale.
func (s *Store) Scale(tenant, logical string) float64 {
	s.ratios.mu.Lock()
	defer s.ratios.mu.Unlock()
	a, ok := s.ratios.scales.Peek(modelKey{tenant, logical})
	if !ok {
		return 1
	}
	return a.from(1)
}
