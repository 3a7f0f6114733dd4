package snapshot

import (
	"hash/maphash"
	"maps"
)

// cowBuckets is how many parts a cow has. A write copies one part, so it bounds
// the cost of changing one of many entries: a million keys make parts of 1,000.
const cowBuckets = 1024

var cowSeed = maphash.MakeSeed()

// cow is a map that is copied on write, a part at a time. Readers of an older copy
// are not disturbed. Its zero value is empty.
type cow[V any] struct {
	parts *[cowBuckets]map[string]V
	n     int
}

func (c cow[V]) get(key string) (V, bool) {
	if c.parts == nil {
		var zero V
		return zero, false
	}
	v, ok := c.parts[cowPart(key)][key]
	return v, ok
}

func (c cow[V]) each(f func(key string, v V)) {
	if c.parts == nil {
		return
	}
	for _, p := range c.parts {
		for k, v := range p {
			f(k, v)
		}
	}
}

func (c cow[V]) size() int { return c.n }

func cowPart(key string) int { return int(maphash.String(cowSeed, key) % cowBuckets) }

// cowWriter changes a copy of a cow. Nothing of the original is touched.
type cowWriter[V any] struct {
	base  cow[V]
	parts *[cowBuckets]map[string]V
	own   [cowBuckets]bool
	n     int
}

func (c cow[V]) writer() *cowWriter[V] { return &cowWriter[V]{base: c, n: c.n} }

func (w *cowWriter[V]) part(key string) map[string]V {
	if w.parts == nil {
		w.parts = new([cowBuckets]map[string]V)
		if w.base.parts != nil {
			*w.parts = *w.base.parts
		}
	}
	i := cowPart(key)
	if !w.own[i] {
		w.own[i] = true
		if w.parts[i] == nil {
			w.parts[i] = make(map[string]V)
		} else {
			w.parts[i] = maps.Clone(w.parts[i])
		}
	}
	return w.parts[i]
}

func (w *cowWriter[V]) put(key string, v V) {
	p := w.part(key)
	if _, ok := p[key]; !ok {
		w.n++
	}
	p[key] = v
}

func (w *cowWriter[V]) remove(key string) {
	if _, ok := w.get(key); !ok {
		return
	}
	delete(w.part(key), key)
	w.n--
}

func (w *cowWriter[V]) get(key string) (V, bool) {
	if w.parts == nil {
		return w.base.get(key)
	}
	v, ok := w.parts[cowPart(key)][key]
	return v, ok
}

func (w *cowWriter[V]) done() cow[V] {
	if w.parts == nil {
		return w.base
	}
	return cow[V]{parts: w.parts, n: w.n}
}
