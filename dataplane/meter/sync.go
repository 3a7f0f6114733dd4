package meter

import (
	"errors"
	"fmt"
	"os"
)

// wakeSync tells Run that something waits for a sync.
func (l *Log) wakeSync() {
	select {
	case l.dirty <- struct{}{}:
	default:
	}
}

// syncTo returns when a completed sync covers seq. Whoever gets syncMu first
// syncs for all who wait behind it; they find their number covered.
func (l *Log) syncTo(seq uint64) error {
	if l.durable.Load() >= seq {
		return nil
	}
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	if l.durable.Load() >= seq {
		return nil
	}
	return l.sync()
}

// Sync writes everything appended so far to disk. It returns nil at once when
// an earlier sync covers it, and ErrUnsynced with the cause when the disk
// refuses.
func (l *Log) Sync() error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	return l.sync()
}

// sync does the work of Sync. The caller holds syncMu, which also keeps the
// files open meanwhile.
//
// The kernel reports a failed write-back once and then forgets it, so a sync
// that works after one that did not proves nothing about the older records.
// They are still in the page cache and are shipped from there; what a power cut
// takes before that is found missing at the next Open.
func (l *Log) sync() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return ErrClosed
	}
	target := l.last
	dir := l.dirtyDir
	l.dirtyDir = false
	var todo []*segment
	for _, s := range l.segments {
		if s.unsynced {
			s.unsynced = false
			todo = append(todo, s)
		}
	}
	l.mu.Unlock()
	if len(todo) == 0 && !dir {
		return nil // whoever appends marks the segment, so target is covered
	}

	var errs []error
	for _, s := range todo {
		errs = append(errs, l.syncFile(s.file))
	}
	if dir {
		errs = append(errs, syncDir(l.dir))
	}
	err := errors.Join(errs...)

	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		for _, s := range todo {
			s.unsynced = true
		}
		l.dirtyDir = l.dirtyDir || dir
		if l.syncErr == nil {
			l.log.Error().Err(err).Uint64("durable_seq", l.durable.Load()).Uint64("last_seq", target).
				Msg("usage log cannot be synced to disk, new calls are refused")
		}
		l.syncErr = err
		return fmt.Errorf("%w: %w", ErrUnsynced, err)
	}
	if l.syncErr != nil {
		l.log.Warn().Uint64("durable_seq", l.durable.Load()).Uint64("last_seq", target).
			Msg("usage log can be synced again, records between the two numbers are safe only once shipped")
		l.syncErr = nil
	}
	if target > l.durable.Load() {
		l.durable.Store(target)
		select {
		case l.moved <- struct{}{}:
		default:
		}
	}
	// Only the newest segment is written to; the others are read by path.
	for _, s := range l.segments[:len(l.segments)-1] {
		if s.file != nil && !s.unsynced {
			if err := s.file.Close(); err != nil {
				l.log.Warn().Err(err).Str("file", s.path).Msg("close usage log segment")
			}
			s.file = nil
		}
	}
	return nil
}

// syncDir makes the entries of a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
