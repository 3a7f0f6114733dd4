package meter

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// DamageKind says what was wrong with a part of the log.
type DamageKind string

// The kinds of damage Open finds.
const (
	// DamageTail is an unfinished or unreadable end of a segment. It was cut.
	DamageTail DamageKind = "tail"
	// DamageHole is a stretch inside a segment that holds no sound record. It
	// is stepped over.
	DamageHole DamageKind = "hole"
	// DamageHeader is a segment header of which a copy could not be read. If
	// neither could, the file was set aside with the suffix ".damaged".
	DamageHeader DamageKind = "header"
	// DamageGap means that a segment which must have existed is not there.
	DamageGap DamageKind = "gap"
	// DamageAck means that the shipped position could not be read; what is in
	// the log is shipped again, which changes nothing in the ledger.
	DamageAck DamageKind = "ack"
)

// Damage is one thing Open could not read.
type Damage struct {
	Kind DamageKind
	// File is the path of the file; for a gap, of the segment after it.
	File string
	// Offset and Bytes say where in the file.
	Offset, Bytes int64
	// After is the number of the last sound record before the damage, 0 if none.
	After uint64
	// Missing counts the records lost, 0 where it cannot be known.
	Missing uint64
}

// maxDamage bounds the list of an OpenReport.
const maxDamage = 1024

// OpenReport is what Open found in a log directory.
type OpenReport struct {
	// Segments and Records count what earlier boots left behind.
	Segments int
	Records  uint64
	// Unshipped counts the SETTLEs among Records that were not acknowledged.
	Unshipped uint64
	// Acked is the shipped position.
	Acked uint64
	// Damage lists what could not be read, the first 1024 finds. DamageFinds
	// counts all, DamagedBytes and MissingRecords add them up.
	Damage         []Damage
	DamageFinds    int
	DamagedBytes   int64
	MissingRecords uint64
}

func (l *Log) found(d Damage) {
	r := &l.report
	r.DamageFinds++
	r.DamagedBytes += d.Bytes
	r.MissingRecords += d.Missing
	if len(r.Damage) < maxDamage {
		r.Damage = append(r.Damage, d)
	}
	l.log.Error().Str("kind", string(d.Kind)).Str("file", d.File).Int64("offset", d.Offset).Int64("damaged_bytes", d.Bytes).
		Uint64("after_seq", d.After).Uint64("missing_records", d.Missing).Msg("usage log is damaged")
}

// load reads what earlier boots left and returns the lowest number that was
// certainly not given out.
func (l *Log) load() (next uint64, err error) {
	if l.ack.damaged {
		l.found(Damage{Kind: DamageAck, File: l.ack.file.Name(), Bytes: l.ack.size})
	}
	l.report.Acked = l.ack.seq
	next = l.ack.seq + 1
	files, err := listSegments(l.dir)
	if err != nil {
		return 0, fmt.Errorf("list usage log segments: %w", err)
	}
	if len(files) > 0 {
		next = max(next, 2)
	}
	for _, f := range files {
		info, err := os.Stat(f.path)
		if err != nil {
			return 0, fmt.Errorf("read usage log segment: %w", err)
		}
		if f.first > 1<<62 { // not a number this package gives out
			continue
		}
		next = max(next, f.first+uint64(info.Size())/recordHeader)
		if f.aside {
			continue
		}
		seg, err := l.loadSegment(f, info.Size())
		if err != nil {
			return 0, fmt.Errorf("read usage log segment %s: %w", f.path, err)
		}
		if seg == nil {
			continue
		}
		l.findGap(seg)
		l.segments = append(l.segments, seg)
		l.total += seg.size
		l.report.Segments++
	}
	return next, nil
}

// loadSegment reads one segment and cuts its tail. It returns nil if the file
// holds no segment.
func (l *Log) loadSegment(sf segmentFile, size int64) (_ *segment, err error) {
	if size == 0 { // created, and the process ended before the header was written
		return nil, os.Remove(sf.path)
	}
	f, err := os.OpenFile(sf.path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()

	seg, damaged, err := readHeader(f)
	if errors.Is(err, errNoHeader) || err == nil && seg.first != sf.first {
		l.found(Damage{Kind: DamageHeader, File: sf.path, Bytes: size, After: l.lastLoaded()})
		return nil, os.Rename(sf.path, strings.TrimSuffix(sf.path, segmentSuffix)+damagedSuffix)
	}
	if err != nil {
		return nil, err
	}
	if damaged > 0 {
		l.found(Damage{Kind: DamageHeader, File: sf.path, Bytes: damaged, After: l.lastLoaded()})
	}
	seg.path = sf.path
	sc := &l.read.scanner
	sc.reset(f, &seg, size, segmentHeader, seg.first)
	for {
		rec, h, err := sc.scan()
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if h.bytes > 0 {
			kind := DamageHole
			if err != nil {
				kind = DamageTail
			}
			l.found(Damage{Kind: kind, File: seg.path, Offset: h.off, Bytes: h.bytes, After: seg.last, Missing: h.missing})
		}
		if err != nil {
			seg.size = max(h.off, segmentHeader)
			break
		}
		seg.last = rec.Seq
		l.report.Records++
		if rec.Type == TypeSettle && rec.Seq > l.ack.seq {
			l.report.Unshipped++
			l.settles.Add(1)
		}
	}
	if seg.size < size {
		if err := f.Truncate(seg.size); err != nil {
			return nil, fmt.Errorf("cut damaged tail: %w", err)
		}
		if err := f.Sync(); err != nil {
			return nil, fmt.Errorf("cut damaged tail: %w", err)
		}
	}
	return &seg, nil
}

func (l *Log) lastLoaded() uint64 {
	if n := len(l.segments); n > 0 {
		return l.segments[n-1].last
	}
	return 0
}

// findGap reports records missing between the segments read so far and seg.
// Segments are only ever deleted from the front and up to the shipped position.
func (l *Log) findGap(seg *segment) {
	// Every boot but the first begins at a multiple of seqStride, so the boot
	// of seg wrote every number from here on, if not more.
	from := max(l.ack.seq, max(seg.first/seqStride*seqStride, 1)-1)
	if n := len(l.segments); n > 0 && l.segments[n-1].boot == seg.boot {
		from = l.segments[n-1].last
	} else if n > 0 {
		from = max(from, l.segments[n-1].last)
	}
	if seg.first > from+1 {
		l.found(Damage{Kind: DamageGap, File: seg.path, After: l.lastLoaded(), Missing: seg.first - from - 1})
	}
}
