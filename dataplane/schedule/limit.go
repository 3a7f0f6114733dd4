package schedule

import (
	"sync"
	"sync/atomic"
	"time"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/puzpuzpuz/xsync/v4"
)

// Dim is a dimension of a limit.
type Dim uint8

// The dimensions, in the order in which they are checked.
const (
	RPM Dim = iota
	TPM
	ITPM
	OTPM
	IPM
	RPD
	TPD
	endOfDims
)

var dimNames = [...]string{"rpm", "tpm", "itpm", "otpm", "ipm", "rpd", "tpd"}

// String is the name used in reasons and configurations.
func (d Dim) String() string { return dimNames[d] }

// window is the time in which a full bucket empties.
func (d Dim) window() time.Duration {
	if d == RPD || d == TPD {
		return 24 * time.Hour
	}
	return time.Minute
}

// need is what an attempt takes of each dimension.
type need [endOfDims]float64

// needOf is what a request takes whose prompt has so many tokens that are counted.
func needOf(input, output, images int64) need {
	return need{
		RPM: 1, RPD: 1,
		TPM: float64(input + output), TPD: float64(input + output),
		ITPM: float64(input), OTPM: float64(output), IPM: float64(images),
	}
}

// limitsOf are the configured limits by dimension; negative is none.
func limitsOf(l *configv1.Limits) [endOfDims]float64 {
	out := [endOfDims]float64{-1, -1, -1, -1, -1, -1, -1}
	if l == nil {
		return out
	}
	for d, v := range [...]*int64{l.Rpm, l.Tpm, l.Itpm, l.Otpm, l.Ipm, l.Rpd, l.Tpd} {
		if v != nil {
			out[d] = float64(*v)
		}
	}
	return out
}

// bucket is one limit: it fills with what attempts take and empties over its window.
type bucket struct {
	used float64
	at   time.Time
}

func (b *bucket) fill(limit float64, window time.Duration, now time.Time) float64 {
	if b.used <= 0 {
		return 0
	}
	return max(0, b.used-limit*float64(now.Sub(b.at))/float64(window))
}

// meter holds the buckets of one holder of limits: a quota group, an upstream, a
// provider, or what a provider tells of its own limits.
type meter struct {
	taught  atomic.Bool // the provider said something of its limits, ever
	mu      sync.Mutex
	buckets [endOfDims]bucket // guarded by mu

	// What the provider said, for a meter of learned limits. It is guarded by mu.
	learned [endOfDims]lesson
	set     [endOfDims]float64   // configured, for operators; negative is none
	epoch   uint64               // grows with each observation, which counts what was taken before
	toldAt  [endOfDims]time.Time // when the other nodes were told; guarded by mu
}

// lesson is what a provider last said of one of its limits.
type lesson struct {
	limit  float64
	window time.Duration // in which a full bucket empties
	at     time.Time     // zero if nothing was said
	left   float64       // of what this node may take of what is left
	taken  float64       // by this node since then
}

// lessonKept is how long an observation counts when none follows.
const lessonKept = 10 * time.Minute

// configured notes the limits that the configuration has now.
func (m *meter) configured(limits [endOfDims]float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.set = limits
}

// verdict is what the limits say of a candidate.
type verdict struct {
	out  bool
	dim  Dim           // the first one without room
	wait time.Duration // until there is room in all
	load float64       // the highest share in use, this request included
	busy float64       // the highest share in use, without it
}

// told are the limits of which the provider said lately how much all nodes together have
// used; 0 where it said nothing.
type told [endOfDims]float64

func (m *meter) told(now time.Time) (t told) {
	if !m.taught.Load() {
		return t
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for d := range endOfDims {
		if l := &m.learned[d]; !l.at.IsZero() && now.Sub(l.at) < lessonFresh {
			t[d] = l.limit
		}
	}
	return t
}

// lessonFresh is how long an observation is better than a division among the nodes.
const lessonFresh = time.Minute

// check adds to v what the limits say of an attempt. Each limit is divided among the
// nodes of the fleet, but where the provider itself tells what all of them used.
func (m *meter) check(v *verdict, limits *[endOfDims]float64, n *need, nodes float64, t *told, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.judge(v, limits, n, nodes, t, now)
}

// judge is check for a caller who holds m.mu.
func (m *meter) judge(v *verdict, limits *[endOfDims]float64, n *need, nodes float64, t *told, now time.Time) {
	for d := range endOfDims {
		if limit := limits[d]; limit >= 0 {
			if nodes > 1 && t[d] > 0 && t[d] <= limit {
				continue
			}
			limit = share(limit, nodes)
			v.take(d, m.buckets[d].fill(limit, d.window(), now), n[d], limit, d.window())
		}
		if l := &m.learned[d]; !l.at.IsZero() && now.Sub(l.at) < lessonKept {
			fill := m.buckets[d].fill(l.limit, l.window, now)
			v.take(d, fill, n[d], l.limit, l.window)
			// Of what was left, other nodes take their part unseen until they tell.
			if nodes > 1 {
				room := l.left + l.limit/nodes*float64(now.Sub(l.at))/float64(l.window)
				if short := l.taken + min(n[d], l.limit/nodes) - room; short > 0 {
					v.full(d, short/(l.limit/nodes), l.window)
				}
			}
		}
	}
}

// share is the part of a limit that one node of a fleet may use on its own.
func share(limit, nodes float64) float64 {
	if nodes <= 1 || limit <= 0 {
		return limit
	}
	return max(1, limit/nodes)
}

func (v *verdict) take(d Dim, used, n, limit float64, window time.Duration) {
	if limit <= 0 {
		if n > 0 {
			v.load = max(v.load, 1)
			v.full(d, 1, window)
		}
		return
	}
	v.load = max(v.load, (used+n)/limit)
	v.busy = max(v.busy, used/limit)
	if short := used + min(n, limit) - limit; short > 0 && n > 0 {
		v.full(d, short/limit, window)
	}
}

func (v *verdict) full(d Dim, part float64, window time.Duration) {
	if !v.out || d < v.dim {
		v.dim = d
	}
	v.out = true
	v.wait = max(v.wait, time.Duration(part*float64(window)))
}

// reserve takes what an attempt needs if there is room in every dimension.
func (m *meter) reserve(limits *[endOfDims]float64, n *need, nodes float64, t *told, now time.Time) (epoch uint64, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var v verdict
	m.judge(&v, limits, n, nodes, t, now)
	if v.out {
		return 0, false
	}
	m.add(limits, n, nodes, 1, now)
	return m.epoch, true
}

// add changes the buckets by sign times n. The caller holds m.mu.
func (m *meter) add(limits *[endOfDims]float64, n *need, nodes, sign float64, now time.Time) {
	for d := range endOfDims {
		b := &m.buckets[d]
		switch l := &m.learned[d]; {
		case !l.at.IsZero():
			b.used = max(0, b.fill(l.limit, l.window, now)+sign*n[d])
			l.taken = max(0, l.taken+sign*n[d])
		case limits[d] >= 0:
			b.used = max(0, b.fill(share(limits[d], nodes), d.window(), now)+sign*n[d])
		default:
			continue
		}
		b.at = now
	}
}

// correct replaces a reservation by what was really used. What a provider said since
// then has it counted already.
func (m *meter) correct(limits *[endOfDims]float64, reserved, used *need, nodes float64, epoch uint64, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.epoch != epoch {
		return
	}
	var diff need
	for d := range diff {
		diff[d] = used[d] - reserved[d]
	}
	m.add(limits, &diff, nodes, 1, now)
}

// Observation is what an upstream said of one of its limits with an answer.
type Observation struct {
	Dim       Dim
	Limit     float64       // whole limit; above 0
	Remaining float64       // what is left of it
	Reset     time.Duration // until all of it is back; 0 if it was not said
}

// observe overwrites what is known of the provider's limits.
func (m *meter) observe(seen []Observation, nodes float64, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range seen {
		used := o.Limit - min(o.Remaining, o.Limit)
		window := o.Dim.window()
		if o.Reset > 0 && used > 0 {
			// Compared before it is converted: what no Duration can hold would become any number.
			window = time.Duration(min(max(float64(o.Reset)*o.Limit/used, float64(time.Second)), float64(24*time.Hour)))
		}
		m.learned[o.Dim] = lesson{limit: o.Limit, window: window, at: now, left: o.Remaining / max(1, nodes)}
		m.buckets[o.Dim] = bucket{used: used, at: now}
	}
	if len(seen) > 0 {
		m.epoch++
		m.taught.Store(true)
	}
}

// DimNamed returns the dimension of that name.
func DimNamed(name string) (Dim, bool) {
	for d, n := range dimNames {
		if n == name {
			return Dim(d), true
		}
	}
	return 0, false
}

type meters struct{ byKey *xsync.Map[string, *meter] }

func newMeters() meters { return meters{xsync.NewMap[string, *meter]()} }

func (ms meters) of(key string) *meter {
	m, _ := ms.byKey.LoadOrCompute(key, func() (*meter, bool) { return new(meter), false })
	return m
}

// LimitState is how full one limit is, for operators.
type LimitState struct {
	Key     string // quota:<id>, learned:<quota>|<model>, upstream:<id> or provider:<id>
	Dim     string
	Used    float64
	Limit   float64 // this node's share of a configured one
	Learned bool
	At      time.Time // when the provider said it
}

// Limits returns the limits that are in use.
func (s *Scheduler) Limits(now time.Time) []LimitState {
	var out []LimitState
	s.meters.byKey.Range(func(key string, m *meter) bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		for d := range endOfDims {
			l, b := &m.learned[d], &m.buckets[d]
			switch {
			case !l.at.IsZero() && now.Sub(l.at) < lessonKept:
				out = append(out, LimitState{Key: key, Dim: d.String(), Used: b.fill(l.limit, l.window, now), Limit: l.limit, Learned: true, At: l.at})
			case b.used > 0 && m.set[d] >= 0:
				limit := share(m.set[d], s.nodes())
				out = append(out, LimitState{Key: key, Dim: d.String(), Used: b.fill(limit, d.window(), now), Limit: limit, At: b.at})
			}
		}
		return true
	})
	return out
}
