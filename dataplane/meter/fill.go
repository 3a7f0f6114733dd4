package meter

import "fmt"

// pageAt is the fill at which somebody has to be woken: what is left lasts for
// tens of minutes rather than hours.
const pageAt = 0.85

// rearm is how far the fill must fall below a mark before the mark is reported
// again.
const rearm = 0.05

// Size returns the bytes that all segments hold.
func (l *Log) Size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

// Fill returns Size over LogConfig.MaxBytes, in [0, 1].
func (l *Log) Fill() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fill()
}

func (l *Log) fill() float64 { return float64(l.total) / float64(l.cfg.MaxBytes) }

// Refusing returns why the log refuses INTENTs at present: an error that is
// ErrFull, ErrNoSpace, ErrUnsynced or ErrClosed and says what to do, or nil.
func (l *Log) Refusing() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return ErrClosed
	case l.refusing:
		return fmt.Errorf("%w: %d of %d bytes hold usage that the control plane has not acknowledged; "+
			"restore the connection to the control plane or raise the bound", ErrFull, l.total, l.cfg.MaxBytes)
	case l.noSpace:
		return fmt.Errorf("%w: free space on the file system of %s", ErrNoSpace, l.dir)
	case l.syncErr != nil:
		return fmt.Errorf("%w: check the disk of %s: %w", ErrUnsynced, l.dir, l.syncErr)
	default:
		return nil
	}
}

// watchFill reports the marks the fill has passed since the last call, and lets
// INTENTs in again once there is room. The caller holds mu.
func (l *Log) watchFill() {
	fill := l.fill()
	switch {
	case !l.alerted && fill >= l.cfg.AlertAt:
		l.alerted = true
		l.log.Warn().Int64("wal_bytes", l.total).Int64("max_bytes", l.cfg.MaxBytes).
			Msg("usage log has passed its alert mark, usage is not being acknowledged fast enough")
	case l.alerted && fill < l.cfg.AlertAt-rearm:
		l.alerted = false
	}
	switch {
	case !l.paged && fill >= pageAt:
		l.paged = true
		l.log.Error().Int64("wal_bytes", l.total).Int64("max_bytes", l.cfg.MaxBytes).
			Msg("usage log is nearly full, calls will be refused when it is")
	case l.paged && fill < pageAt-rearm:
		l.paged = false
	}
	if l.refusing && fill < l.cfg.RefuseAt {
		l.setRefusing(false)
	}
}

func (l *Log) setRefusing(on bool) {
	if l.refusing == on {
		return
	}
	l.refusing = on
	if on {
		l.log.Error().Int64("wal_bytes", l.total).Int64("max_bytes", l.cfg.MaxBytes).Msg("usage log is full, new calls are refused")
		return
	}
	l.log.Info().Int64("wal_bytes", l.total).Int64("max_bytes", l.cfg.MaxBytes).Msg("usage log has room again")
}

func (l *Log) setNoSpace(on bool) {
	if l.noSpace == on {
		return
	}
	l.noSpace = on
	if on {
		l.log.Error().Str("dir", l.dir).Msg("no space left for the usage log, new calls are refused")
		return
	}
	l.log.Info().Str("dir", l.dir).Msg("usage log has space again")
}
