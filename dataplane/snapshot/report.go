package snapshot

import (
	"context"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1/syncv1connect"
)

const (
	// maxReports bounds the reports that wait. What falls out of the queue is told
	// again with the positions of the next stream.
	maxReports     = 64
	maxViolations  = 256
	reportDeadline = 5 * time.Second
	reportPause    = time.Second
)

// reporter sends reports one at a time, in the order they were made. Nothing of the
// node's own progress waits for it.
type reporter struct {
	wake chan struct{}

	mu     sync.Mutex
	queue  []*syncv1.ReportRequest
	client syncv1connect.ConfigSyncServiceClient // nil while there is no stream
	seq    uint64
	last   map[syncv1.View]*syncv1.ReportRequest // the newest of each view
}

func newReporter() *reporter {
	return &reporter{wake: make(chan struct{}, 1), last: make(map[syncv1.View]*syncv1.ReportRequest)}
}

// add queues a report. Of two reports in a row that say only that a view was
// applied, the newer is enough.
func (r *reporter) add(m *syncv1.ReportRequest) {
	if len(m.GetViolations()) > maxViolations {
		m.Violations = m.GetViolations()[:maxViolations]
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addLocked(m)
}

// repeat queues the newest report of every view again. The replica that streams sees
// the node; the others know that it lives by its reports alone.
func (r *reporter) repeat() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) > 0 {
		return // what waits says as much
	}
	for _, view := range []syncv1.View{syncv1.View_VIEW_IDENTITY, syncv1.View_VIEW_STABLE} {
		if m := r.last[view]; m != nil {
			r.addLocked(proto.CloneOf(m))
		}
	}
}

func (r *reporter) addLocked(m *syncv1.ReportRequest) {
	r.seq++
	m.Seq = r.seq
	r.last[m.GetView()] = m
	if n := len(r.queue); n > 0 && plain(m) && plain(r.queue[n-1]) && r.queue[n-1].GetView() == m.GetView() {
		r.queue[n-1] = m
	} else {
		r.queue = append(r.queue, m)
	}
	if len(r.queue) > maxReports {
		r.queue = append(r.queue[:0], r.queue[1:]...)
	}
	r.poke()
}

func plain(m *syncv1.ReportRequest) bool {
	return m.GetOutcome() == syncv1.Outcome_OUTCOME_APPLIED && len(m.GetViolations()) == 0
}

// use sets the client to send with; nil for none.
func (r *reporter) use(c syncv1connect.ConfigSyncServiceClient) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.client = c
	r.poke()
}

func (r *reporter) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// run sends until ctx ends.
func (r *reporter) run(ctx context.Context, failed func(error)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		}
		for {
			m, client := r.next()
			if m == nil {
				break
			}
			if err := send(ctx, client, m); err != nil {
				if ctx.Err() != nil {
					return
				}
				failed(err)
				select {
				case <-ctx.Done():
					return
				case <-time.After(reportPause):
				}
				continue
			}
			r.sent(m)
		}
	}
}

func send(ctx context.Context, c syncv1connect.ConfigSyncServiceClient, m *syncv1.ReportRequest) error {
	ctx, cancel := context.WithTimeout(ctx, reportDeadline)
	defer cancel()
	_, err := c.Report(ctx, proto.CloneOf(m))
	return err
}

// next returns the oldest report and the client for it; nil if one of them is missing.
func (r *reporter) next() (*syncv1.ReportRequest, syncv1connect.ConfigSyncServiceClient) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 || r.client == nil {
		return nil, nil
	}
	return r.queue[0], r.client
}

// sent takes a report off the queue, unless a newer one stands in its place.
func (r *reporter) sent(m *syncv1.ReportRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) > 0 && r.queue[0] == m {
		r.queue = append(r.queue[:0], r.queue[1:]...)
	}
}

// report queues what became of an update.
func (s *Subscriber) report(d domain, tried Position, outcome syncv1.Outcome, violations []*syncv1.Violation) {
	st := s.applier.states[d]
	s.reporter.add(&syncv1.ReportRequest{
		Node: s.node(), View: d.view(), Tried: tried.message(), Running: st.pos.message(),
		Outcome: outcome, Violations: violations, Pins: st.pinList(), Stats: s.viewStats(d),
	})
}

// reportRunning queues what a domain runs, unless that is not on disk yet.
func (s *Subscriber) reportRunning(d domain) {
	st := s.applier.states[d]
	if st.pos.IsZero() || !s.durable[d] {
		return
	}
	outcome := syncv1.Outcome_OUTCOME_APPLIED
	var violations []*syncv1.Violation
	if len(st.pins) > 0 {
		outcome = syncv1.Outcome_OUTCOME_APPLIED_WITH_PINS
		for _, p := range st.pins {
			violations = append(violations, p.why...)
			if len(violations) >= maxViolations {
				break
			}
		}
	}
	s.report(d, st.pos, outcome, violations)
}
