package schedule

import (
	"context"
	"slices"
	"sync/atomic"
	"time"
)

// ticket is the place of one request that waits for a slot. The same ticket stands at
// every account that would do.
type ticket struct {
	class  uint8  // traffic class, the more urgent the smaller
	age    uint64 // the older the smaller
	called atomic.Bool
	wake   chan struct{}
}

func (t *ticket) before(o *ticket) bool {
	return t.class < o.class || t.class == o.class && t.age < o.age
}

func (s *slot) join(t *ticket) {
	s.mu.Lock()
	s.tickets = append(s.tickets, t)
	s.queued.Add(1)
	s.mu.Unlock()
}

func (s *slot) leave(t *ticket) {
	s.mu.Lock()
	if i := slices.Index(s.tickets, t); i >= 0 {
		s.tickets = slices.Delete(s.tickets, i, i+1)
		s.queued.Add(-1)
	}
	s.mu.Unlock()
}

// wake calls the one who is next of those that wait at any of the slots, behind a ticket
// if after is not nil. Nobody else is
// called for the same attempt that ended, so that a slot which becomes free does not set
// all who wait in motion, nor one who is less urgent beside the one who is next.
func wake(slots *[3]*slot, after *ticket) {
	for {
		var next *ticket
		for _, s := range slots {
			s.mu.Lock()
			for _, t := range s.tickets {
				if !t.called.Load() && (after == nil || after.before(t)) && (next == nil || t.before(next)) {
					next = t
				}
			}
			s.mu.Unlock()
		}
		if next == nil {
			return
		}
		if next.called.CompareAndSwap(false, true) {
			next.wake <- struct{}{}
			return
		}
	}
}

// Classes of traffic, the most urgent first.
const (
	ClassCritical uint8 = iota
	ClassInteractive
	ClassBatch
)

// Wait waits for a slot or a limit of a warm candidate, as long as its cache is worth
// it, or until a slot is free. It reports false if the client left.
func (s *Scheduler) Wait(ctx context.Context, sel *Selection, i int) bool {
	row := &sel.Rows[i]
	h := s.handle(&sel.candidates[i])
	if row.Wait > 0 {
		if !sleep(ctx, row.Wait) {
			return false
		}
	}
	if row.SlotWait <= 0 {
		return true
	}
	h.slots[0].waiting.Add(1)
	defer h.slots[0].waiting.Add(-1)
	t := s.ticket(sel.query.Class)
	for _, sl := range h.slots {
		sl.join(t)
	}
	defer s.leave(t, h)
	timer := time.NewTimer(max(0, h.maxCacheWait(&sel.query.Policy)-row.Wait))
	defer timer.Stop()
	for {
		if s.room(sel, i) {
			return true
		}
		select {
		case <-t.wake:
			t.called.Store(false)
		case <-timer.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// room reports whether the candidate has a free slot. It may be gone a moment later.
func (s *Scheduler) room(sel *Selection, i int) bool {
	h := s.handle(&sel.candidates[i])
	for j, m := range concurrency(&sel.candidates[i], s.nodes()) {
		if m >= 0 && h.slots[j].running.Load() >= m {
			return false
		}
	}
	return true
}

func (s *Scheduler) ticket(class uint8) *ticket {
	return &ticket{class: class, age: s.tickets.Add(1), wake: make(chan struct{}, 1)}
}

// leave takes a ticket away, and has the next one look whether there is still room: the
// one that leaves may have been called and not taken the slot, or have taken one of two.
func (s *Scheduler) leave(t *ticket, hs ...*handle) {
	for _, h := range hs {
		for _, sl := range h.slots {
			sl.leave(t)
		}
	}
	t.called.Store(true) // nobody calls it from here on
	for _, h := range hs {
		wake(&h.slots, nil)
	}
}

// Queued says how waiting in the queue ended.
type Queued uint8

// The endings.
const (
	QueueWoken   Queued = iota // a slot may be free: select again
	QueueFull                  // too many wait already
	QueueExpired               // no slot became free in time
	QueueLeft                  // the client left
)

// Queue is one request's place among those that wait for a slot of any of the
// candidates. Close it when the request got one or gave up.
type Queue struct {
	s     *Scheduler
	t     *ticket
	hs    []*handle
	timer *time.Timer
	count *atomic.Int64
	begun time.Time
	woken bool // it was called, and has not said what came of it
}

// Enqueue joins the queue of a selection in which every candidate is full. It reports
// false if there is none that is only full, or too many wait: twice the slots there
// are in all.
func (s *Scheduler) Enqueue(sel *Selection) (*Queue, bool) {
	total := int64(0)
	q := &Queue{s: s, begun: time.Now()}
	for i := range sel.Rows {
		if sel.Rows[i].Reason != SlotFull {
			continue
		}
		h := s.handle(&sel.candidates[i])
		least := int64(-1)
		for _, m := range concurrency(&sel.candidates[i], s.nodes()) {
			if m >= 0 && (least < 0 || m < least) {
				least = m
			}
		}
		total += max(0, least)
		q.hs = append(q.hs, h)
	}
	wait := sel.query.Policy.MaxQueueWait
	if len(q.hs) == 0 || wait <= 0 {
		return nil, false
	}
	q.count, _ = s.queued.LoadOrCompute(sel.candidates[0].RotationKey, func() (*atomic.Int64, bool) { return new(atomic.Int64), false })
	if q.count.Add(1) > queueFactor*total {
		q.count.Add(-1)
		return nil, false
	}
	q.t = s.ticket(sel.query.Class)
	for _, h := range q.hs {
		for _, sl := range h.slots {
			sl.join(q.t)
		}
	}
	q.timer = time.NewTimer(wait)
	return q, true
}

// queueFactor bounds a queue as a multiple of the slots of its candidates.
const queueFactor = 2

// Next waits for a slot to become free. If it was called before and could not use what was
// free, those behind it are called.
func (q *Queue) Next(ctx context.Context) Queued {
	if q.woken {
		q.woken = false
		for _, h := range q.hs {
			wake(&h.slots, q.t)
		}
	}
	select {
	case <-q.t.wake:
		q.t.called.Store(false)
		q.woken = true
		return QueueWoken
	case <-q.timer.C:
		return QueueExpired
	case <-ctx.Done():
		return QueueLeft
	}
}

// Waited is how long the request has been in the queue.
func (q *Queue) Waited() time.Duration { return time.Since(q.begun) }

// Close leaves the queue.
func (q *Queue) Close() {
	if q == nil {
		return
	}
	q.timer.Stop()
	q.count.Add(-1)
	q.s.leave(q.t, q.hs...)
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
