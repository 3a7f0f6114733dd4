package meter

import (
	"errors"
	"io"
)

// scanWindow is how much of a segment a scanner holds. It must exceed the
// largest record.
const scanWindow = 4 * (MaxPayload + recordHeader)

// scanner walks the records of one segment, steps over bytes that hold no
// sound record, and counts them.
type scanner struct {
	src   io.ReaderAt
	limit int64 // bytes of the file to look at
	salt  uint32
	first uint64 // number of the segment's first record

	buf  []byte
	off  int64 // file offset of buf[0]
	pos  int   // next unread byte of buf
	next uint64
}

// reset points the scanner at the record numbered next, which starts at file
// offset off. The buffer is kept.
func (s *scanner) reset(src io.ReaderAt, seg *segment, limit, off int64, next uint64) {
	s.src, s.limit, s.salt, s.first = src, limit, seg.salt, seg.first
	s.buf, s.off, s.pos, s.next = s.buf[:0], off, 0, next
}

// hole is a stretch of a segment that holds no sound record.
type hole struct {
	off, bytes int64
	missing    uint64 // records lost in it; 0 at the end of a segment, where it cannot be known
}

// offset returns where the next record starts or would start.
func (s *scanner) offset() int64 { return s.off + int64(s.pos) }

// scan returns the next sound record and the hole before it, if any. At the end
// of the segment it returns io.EOF, and the hole that ends the segment. The
// payload is valid until the next call.
func (s *scanner) scan() (rec Record, h hole, err error) {
	h.off = s.offset()
	for {
		if err := s.fill(); err != nil {
			return Record{}, hole{}, err
		}
		b := s.buf[s.pos:]
		if len(b) == 0 {
			return Record{}, h, io.EOF
		}
		// Numbers are consecutive inside a segment, so a record at this offset
		// cannot have a number above this one.
		most := s.first + uint64(s.offset()-segmentHeader)/recordHeader
		if h.bytes == 0 {
			most = s.next
		}
		if rec, n := parseRecord(b, s.salt, s.next, most); n > 0 {
			h.missing = rec.Seq - s.next
			s.pos += n
			s.next = rec.Seq + 1
			return rec, h, nil
		}
		s.pos++
		h.bytes++
	}
}

// fill makes the window hold a whole record of any size from pos on, or all
// that is left.
func (s *scanner) fill() error {
	const need = MaxPayload + recordHeader
	have := len(s.buf) - s.pos
	end := s.off + int64(len(s.buf))
	if have >= need || end >= s.limit {
		return nil
	}
	if s.buf == nil {
		s.buf = make([]byte, 0, scanWindow)
	}
	copy(s.buf[:have], s.buf[s.pos:])
	s.off += int64(s.pos)
	s.pos = 0
	want := min(int64(cap(s.buf)-have), s.limit-end)
	n, err := s.src.ReadAt(s.buf[have:have+int(want)], end)
	s.buf = s.buf[:have+n]
	if int64(n) == want {
		return nil
	}
	if errors.Is(err, io.EOF) {
		s.limit = end + int64(n)
		return nil
	}
	return err
}
