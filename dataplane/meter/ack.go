package meter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

// ackFile keeps the shipped position in two slots that are written in turn, so
// that a write cut short leaves the position before it.
//
// A slot is seq u64 | crc32c u32, little endian. Slots lie in different disk
// sectors. All methods need Log.readMu, or the Log not to be shared yet.
type ackFile struct {
	file    *os.File
	seq     uint64
	slot    int
	size    int64
	damaged bool // the file is not empty and no slot could be read
}

const (
	ackSlot     = 12
	ackDistance = 4096
)

func openAck(path string) (*ackFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open shipped position: %w", err)
	}
	a := &ackFile{file: f}
	sound := 0
	for i := range 2 {
		var b [ackSlot]byte
		n, err := f.ReadAt(b[:], int64(i)*ackDistance)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, errors.Join(fmt.Errorf("read shipped position: %w", err), f.Close())
		}
		seq := binary.LittleEndian.Uint64(b[:])
		if n < ackSlot || binary.LittleEndian.Uint32(b[8:]) != crc32.Checksum(b[:8], castagnoli) || seq > 1<<62 {
			continue
		}
		sound++
		if seq >= a.seq {
			a.seq, a.slot = seq, 1-i
		}
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read shipped position: %w", err), f.Close())
	}
	a.size = info.Size()
	a.damaged = sound == 0 && a.size > 0
	return a, nil
}

func (a *ackFile) store(seq uint64) error {
	var b [ackSlot]byte
	binary.LittleEndian.PutUint64(b[:], seq)
	binary.LittleEndian.PutUint32(b[8:], crc32.Checksum(b[:8], castagnoli))
	if _, err := a.file.WriteAt(b[:], int64(a.slot)*ackDistance); err != nil {
		return err
	}
	a.seq, a.slot = seq, 1-a.slot
	return nil
}

func (a *ackFile) sync() error  { return fdatasync(a.file) }
func (a *ackFile) close() error { return a.file.Close() }

// Acked returns the shipped position: everything up to this number is in the
// ledger or did not need to go there.
func (l *Log) Acked() uint64 {
	l.readMu.Lock()
	defer l.readMu.Unlock()
	return l.ack.seq
}

// Ack moves the shipped position to seq and deletes the oldest segments that
// are wholly behind it, as long as no open attempt needs them. A seq at or
// before the position does nothing. The position survives kill -9; a power cut
// may set it back, so that records are offered again.
func (l *Log) Ack(seq uint64) error {
	l.readMu.Lock()
	defer l.readMu.Unlock()
	if last := l.Last(); seq > last {
		return fmt.Errorf("acknowledge record %d: the newest record is %d", seq, last)
	}
	if seq <= l.ack.seq {
		return nil
	}
	if err := l.ack.store(seq); err != nil {
		return fmt.Errorf("store shipped position %d: %w", seq, spaceError(err))
	}
	return l.trim()
}

// Recovered allows the records of earlier boots to be deleted once shipped. It
// is called when every attempt they left open has its SETTLE.
func (l *Log) Recovered() error {
	l.readMu.Lock()
	defer l.readMu.Unlock()
	l.mu.Lock()
	l.keepAll = false
	l.mu.Unlock()
	return l.trim()
}

// trim deletes segments from the front, and only there: the SETTLE of an
// attempt may stand in a later segment than its INTENT, and must not go first.
// The caller holds readMu.
func (l *Log) trim() error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return ErrClosed
	}
	n := 0
	for !l.keepAll && n < len(l.segments)-1 {
		s := l.segments[n]
		if s.unsynced || s.pins > 0 || s.last > l.ack.seq && s.last >= s.first {
			break
		}
		n++
	}
	gone := l.segments[:n:n]
	l.mu.Unlock()
	if n == 0 {
		return nil
	}
	// A segment that is gone while the position is behind it would look lost.
	if err := l.ack.sync(); err != nil {
		return fmt.Errorf("sync shipped position: %w", err)
	}
	var freed int64
	var errs []error
	for _, s := range gone {
		if l.read.seg == s {
			errs = append(errs, l.read.close())
		}
		if s.file != nil {
			errs = append(errs, s.file.Close())
		}
		errs = append(errs, os.Remove(s.path))
		freed += s.size
	}
	l.mu.Lock()
	l.segments = append([]*segment(nil), l.segments[n:]...)
	l.total -= freed
	l.watchFill()
	l.mu.Unlock()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("delete shipped segments: %w", err)
	}
	return nil
}
