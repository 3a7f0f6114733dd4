package meter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/aidy-gateway/aidy-gateway/shared/ident"
)

// Errors of a Log. They are wrapped with what was being done; compare with errors.Is.
var (
	// ErrFull refuses a record because the log has reached its bound. An
	// INTENT is refused at LogConfig.RefuseAt, other records at the bound itself.
	ErrFull = errors.New("usage log is full")
	// ErrNoSpace refuses a record because the file system has no room. What the
	// log holds is untouched, and the next Append tries again.
	ErrNoSpace = errors.New("no space left for the usage log")
	// ErrUnsynced refuses an INTENT because the last sync of the log to disk
	// went wrong. It clears with the next sync that works.
	ErrUnsynced = errors.New("usage log cannot be synced to disk")
	// ErrTooLarge refuses a payload above MaxPayload.
	ErrTooLarge = errors.New("usage record is too large")
	// ErrClosed is returned by every use after Close.
	ErrClosed = errors.New("usage log is closed")
	// ErrLocked means that another process has the directory open.
	ErrLocked = errors.New("usage log directory is in use")
)

// LogConfig tunes a Log. A zero field takes the default it documents.
type LogConfig struct {
	// SegmentBytes is the size at which a segment is closed and the next one
	// begun. Default 64 MiB, or a quarter of MaxBytes if that is less; at least
	// 4 KiB.
	SegmentBytes int64

	// MaxBytes bounds all segments together. Default 8 GiB; at least four
	// segments, because the one being written is never deleted.
	MaxBytes int64

	// AlertAt is the fill, in (0, 1], at which the log warns. Default 0.5.
	AlertAt float64

	// RefuseAt is the fill, in (0, 1], at which an INTENT is refused. The rest
	// is kept for the records of attempts already begun. Default 0.95.
	RefuseAt float64

	// SyncInterval is how long Run lets appended records wait for a sync.
	// Default 20 ms.
	SyncInterval time.Duration
}

func (c LogConfig) withDefaults() (LogConfig, error) {
	if c.MaxBytes == 0 {
		c.MaxBytes = 8 << 30
	}
	if c.SegmentBytes == 0 {
		c.SegmentBytes = min(64<<20, c.MaxBytes/4)
	}
	if c.AlertAt == 0 {
		c.AlertAt = 0.5
	}
	if c.RefuseAt == 0 {
		c.RefuseAt = 0.95
	}
	if c.SyncInterval == 0 {
		c.SyncInterval = 20 * time.Millisecond
	}
	switch {
	case c.SegmentBytes < 4<<10 || c.SegmentBytes > 1<<32:
		return c, fmt.Errorf("segment size is %d bytes, expected 4 KiB to 4 GiB", c.SegmentBytes)
	case c.MaxBytes < 4*c.SegmentBytes:
		return c, fmt.Errorf("usage log bound is %d bytes, expected at least four segments of %d bytes; "+
			"raise the bound or lower the segment size", c.MaxBytes, c.SegmentBytes)
	case !(c.AlertAt > 0 && c.AlertAt <= 1) || !(c.RefuseAt > 0 && c.RefuseAt <= 1):
		return c, fmt.Errorf("usage log fill marks are %v and %v, expected above 0 and at most 1", c.AlertAt, c.RefuseAt)
	case c.SyncInterval < 0:
		return c, fmt.Errorf("usage log sync interval is %v, expected a positive time", c.SyncInterval)
	}
	return c, nil
}

// slack is how far past its size a segment may grow when the next one cannot be
// created. It is allocated with the segment, so attempts under way can still be
// settled on a full disk.
func (c LogConfig) slack() int64 { return c.SegmentBytes / 16 }

// seqStride is the distance between the numbers of two boots. A power cut can
// take the tail of the log, and with it the proof of which numbers were given
// out; no boot gives out this many between two syncs.
const seqStride = 1 << 20

// Log is the node's durable log of usage records. All methods are safe for
// concurrent use.
type Log struct {
	cfg    LogConfig
	dir    string
	boot   string
	log    zerolog.Logger
	report OpenReport
	lock   *os.File
	ack    *ackFile

	writeAt  func(f *os.File, b []byte, off int64) (int, error) // replaced by tests
	syncFile func(f *os.File) error                             // replaced by tests

	mu        sync.Mutex // guards the fields below
	segments  []*segment // oldest first; the last one is written to
	buf       []byte
	last      uint64 // number of the newest record
	total     int64  // bytes of all segments
	failed    bool   // the last write went wrong and left its bytes behind
	dirtyDir  bool   // a segment was created since the last sync
	keepAll   bool   // earlier boots are not recovered yet
	alerted   bool
	paged     bool
	refusing  bool
	noSpace   bool
	syncErr   error
	closed    bool
	closeOnce sync.Once

	dirty   chan struct{} // one token when something waits for a sync
	moved   chan struct{} // one token when durable has moved
	syncMu  sync.Mutex    // one sync at a time; taken before mu
	durable atomic.Uint64 // newest number known to be on disk
	lost    atomic.Uint64 // records found unreadable after Open, at least
	settles atomic.Uint64 // SETTLEs not yet acknowledged at open, plus those appended since

	readMu sync.Mutex // guards the fields below; taken before mu
	read   cursor
	blamed uint64 // damage up to this number has been reported
}

// Open opens the log in dir, creating it if there is none, and takes the
// directory for this process. It reads every segment, cuts what is torn or
// damaged and says so in Report and in log. Numbers go on above all that were
// ever given out, under a new boot id.
//
// Nothing written by earlier boots is deleted until Recovered is called. Open
// fails with ErrLocked if another process has the directory.
func Open(dir string, cfg LogConfig, log zerolog.Logger) (*Log, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create usage log directory: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	l := &Log{
		cfg: cfg, dir: dir, boot: ident.New(ident.Boot), lock: lock, keepAll: true,
		log:      log.With().Str("component", "meter").Logger(),
		writeAt:  func(f *os.File, b []byte, off int64) (int, error) { return f.WriteAt(b, off) },
		syncFile: fdatasync,
		dirty:    make(chan struct{}, 1),
		moved:    make(chan struct{}, 1),
	}
	if err := l.open(); err != nil {
		return nil, errors.Join(err, l.release())
	}
	return l, nil
}

func (l *Log) open() error {
	var err error
	if l.ack, err = openAck(filepath.Join(l.dir, "ack")); err != nil {
		return err
	}
	next, err := l.load()
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if next > 1 { // not the first boot of this directory
		next = (next + 2*seqStride - 1) / seqStride * seqStride
	}
	l.last = next - 1
	l.blamed = l.last
	l.lost.Store(l.report.MissingRecords)
	if err := l.roll(); err != nil {
		return err
	}
	l.durable.Store(l.last)
	return nil
}

// Boot returns the id of this incarnation of the log, new at every Open.
func (l *Log) Boot() string { return l.boot }

// Report returns what Open found.
func (l *Log) Report() OpenReport { return l.report }

// Last returns the number of the newest record, or the number before the first
// one this boot will write.
func (l *Log) Last() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// Durable returns the newest number that a completed sync covers. Only records
// up to it are shipped: otherwise a power cut could leave the node with an open
// attempt that the ledger has settled.
func (l *Log) Durable() uint64 { return l.durable.Load() }

// Append writes one record and returns its number. When it returns nil error,
// the record is in the kernel. t and payload are copied.
//
// Append fails with ErrFull, ErrNoSpace, ErrUnsynced, ErrTooLarge or ErrClosed;
// the log then holds what it held before.
func (l *Log) Append(t Type, payload []byte) (uint64, error) {
	p, err := l.append(t, payload, place{}, appendOpts{})
	return p.seq, err
}

// AppendSync is Append followed by waiting until the record is on disk. Callers
// that wait at the same time share one sync. When the sync fails, the number is
// returned with the error: the record is in the log but may not survive a power
// cut.
func (l *Log) AppendSync(t Type, payload []byte) (uint64, error) {
	seq, err := l.Append(t, payload)
	if err != nil {
		return 0, err
	}
	return seq, l.syncTo(seq)
}

// place is where a record stands.
type place struct {
	seq uint64
	seg *segment
}

// appendOpts are what an attempt asks of append.
type appendOpts struct {
	// pin keeps the record's segment until its place is the prev of a later
	// append.
	pin bool
	// underWay marks an INTENT whose attempt was admitted earlier, so that it
	// is not refused as a new one.
	underWay bool
}

// append writes one record. Once it is written, prev loses its pin.
func (l *Log) append(t Type, payload []byte, prev place, opts appendOpts) (place, error) {
	if len(payload) > MaxPayload {
		return place{}, fmt.Errorf("append %v of %d bytes, at most %d fit: %w", t, len(payload), MaxPayload, ErrTooLarge)
	}
	if !t.valid() {
		return place{}, fmt.Errorf("append record of unknown type %v", t)
	}
	n := int64(recordHeader + len(payload))

	l.mu.Lock()
	defer l.mu.Unlock()
	fresh := t == TypeIntent && !opts.underWay
	if err := l.admit(fresh, n); err != nil {
		return place{}, fmt.Errorf("append %v: %w", t, err)
	}
	seg := l.segments[len(l.segments)-1]
	if seg.size+n > l.cfg.SegmentBytes && seg.last >= seg.first {
		switch err := l.roll(); {
		case err == nil:
			seg = l.segments[len(l.segments)-1]
		case fresh || !errors.Is(err, ErrNoSpace):
			return place{}, fmt.Errorf("append %v: %w", t, err)
		}
	}
	seq := l.last + 1
	l.buf = appendRecord(l.buf[:0], seg.salt, seq, t, payload)
	if err := l.write(seg, l.buf); err != nil {
		return place{}, fmt.Errorf("append %v: %w", t, err)
	}
	seg.size += n
	seg.last = seq
	l.total += n
	l.last = seq
	switch t {
	case TypeSettle:
		l.settles.Add(1)
	case TypeIntent:
		l.setNoSpace(false)
	}
	if opts.pin {
		seg.pins++
	}
	if prev.seg != nil {
		prev.seg.pins--
	}
	if !seg.unsynced {
		seg.unsynced = true
		l.wakeSync()
	}
	l.watchFill()
	return place{seq: seq, seg: seg}, nil
}

// behind reports whether a newer segment than seg is being written.
func (l *Log) behind(seg *segment) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return seg != l.segments[len(l.segments)-1]
}

// admit decides whether a record of n bytes may be written; fresh says that it
// begins an attempt. The caller holds mu.
func (l *Log) admit(fresh bool, n int64) error {
	if l.closed {
		return ErrClosed
	}
	if fresh {
		if l.refusing || float64(l.total+n) > l.cfg.RefuseAt*float64(l.cfg.MaxBytes) {
			l.setRefusing(true)
			return ErrFull
		}
		if l.syncErr != nil {
			return fmt.Errorf("%w: %w", ErrUnsynced, l.syncErr)
		}
	}
	if l.total+n > l.cfg.MaxBytes {
		return ErrFull
	}
	return nil
}

// write puts rec at the end of seg, or leaves seg as it was. The caller holds mu.
func (l *Log) write(seg *segment, rec []byte) error {
	if l.failed {
		// An earlier write left part of a record behind. A shorter one now
		// would leave a damaged tail after it.
		if err := seg.file.Truncate(seg.size); err != nil {
			return fmt.Errorf("remove unfinished record: %w", spaceError(err))
		}
		l.failed = false
	}
	n, err := l.writeAt(seg.file, rec, seg.size)
	if err == nil {
		return nil
	}
	if n > 0 {
		l.failed = seg.file.Truncate(seg.size) != nil
	}
	err = spaceError(err)
	if errors.Is(err, ErrNoSpace) {
		l.setNoSpace(true)
	}
	return err
}

// roll starts a new segment. The caller holds mu.
func (l *Log) roll() (err error) {
	first := l.last + 1
	salt := rand.Uint64()
	seg := &segment{
		path: filepath.Join(l.dir, segmentName(first)), boot: l.boot, first: first,
		salt: saltSum(salt), last: first - 1, size: segmentHeader, unsynced: true,
	}
	defer func() {
		err = spaceError(err)
		if errors.Is(err, ErrNoSpace) {
			l.setNoSpace(true)
		}
	}()
	seg.file, err = os.OpenFile(seg.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("create usage log segment: %w", err)
	}
	err = allocate(seg.file, l.cfg.SegmentBytes+l.cfg.slack())
	if err == nil {
		_, err = l.writeAt(seg.file, encodeHeader(first, salt, l.boot, time.Now()), 0)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("begin usage log segment: %w", err), seg.file.Close(), os.Remove(seg.path))
	}
	if n := len(l.segments); n > 0 && l.segments[n-1].file != nil {
		prev := l.segments[n-1]
		// Gives back what was allocated beyond the records. If that fails, it
		// costs space alone: readers stop at the segment's size.
		if err := prev.file.Truncate(prev.size); err != nil {
			l.log.Warn().Err(err).Str("file", prev.path).Msg("trim usage log segment")
		}
	}
	l.failed = false
	l.segments = append(l.segments, seg)
	l.total += seg.size
	l.dirtyDir = true
	l.wakeSync()
	return nil
}

// Close syncs what was appended and gives the directory up. Later calls do
// nothing.
func (l *Log) Close() error {
	var err error
	l.closeOnce.Do(func() {
		err = l.Sync()
		l.readMu.Lock()
		defer l.readMu.Unlock()
		l.syncMu.Lock()
		defer l.syncMu.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.closed = true
		if seg := l.segments[len(l.segments)-1]; seg.file != nil {
			err = errors.Join(err, seg.file.Truncate(seg.size))
		}
		err = errors.Join(err, l.ack.sync(), l.release())
	})
	return err
}

// release closes every file. The directory's lock goes last.
func (l *Log) release() error {
	var errs []error
	for _, s := range l.segments {
		if s.file != nil {
			errs = append(errs, s.file.Close())
			s.file = nil
		}
	}
	errs = append(errs, l.read.close())
	if l.ack != nil {
		errs = append(errs, l.ack.close())
	}
	errs = append(errs, unlockDir(l.lock))
	return errors.Join(errs...)
}

// Run syncs appended records to disk in groups until ctx ends, then once more.
// A failed sync is logged, refuses INTENTs and is tried again. Run returns nil.
func (l *Log) Run(ctx context.Context) error {
	timer := time.NewTimer(l.cfg.SyncInterval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			_ = l.Sync() // logged there
			return nil
		case <-l.dirty:
		}
		timer.Reset(l.cfg.SyncInterval)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		if l.Sync() != nil {
			l.wakeSync()
		}
	}
}
