package snapshot

import (
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

// State is where a node stands in following the control plane.
type State string

// The states of a node.
const (
	Loading  State = "LOADING"  // reading the disk
	Empty    State = "EMPTY"    // nothing valid on disk, nothing received yet
	Warm     State = "WARM"     // serving from disk, control plane not reached yet
	Syncing  State = "SYNCING"  // connected, not at the target
	Current  State = "CURRENT"  // running what the control plane names
	Holding  State = "HOLDING"  // the target, or a part of it, was refused
	Detached State = "DETACHED" // connection lost, reconnecting
)

// contactGrace is how long a node that has a configuration waits for word of the
// control plane before it takes traffic all the same.
const contactGrace = 2 * time.Second

// Status is what an operator sees of a node's configuration.
type Status struct {
	State    State    `json:"state"`
	Ready    bool     `json:"ready"`
	Reasons  []string `json:"reasons,omitempty"` // why the node is not ready
	NodeID   string   `json:"node_id,omitempty"`
	Instance string   `json:"instance_id"`
	FromDisk bool     `json:"from_disk"` // nothing was received since the start
	Endpoint string   `json:"endpoint,omitempty"`
	// LastError is what ended the last connection; empty while there is one.
	LastError string `json:"last_error,omitempty"`
	// SinceContactMS is the time since the control plane was last heard; -1 for never.
	SinceContactMS int64 `json:"since_contact_ms"`
	// StalenessMS is the age of the authorization data; -1 if it was never confirmed.
	StalenessMS    int64      `json:"staleness_ms"`
	Identity       ViewStatus `json:"identity"`
	Policy         ViewStatus `json:"policy"`
	CertificateEnd *time.Time `json:"certificate_end,omitempty"`
}

// ViewStatus is the status of one domain.
type ViewStatus struct {
	Epoch      string `json:"epoch"` // hexadecimal
	Generation uint64 `json:"generation"`
	Root       string `json:"root"`
	// Target is the generation that the control plane named last; 0 before.
	Target  uint64      `json:"target"`
	LagMS   int64       `json:"lag_ms"`
	Shards  int         `json:"shards"`
	Bytes   int64       `json:"bytes"`
	Pins    []PinStatus `json:"pins,omitempty"`
	Refused uint64      `json:"refused_generation,omitempty"`
	// Quarantined is a generation that the node died of twice.
	Quarantined uint64 `json:"quarantined_generation,omitempty"`
	// Durable says that what runs is on disk.
	Durable bool `json:"durable"`
}

// PinStatus is a shard of which a previous version serves.
type PinStatus struct {
	Key   string `json:"key"`
	Since uint64 `json:"since_generation"`
	Rule  string `json:"rule"`
	Hint  string `json:"hint"`
}

// maxPinStatus bounds the pins of a Status; the report to the control plane has more.
const maxPinStatus = 100

// public is what other goroutines may see of a domain.
type public struct {
	running, target Position
	behind          time.Time // since when running is not target; zero if it is
	serving, pins   int
	bytes           int64
	pinList         []PinStatus
	refused         Position
	quarantined     Position
	durable         bool
}

func (p *public) lag(now time.Time) time.Duration {
	if p.behind.IsZero() {
		return 0
	}
	return now.Sub(p.behind)
}

func (p *public) status(now time.Time) ViewStatus {
	return ViewStatus{
		Epoch: fmt.Sprintf("%016x", p.running.Epoch), Generation: p.running.Generation, Root: hex.EncodeToString(p.running.Root[:]),
		Target: p.target.Generation, LagMS: p.lag(now).Milliseconds(),
		Shards: p.serving, Bytes: p.bytes, Pins: p.pinList,
		Refused: p.refused.Generation, Quarantined: p.quarantined.Generation, Durable: p.durable,
	}
}

// Ready reports whether the node may take traffic, and if not, why. Once it may, it
// stays so: losing the control plane later takes nothing from it.
func (s *Subscriber) Ready() (bool, []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.readyLocked(time.Now())
}

func (s *Subscriber) readyLocked(now time.Time) (bool, []string) {
	if s.ready {
		return true, nil
	}
	reasons := s.missingLocked(now)
	s.ready = len(reasons) == 0
	return s.ready, reasons
}

func (s *Subscriber) missingLocked(now time.Time) []string {
	if s.state == Loading {
		return []string{"the configuration on disk is being read"}
	}
	var reasons []string
	for d := range domains {
		if s.public[d].running.IsZero() {
			reasons = append(reasons, fmt.Sprintf("no %s configuration yet: there is none on disk and none arrived from the control plane", d))
		}
	}
	switch {
	case len(reasons) > 0:
		if s.lastError != "" {
			reasons = append(reasons, "control plane: "+s.lastError)
		}
	case s.public[policy].serving == 0:
		reasons = append(reasons, "the configuration is empty: create a tenant with a route")
	case s.state == Current || s.state == Holding:
	case now.Sub(s.contact) >= contactGrace:
	default:
		reasons = append(reasons, "the configuration from disk is being brought up to date")
	}
	return reasons
}

// Status returns what an operator needs to know. Safe for concurrent use.
func (s *Subscriber) Status() Status {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	ready, reasons := s.readyLocked(now)
	st := Status{
		State: s.state, Ready: ready, Reasons: reasons,
		NodeID: s.enrolment.nodeID(), Instance: s.instance, FromDisk: s.fromDisk,
		Endpoint: s.endpoint, LastError: s.lastError,
		SinceContactMS: -1, StalenessMS: -1,
		Identity: s.public[identity].status(now), Policy: s.public[policy].status(now),
	}
	if !s.heard.IsZero() {
		st.SinceContactMS = now.Sub(s.heard).Milliseconds()
	}
	if a := s.age.of("", now); a != unknownAge {
		st.StalenessMS = a.Milliseconds()
	}
	if c := s.enrolment.current.Load(); c != nil {
		end := c.leaf.NotAfter
		st.CertificateEnd = &end
	}
	return st
}

// Staleness returns how old the authorization data of a tenant is: the time since
// the control plane last confirmed it against PostgreSQL. It is longer than the
// node's own for a tenant of which a refused shard is held back. It takes no lock.
// Data that was never confirmed has the largest duration.
func (s *Subscriber) Staleness(tenantID string) time.Duration { return s.age.of(tenantID, time.Now()) }

// Stale reports whether requests of a tenant must be refused because its
// authorization data is older than the tenant allows. It takes no lock.
func (s *Subscriber) Stale(v *View, tenantID string) bool {
	return staleFor(v, tenantID, s.age.of(tenantID, time.Now()))
}

// publish makes the state of a domain visible.
func (s *Subscriber) publish(d domain) {
	st := s.applier.states[d]
	list := make([]PinStatus, 0, min(len(st.pins), maxPinStatus))
	keys := make([]string, 0, len(st.pins))
	for key := range st.pins {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys[:min(len(keys), maxPinStatus)] {
		ps := PinStatus{Key: key, Since: st.pins[key].since}
		if why := st.pins[key].why; len(why) > 0 {
			ps.Rule, ps.Hint = why[0].GetRule(), why[0].GetHint()
		}
		list = append(list, ps)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.public[d]
	p.running, p.serving, p.pins, p.bytes, p.pinList = st.pos, st.serving(), len(st.pins), st.bytes, list
	p.refused, p.quarantined, p.durable = s.rejected[d], s.quarantined[d], s.durable[d]
	s.aimLocked(d, p.target)
}

// aimLocked sets the target of a domain and when the node fell behind it.
func (s *Subscriber) aimLocked(d domain, target Position) {
	p := &s.public[d]
	p.target = target
	switch {
	case target.IsZero() || target == p.running || target.older(p.running):
		p.behind = time.Time{}
	case p.behind.IsZero():
		p.behind = time.Now()
	}
}

// settleState works out the state while connected, from targets and refusals.
func (s *Subscriber) settleState() {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := Current
	for d := range domains {
		p := &s.public[d]
		switch {
		case p.target.IsZero():
			state = Syncing
		case !p.behind.IsZero() && !s.held(d, p.target):
			state = Syncing
		case state == Current && (p.pins > 0 || !p.behind.IsZero()):
			state = Holding
		}
	}
	s.state = state
}

// behind returns the targets of the domains that should be at another position.
func (s *Subscriber) behind() map[domain]Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := make(map[domain]Position)
	for d := range domains {
		if p := &s.public[d]; !p.behind.IsZero() && !s.held(d, p.target) {
			m[d] = p.target
		}
	}
	return m
}

// held reports whether the node refuses a target.
func (s *Subscriber) held(d domain, target Position) bool {
	return !target.IsZero() && (target.sameGeneration(s.rejected[d]) || target.sameGeneration(s.quarantined[d]))
}

func (s *Subscriber) setState(state State) {
	s.mu.Lock()
	s.state = state
	s.mu.Unlock()
}

// viewStats are the numbers of a report.
func (s *Subscriber) viewStats(d domain) *syncv1.ViewStats {
	v := s.applier.base()
	stats := &syncv1.ViewStats{
		Shards: int64(s.applier.states[d].serving()), Bytes: s.applier.states[d].bytes, ApplyMs: s.applyTime[d].Milliseconds(),
		Routes: int64(v.routes.size()), Keys: int64(v.keys.size()), StalenessMs: -1,
	}
	if a := s.age.of("", time.Now()); a != unknownAge {
		stats.StalenessMs = a.Milliseconds()
	}
	return stats
}
