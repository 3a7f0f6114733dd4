package decision

import (
	"sync"
	"unsafe"
)

// Bounds of a Ring.
const (
	MaxKept      = 10_000
	MaxKeptBytes = 64 << 20
)

// Ring keeps the latest records, by decision and by request. Its zero value is ready and
// keeps MaxKept records of at most MaxKeptBytes together. Safe for concurrent use.
type Ring struct {
	// Records and Bytes replace the bounds where they are above 0; they are set before
	// the first use.
	Records int
	Bytes   int64

	mu    sync.Mutex
	kept  []*Record          // guarded by mu; a circle once it is full
	first int                // of the oldest in kept; guarded by mu
	count int                // guarded by mu
	bytes int64              // guarded by mu
	byID  map[string]*Record // decisions and requests; guarded by mu
}

// Add keeps a record, which must not be changed afterwards, and drops the oldest ones
// that are too many.
func (r *Ring) Add(rec *Record) {
	size := rec.size()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID == nil {
		if r.Records <= 0 {
			r.Records = MaxKept
		}
		if r.Bytes <= 0 {
			r.Bytes = MaxKeptBytes
		}
		r.byID = make(map[string]*Record)
		r.kept = make([]*Record, r.Records)
	}
	for r.count > 0 && (r.count == len(r.kept) || r.bytes+size > r.Bytes) {
		r.dropOldest()
	}
	if size > r.Bytes {
		return
	}
	r.kept[(r.first+r.count)%len(r.kept)] = rec
	r.count++
	r.bytes += size
	r.byID[rec.ID] = rec
	if rec.RequestID != "" {
		r.byID[rec.RequestID] = rec
	}
}

// dropOldest forgets one record. The caller holds r.mu.
func (r *Ring) dropOldest() {
	old := r.kept[r.first]
	r.kept[r.first] = nil
	r.first = (r.first + 1) % len(r.kept)
	r.count--
	r.bytes -= old.size()
	for _, id := range [2]string{old.ID, old.RequestID} {
		if r.byID[id] == old {
			delete(r.byID, id)
		}
	}
}

// Find returns the record of a decision or a request; nil if it is not kept.
func (r *Ring) Find(id string) *Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byID[id]
}

// Latest returns up to limit records, the newest first: those that are older than the
// decision before, or the newest of all if that is empty or not kept any more. match
// chooses among them; nil takes all.
func (r *Ring) Latest(before string, limit int, match func(*Record) bool) []*Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	from := r.byID[before]
	var out []*Record
	for i := r.count - 1; i >= 0 && len(out) < limit; i-- {
		rec := r.kept[(r.first+i)%len(r.kept)]
		switch {
		case from != nil:
			if rec == from {
				from = nil
			}
		case match == nil || match(rec):
			out = append(out, rec)
		}
	}
	return out
}

// Len is how many records are kept, and how much memory they are counted as.
func (r *Ring) Len() (records int, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count, r.bytes
}

// perRecord is what a record costs beside itself: two entries of a map with their ids,
// and its place in the circle.
const perRecord = 256

// size is how much memory a record holds, in bytes. Names that are the configuration's
// are counted as if the record alone kept them.
func (rec *Record) size() int64 {
	n := perRecord + int64(unsafe.Sizeof(*rec))
	n += int64(len(rec.ID) + len(rec.RequestID) + len(rec.Chosen) + len(rec.Features.Model))
	if p := rec.Features.Prefix; p != nil {
		n += int64(unsafe.Sizeof(*p)) + int64(cap(p.Chain))*int64(unsafe.Sizeof(p.Chain[0]))
	}
	n += int64(cap(rec.Affinity.Matches)) * int64(unsafe.Sizeof(Match{}))
	for i := range rec.Candidates {
		c := &rec.Candidates[i]
		n += int64(unsafe.Sizeof(*c))
		n += int64(len(c.ID) + len(c.Provider) + len(c.ProviderID) + len(c.Upstream) + len(c.UpstreamID) + len(c.Credential) +
			len(c.CredentialID) + len(c.Model) + len(c.Protocol) + len(c.CacheScope))
	}
	for i := range rec.Selections {
		s := &rec.Selections[i]
		n += int64(unsafe.Sizeof(*s)) + int64(cap(s.Filters))*int64(unsafe.Sizeof(Remaining{})) + int64(cap(s.Order))*int64(unsafe.Sizeof(""))
		for j := range s.Rows {
			row := &s.Rows[j]
			n += int64(unsafe.Sizeof(*row))
			if row.Score != nil {
				n += int64(unsafe.Sizeof(*row.Score))
			}
			n += row.Resting.size()
		}
	}
	for i := range rec.Attempts {
		a := &rec.Attempts[i]
		n += int64(unsafe.Sizeof(*a)) + int64(len(a.UpstreamRequestID)) + a.Cooldown.size()
	}
	if f := rec.Refusal; f != nil {
		n += int64(unsafe.Sizeof(*f)) + int64(len(f.Text)+len(f.Pool))
	}
	return n
}

func (r *Rest) size() int64 {
	if r == nil {
		return 0
	}
	return int64(unsafe.Sizeof(*r)) + int64(len(r.RequestID)+len(r.Node))
}
