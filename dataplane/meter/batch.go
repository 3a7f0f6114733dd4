package meter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/proto"

	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
)

// batch is a range of the log on its way to the ledger.
type batch struct {
	req     *ledgerv1.IngestUsageRequest
	settles []settleRef
	oldest  int64 // Unix nanoseconds of the first event's end, 0 if there is no event
	bytes   int
}

// settleRef is one SETTLE of a batch.
type settleRef struct {
	seq   uint64
	event bool // false for an attempt that was not sent
}

// next returns the next range of the log, or nil if nothing waits. The caller
// has the turn.
func (s *Shipper) next() (*batch, error) {
	settles := s.log.settles.Load() // before durable: these are all appended by then
	durable, last := s.log.Durable(), s.log.Last()
	from := s.log.Acked() + 1
	b := &batch{req: &ledgerv1.IngestUsageRequest{NodeId: s.node}}
	var (
		settled  bool
		examined = s.cfg.BatchEvents * maxScan
	)
	for examined > 0 && from <= durable && len(b.req.Events) < s.limit && b.bytes < s.cfg.BatchBytes {
		records, err := s.log.ReadFrom(from, s.limit-len(b.req.Events), s.cfg.BatchBytes-b.bytes)
		if err != nil {
			return nil, fmt.Errorf("ship usage: %w", err)
		}
		if len(records) == 0 { // the rest cannot be read
			from = durable + 1
			break
		}
		if b.req.BootId == "" {
			b.req.BootId = records[0].Boot
			b.req.FirstSeq = s.firstSeq(records[0])
		} else if b.req.BootId != records[0].Boot {
			break
		}
		examined -= len(records)
		for _, rec := range records {
			if rec.Seq > durable {
				from = durable + 1
				break
			}
			from = rec.Seq + 1
			b.req.LastSeq = rec.Seq
			if rec.Type != TypeSettle {
				continue
			}
			settled = true
			if err := s.add(b, rec); err != nil {
				return nil, err
			}
		}
	}
	if settled {
		return b, nil
	}
	if b.req.LastSeq != 0 && b.req.LastSeq != durable {
		return b, nil // a stretch without settlements, worth passing
	}
	if durable == last && from > durable {
		// All is read. SETTLEs that damage has taken wait no longer.
		s.shipped.Store(settles)
	}
	return nil, nil
}

// maxScan is how many records a batch looks at for each event it may hold.
const maxScan = 64

// firstSeq returns where a batch that starts with rec begins to speak for the
// log. Every boot but the first starts at a multiple of seqStride.
func (s *Shipper) firstSeq(rec Record) uint64 {
	if s.boot == rec.Boot && s.base != 0 {
		return s.base
	}
	return min(max(s.log.Acked()+1, rec.Seq/seqStride*seqStride, 1), rec.Seq)
}

// add puts the event of a SETTLE into b.
func (s *Shipper) add(b *batch, rec Record) error {
	var settle ledgerv1.Settle
	if err := proto.Unmarshal(rec.Payload, &settle); err != nil {
		s.logger.Error().Err(err).Uint64("seq", rec.Seq).Msg("settlement cannot be decoded, set aside")
		b.settles = append(b.settles, settleRef{seq: rec.Seq})
		return s.keep(rec.Seq, rec.Payload)
	}
	e := settle.GetEvent()
	b.settles = append(b.settles, settleRef{seq: rec.Seq, event: e != nil})
	if e == nil {
		return nil
	}
	e.LogSeq = rec.Seq
	if at := e.GetOccurredAt(); len(b.req.Events) == 0 && at != nil {
		b.oldest = at.AsTime().UnixNano()
	}
	b.req.Events = append(b.req.Events, e)
	b.bytes += len(rec.Payload)
	return nil
}

// setAside keeps the one event of b in a file, because the ledger will not
// have it. An operator decides what becomes of it.
func (s *Shipper) setAside(ctx context.Context, b *batch, cause error) error {
	e := b.req.Events[0]
	payload, err := proto.Marshal(e)
	if err != nil {
		return fmt.Errorf("set aside usage event %d: %w", e.LogSeq, err)
	}
	if err := s.keep(e.LogSeq, payload); err != nil {
		return err
	}
	s.aside++
	s.m.rejected.Add(ctx, 1)
	s.logger.Error().Err(cause).Uint64("seq", e.LogSeq).Str("request_id", e.RequestId).Int32("attempt", e.Attempt).
		Msg("usage event is refused as invalid and set aside")
	return nil
}

// keep stores bytes that could not be shipped beside the log.
func (s *Shipper) keep(seq uint64, b []byte) error {
	path := filepath.Join(s.log.dir, fmt.Sprintf("rejected-%020d.pb", seq))
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("set aside usage event %d: %w", seq, err)
	}
	_, err = f.Write(b)
	if err := errors.Join(err, f.Sync(), f.Close(), syncDir(s.log.dir)); err != nil {
		return fmt.Errorf("set aside usage event %d: %w", seq, spaceError(err))
	}
	return nil
}
