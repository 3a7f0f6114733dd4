package distribute

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

// fleet is what a replica knows of nodes: who they are, what they reported, to
// this replica or another, and what they refused.
type fleet struct {
	mu        sync.Mutex // guards everything below
	nodes     map[string]Node
	reports   map[viewOf]Status
	saved     map[viewOf]time.Time // when a report was last stored
	refusals  map[refusal]bool
	quarant   map[refusal]bool // nodeID empty: of every node of a version
	retried   map[string]bool  // a node whose own list of refusals is passed over once
	lastDelta map[viewOf]offer
	needFull  map[viewOf]position
	fromDisk  map[string]bool // nodes that said so and have applied nothing since
}

type viewOf struct {
	nodeID string
	view   syncv1.View
}

type refusal struct {
	nodeID, version string
	view            syncv1.View
	generation      uint64
}

type offer struct {
	instance string
	base     position
	stream   string
}

const maxRefusals = 4096 // kept of the whole fleet; the oldest generations go first

func (f *fleet) init() {
	f.nodes, f.reports, f.saved = map[string]Node{}, map[viewOf]Status{}, map[viewOf]time.Time{}
	f.refusals, f.quarant, f.retried = map[refusal]bool{}, map[refusal]bool{}, map[string]bool{}
	f.lastDelta, f.needFull, f.fromDisk = map[viewOf]offer{}, map[viewOf]position{}, map[string]bool{}
}

// node tells whether a node is known and revoked.
func (f *fleet) node(id string) (known, revoked bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, ok := f.nodes[id]
	return ok, ok && !n.RevokedAt.IsZero()
}

func (f *fleet) get(id string) Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.nodes[id]
}

func (f *fleet) save(n Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nodes[n.ID] = n
}

// opened takes what a node says when it opens a stream.
func (f *fleet) opened(s *session, req *syncv1.WatchRequest, st *state) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fromDisk[s.nodeID] = req.GetFromDisk()
	retried := f.retried[s.nodeID]
	delete(f.retried, s.nodeID)
	for _, r := range req.GetRefused() {
		// Older generations are not offered any more; keeping them would let a node
		// fill the memory.
		if v := st.view(r.GetView()); retried || v == nil || r.GetNodeVersion() != s.version || r.GetGeneration() < v.at.generation {
			continue
		}
		f.refuse(refusal{s.nodeID, s.version, r.GetView(), r.GetGeneration()})
	}
}

// refuse records a refusal. f.mu is held.
func (f *fleet) refuse(r refusal) {
	if len(f.refusals) >= maxRefusals {
		oldest := r
		for other := range f.refusals {
			if other.generation < oldest.generation {
				oldest = other
			}
		}
		if oldest == r {
			return
		}
		delete(f.refusals, oldest)
	}
	f.refusals[r] = true
}

// refused reports whether a generation must not be offered to a node.
func (f *fleet) refused(nodeID, version string, view syncv1.View, generation uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refusals[refusal{nodeID, version, view, generation}] || f.quarant[refusal{"", version, view, generation}]
}

// mayDelta reports whether a delta from base can help. One that was sent to this
// start of the node before, over another stream, and left it where it was, will
// not help the second time: the node may differ from what its position says.
func (f *fleet) mayDelta(s *session, view syncv1.View, base position) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := viewOf{s.nodeID, view}
	o, sent := f.lastDelta[k]
	if sent && o.stream != s.id && o.instance == s.instance && o.base == base {
		return false
	}
	full, asked := f.needFull[k]
	return !asked || full != base
}

func (f *fleet) sentDelta(s *session, view syncv1.View, base position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lastDelta[viewOf{s.nodeID, view}] = offer{s.instance, base, s.id}
}

// take records a report and tells whether it is news and whether it should be
// stored now. An equal report is stored now and then, as a sign of life.
func (f *fleet) take(r *syncv1.ReportRequest, now time.Time, storeEvery time.Duration) (fresh, store, fromDisk bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := viewOf{r.GetNode().GetNodeId(), r.GetView()}
	old, had := f.reports[k]
	if had && old.Report.GetNode().GetInstanceId() == r.GetNode().GetInstanceId() && old.Report.GetSeq() >= r.GetSeq() {
		return false, false, false
	}
	same := had && sameReport(old.Report, r)
	running := positionOf(r.GetRunning())
	tried := r.GetTried().GetGeneration()
	switch r.GetOutcome() {
	case syncv1.Outcome_OUTCOME_REJECTED:
		f.refuse(refusal{k.nodeID, r.GetNode().GetVersion(), k.view, tried})
	case syncv1.Outcome_OUTCOME_QUARANTINED:
		if len(f.quarant) < maxRefusals {
			f.quarant[refusal{"", r.GetNode().GetVersion(), k.view, tried}] = true
		}
	case syncv1.Outcome_OUTCOME_NEED_FULL:
		f.needFull[k] = running
	case syncv1.Outcome_OUTCOME_APPLIED, syncv1.Outcome_OUTCOME_APPLIED_WITH_PINS:
		delete(f.needFull, k)
		delete(f.lastDelta, k)
		delete(f.fromDisk, k.nodeID)
	}
	fromDisk = f.fromDisk[k.nodeID]
	f.reports[k] = Status{r, fromDisk, now}
	store = !same || now.Sub(f.saved[k]) >= storeEvery
	if store {
		f.saved[k] = now
	}
	return true, store, fromDisk
}

// unsaved lets the next report be stored, after one could not be.
func (f *fleet) unsaved(r *syncv1.ReportRequest) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.saved, viewOf{r.GetNode().GetNodeId(), r.GetView()})
}

// sameReport compares what matters to others.
func sameReport(a, b *syncv1.ReportRequest) bool {
	return a.GetNode().GetInstanceId() == b.GetNode().GetInstanceId() && a.GetOutcome() == b.GetOutcome() &&
		positionOf(a.GetRunning()) == positionOf(b.GetRunning()) && positionOf(a.GetTried()) == positionOf(b.GetTried()) &&
		len(a.GetPins()) == len(b.GetPins()) && len(a.GetViolations()) == len(b.GetViolations())
}

// merge takes what is stored: nodes and reports of every replica.
func (f *fleet) merge(nodes []Node, statuses []Status) (revoked []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range nodes {
		if old := f.nodes[n.ID]; n.RevokedAt.IsZero() {
			n.RevokedAt = old.RevokedAt // revoked here, and stored a moment later
		}
		if !n.RevokedAt.IsZero() {
			revoked = append(revoked, n.ID)
		}
		f.nodes[n.ID] = n
	}
	for _, st := range statuses {
		k := viewOf{st.Report.GetNode().GetNodeId(), st.Report.GetView()}
		old, had := f.reports[k]
		if had && !st.ReportedAt.After(old.ReportedAt) {
			continue
		}
		if had && old.Report.GetNode().GetInstanceId() == st.Report.GetNode().GetInstanceId() && old.Report.GetSeq() > st.Report.GetSeq() {
			continue
		}
		f.reports[k] = st
		if st.Report.GetOutcome() == syncv1.Outcome_OUTCOME_QUARANTINED && len(f.quarant) < maxRefusals {
			f.quarant[refusal{"", st.Report.GetNode().GetVersion(), k.view, st.Report.GetTried().GetGeneration()}] = true
		}
	}
	return revoked
}

// forget lets a node be offered again what it refused, and what its version
// does.
func (f *fleet) forget(nodeID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.retried[nodeID] = true
	maps.DeleteFunc(f.refusals, func(r refusal, _ bool) bool { return r.nodeID == nodeID })
	for _, v := range views {
		if st, ok := f.reports[viewOf{nodeID, v}]; ok {
			delete(f.quarant, refusal{"", st.Report.GetNode().GetVersion(), v, st.Report.GetTried().GetGeneration()})
		}
	}
}

// all returns nodes by id and their reports.
func (f *fleet) all() ([]Node, map[viewOf]Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	nodes := slices.Collect(maps.Values(f.nodes))
	slices.SortFunc(nodes, func(a, b Node) int { return cmp.Compare(a.ID, b.ID) })
	return nodes, maps.Clone(f.reports)
}

// fleetInterval is how often nodes and reports of other replicas are read.
const fleetInterval = 2 * time.Second

// watchFleet keeps up with nodes that enrolled, reported or were revoked at
// another replica.
func (h *Hub) watchFleet(ctx context.Context) error {
	for {
		h.lookAround(ctx)
		h.count()
		if err := sleep(ctx, fleetInterval); err != nil {
			return err
		}
	}
}

// count counts the nodes that are connected to any replica, and lets nodes know when
// their number changed: they divide limits by it.
func (h *Hub) count() {
	nodes, reports := h.fleet.all()
	streaming, now := h.streaming(), time.Now()
	counted := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		if n.RevokedAt.IsZero() && h.alive(n.ID, reports, streaming, now) {
			counted[n.ID] = true
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.sessions {
		counted[s.nodeID] = true // it came meanwhile
	}
	h.counted = counted
	for s := range h.sessions {
		s.rouse() // a session sends its node nothing if it knows the number
	}
}

// connected is how many nodes are connected, at whichever replica.
func (h *Hub) connected() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.counted)
}

func (h *Hub) readFleet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, headTimeout)
	defer cancel()
	nodes, err := h.nodes.AllNodes(ctx)
	if err != nil {
		return err
	}
	statuses, err := h.nodes.AllStatuses(ctx)
	if err != nil {
		return err
	}
	for _, id := range h.fleet.merge(nodes, statuses) {
		h.endStreams(id, "the node is revoked")
	}
	h.mu.Lock()
	h.notify()
	h.mu.Unlock()
	return nil
}

func (h *Hub) endStreams(nodeID, reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.sessions {
		if s.nodeID == nodeID {
			s.leave(reason)
		}
	}
}

// Revoke ends the streams of a node at once and refuses it from now on. Other
// replicas follow when they next read the nodes, within seconds; the caller
// stores the revocation.
func (h *Hub) Revoke(nodeID string) {
	n := h.fleet.get(nodeID)
	n.ID, n.RevokedAt = nodeID, time.Now()
	h.fleet.save(n)
	h.endStreams(nodeID, "the node is revoked")
}

// Retry offers a node again what it refused. It only reaches a node whose stream
// is at this replica; its stream ends, and it comes back.
func (h *Hub) Retry(nodeID string) {
	h.fleet.forget(nodeID)
	h.endStreams(nodeID, "what was refused is offered again")
}
