package requestlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"

	"google.golang.org/protobuf/proto"

	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
)

const (
	segmentBytes = 8 << 20
	maxRow       = 64 << 10 // bytes of one row
	headerBytes  = 8        // length and checksum of a row
)

// spool is a queue of rows in files of one folder, bounded by dropping the oldest file.
// Rows that were sent may come again after a restart; the receiver knows them by their
// ids. It belongs to one goroutine.
type spool struct {
	dir  string
	most int64

	segments []segment // the oldest first; the last one is written to
	size     int64     // of all segments
	file     *os.File  // of the last segment; nil before the first row
	number   uint64

	at, sent int64 // of the oldest segment: sent up to at, and with the batch under way up to sent
	batch    int64 // rows of the batch under way
}

type segment struct {
	path string
	size int64
	rows int64 // that are not sent; an estimate for those of an earlier run
}

func openSpool(dir string, most int64) (*spool, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the request log: %w", err)
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*.rows"))
	if err != nil {
		return nil, fmt.Errorf("look for the request log: %w", err)
	}
	slices.Sort(paths)
	s := &spool{dir: dir, most: most}
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return nil, fmt.Errorf("look for the request log: %w", err)
		}
		var n uint64
		if _, err := fmt.Sscanf(filepath.Base(p), "%d.rows", &n); err == nil {
			s.number = max(s.number, n)
		}
		s.segments = append(s.segments, segment{path: p, size: info.Size(), rows: info.Size() / 1024})
		s.size += info.Size()
	}
	return s, nil
}

// append writes rows, and returns how many are lost: those that could not be written, and
// old ones that had to go for them.
func (s *spool) append(rows []*ledgerv1.RequestRecord) (lost int64, err error) {
	var buf []byte
	written := int64(0)
	flush := func() error {
		if len(buf) == 0 {
			return nil
		}
		dropped, err := s.write(buf, written)
		lost += dropped
		buf, written = buf[:0], 0
		return err
	}
	for i, r := range rows {
		from := len(buf)
		buf = append(buf, make([]byte, headerBytes)...)
		buf, err = proto.MarshalOptions{}.MarshalAppend(buf, r)
		if n := len(buf) - from - headerBytes; err != nil || n > maxRow {
			buf = buf[:from]
			lost++
			continue
		}
		body := buf[from+headerBytes:]
		binary.BigEndian.PutUint32(buf[from:], uint32(len(body)))
		binary.BigEndian.PutUint32(buf[from+4:], crc32.ChecksumIEEE(body))
		if written++; len(buf) >= segmentBytes/4 {
			if err := flush(); err != nil {
				return lost + int64(len(rows)-i-1), err
			}
		}
	}
	return lost, flush()
}

// write appends whole rows to the newest segment.
func (s *spool) write(b []byte, rows int64) (lost int64, err error) {
	if s.file == nil || s.segments[len(s.segments)-1].size+int64(len(b)) > segmentBytes {
		if err := s.begin(); err != nil {
			return rows, err
		}
	}
	for s.size+int64(len(b)) > s.most && len(s.segments) > 1 {
		lost += s.segments[0].rows
		if err := s.removeOldest(); err != nil {
			return lost + rows, err
		}
	}
	last := &s.segments[len(s.segments)-1]
	n, err := s.file.Write(b)
	last.size += int64(n)
	s.size += int64(n)
	if err != nil {
		// What is torn would hide what follows: the next row begins a new segment.
		err = errors.Join(fmt.Errorf("write the request log: %w", err), s.file.Close())
		s.file = nil
		return lost + rows, err
	}
	last.rows += rows
	return lost, nil
}

func (s *spool) begin() error {
	if err := s.close(); err != nil {
		return err
	}
	s.number++
	path := filepath.Join(s.dir, fmt.Sprintf("%020d.rows", s.number))
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("begin a file of the request log: %w", err)
	}
	s.file = f
	s.segments = append(s.segments, segment{path: path})
	return nil
}

func (s *spool) removeOldest() error {
	old := s.segments[0]
	if len(s.segments) == 1 {
		if err := s.close(); err != nil {
			return err
		}
	}
	s.segments = s.segments[1:]
	s.size -= old.size
	s.at, s.sent = 0, 0
	if err := os.Remove(old.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove a file of the request log: %w", err)
	}
	return nil
}

// next reads the rows that are to be sent next, and how many of them are damaged. Done
// says that they were sent.
func (s *spool) next(most, bytes int) (rows []*ledgerv1.RequestRecord, bad int64, err error) {
	for len(s.segments) > 0 {
		oldest := s.segments[0]
		if s.at >= oldest.size {
			if len(s.segments) == 1 && s.file != nil && oldest.size < segmentBytes/2 {
				return nil, bad, nil
			}
			if err := s.removeOldest(); err != nil {
				return nil, bad, err
			}
			continue
		}
		rows, torn, err := s.read(oldest, most, bytes)
		if err != nil {
			return nil, bad, err
		}
		if torn {
			bad++
		}
		if len(rows) > 0 {
			return rows, bad, nil
		}
		s.at = oldest.size
	}
	return nil, bad, nil
}

// read reads rows of a segment from s.at on. torn says that what follows them cannot be
// read: it is skipped.
func (s *spool) read(from segment, most, bytes int) (rows []*ledgerv1.RequestRecord, torn bool, err error) {
	f, err := os.Open(from.path)
	if err != nil {
		return nil, false, fmt.Errorf("read the request log: %w", err)
	}
	defer f.Close()
	in := io.NewSectionReader(f, s.at, from.size-s.at)
	at, used := s.at, 0
	var head [headerBytes]byte
	for len(rows) < most && used < bytes {
		if _, err := io.ReadFull(in, head[:]); err != nil {
			torn = !errors.Is(err, io.EOF)
			break
		}
		n := binary.BigEndian.Uint32(head[:])
		if n > maxRow {
			torn = true
			break
		}
		body := make([]byte, n)
		if _, err := io.ReadFull(in, body); err != nil || crc32.ChecksumIEEE(body) != binary.BigEndian.Uint32(head[4:]) {
			torn = true
			break
		}
		r := new(ledgerv1.RequestRecord)
		if proto.Unmarshal(body, r) != nil {
			torn = true
			break
		}
		rows = append(rows, r)
		at += headerBytes + int64(n)
		used += int(n)
	}
	s.sent, s.batch = at, int64(len(rows))
	if torn {
		s.sent = from.size
	}
	return rows, torn, nil
}

// done says that the rows of next were sent.
func (s *spool) done() error {
	if len(s.segments) == 0 || s.sent <= s.at {
		return nil
	}
	s.at = s.sent
	s.segments[0].rows = max(0, s.segments[0].rows-s.batch)
	return nil
}

func (s *spool) close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	if err != nil {
		return fmt.Errorf("close the request log: %w", err)
	}
	return nil
}
