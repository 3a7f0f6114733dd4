package meter

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// cursor remembers where the last read ended, so that reading on does not
// search. Guarded by Log.readMu.
type cursor struct {
	scanner scanner
	seg     *segment
	file    *os.File
}

func (c *cursor) close() error {
	if c.file == nil {
		return nil
	}
	err := c.file.Close()
	c.file, c.seg = nil, nil
	return err
}

// seek points the cursor at record seq of seg, of which the first limit bytes
// may be read.
func (c *cursor) seek(seg *segment, limit int64, seq uint64) error {
	if c.seg == seg && c.scanner.next <= seq {
		// What was read of the file before it grew is still in the window.
		c.scanner.limit = limit
		return nil
	}
	if err := c.close(); err != nil {
		return err
	}
	f, err := os.Open(seg.path)
	if err != nil {
		return err
	}
	c.file, c.seg = f, seg
	c.scanner.reset(f, seg, limit, segmentHeader, seg.first)
	return nil
}

// ReadFrom returns records numbered seq and above, in order: at most maxRecords
// and about maxBytes of payload, but at least one record if there is one. All
// come from one boot; the next call may continue with another. It returns none
// when seq is above the newest record. Damage met on the way is stepped over
// and logged.
func (l *Log) ReadFrom(seq uint64, maxRecords, maxBytes int) ([]Record, error) {
	l.readMu.Lock()
	defer l.readMu.Unlock()
	var (
		out   []Record
		arena []byte
	)
	for len(out) < maxRecords && len(arena) < maxBytes {
		seg, limit, last, err := l.segmentWith(seq)
		if err != nil {
			return nil, err
		}
		if seg == nil || len(out) > 0 && out[0].Boot != seg.boot {
			return out, nil
		}
		if err := l.read.seek(seg, limit, seq); err != nil {
			return nil, fmt.Errorf("read usage log: %w", err)
		}
		for len(out) < maxRecords && len(arena) < maxBytes {
			rec, h, err := l.read.scanner.scan()
			if err != nil && !errors.Is(err, io.EOF) {
				return nil, fmt.Errorf("read usage log segment %s: %w", seg.path, err)
			}
			upTo := last
			if err == nil {
				upTo = rec.Seq
			}
			if h.bytes > 0 && upTo > l.blamed {
				l.blamed = upTo
				l.lost.Add(max(h.missing, 1))
				l.log.Error().Str("file", seg.path).Int64("offset", h.off).Int64("damaged_bytes", h.bytes).
					Uint64("missing_records", h.missing).Msg("usage log is damaged")
			}
			if err != nil {
				// Whatever of this segment could not be read is behind us now.
				l.read.scanner.next = max(l.read.scanner.next, last+1)
				seq = max(seq, last+1)
				break
			}
			if rec.Seq < seq {
				continue
			}
			seq = rec.Seq + 1
			at := len(arena)
			arena = append(arena, rec.Payload...)
			rec.Payload = arena[at:len(arena):len(arena)]
			rec.Boot = seg.boot
			out = append(out, rec)
		}
	}
	return out, nil
}

// segmentWith returns the segment that holds the first record numbered seq or
// above, how many of its bytes may be read, and the number of the last record
// in them. It returns nil if there is none.
func (l *Log) segmentWith(seq uint64) (seg *segment, limit int64, last uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, 0, 0, ErrClosed
	}
	for _, s := range l.segments {
		if s.last >= seq && s.last >= s.first {
			return s, s.size, s.last, nil
		}
	}
	return nil, 0, 0, nil
}
