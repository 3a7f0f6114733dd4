package meter

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
)

// Recovery is what Recover found.
type Recovery struct {
	// Unknown counts attempts of earlier boots that had no SETTLE and got one.
	Unknown int
	// Unreadable counts records whose payload this release cannot decode.
	Unreadable int
}

// attemptKey names an attempt across records.
type attemptKey struct {
	request string
	attempt int32
}

// unsettled is an attempt that an earlier boot left open.
type unsettled struct {
	key      attemptKey
	intent   []byte
	progress []byte
}

// Recover settles as unknown every attempt that an earlier boot left open, with
// the usage of its last PROGRESS, and then lets shipped segments be deleted. It
// runs before the first Begin and may be repeated: an attempt it has settled is
// not open any more, whenever the process ends.
func (m *Meter) Recover(ctx context.Context) (Recovery, error) {
	open, r, err := m.unsettled(ctx)
	if err != nil {
		return r, fmt.Errorf("recover usage log: %w", err)
	}
	for _, seq := range slices.Sorted(maps.Keys(open)) {
		ok, err := m.settleUnknown(seq, open[seq])
		if err != nil {
			return r, fmt.Errorf("recover usage log: %w", err)
		}
		if !ok {
			r.Unreadable++
			continue
		}
		r.Unknown++
	}
	if r.Unreadable > 0 {
		m.logger.Error().Int("records", r.Unreadable).Msg("usage log holds records that this release cannot decode")
	}
	if r.Unknown > 0 {
		m.logger.Warn().Int("attempts", r.Unknown).Msg("attempts left open by an earlier run are settled as unknown")
	}
	if err := m.log.Sync(); err != nil {
		return r, fmt.Errorf("recover usage log: %w", err)
	}
	if err := m.log.Recovered(); err != nil {
		return r, fmt.Errorf("recover usage log: %w", err)
	}
	return r, nil
}

// unsettled returns the open attempts of earlier boots by the number of their
// newest INTENT.
func (m *Meter) unsettled(ctx context.Context) (map[uint64]*unsettled, Recovery, error) {
	var (
		r     Recovery
		open  = map[uint64]*unsettled{}
		byKey = map[attemptKey]uint64{}
	)
	end := func(seq uint64) {
		if u := open[seq]; u != nil {
			delete(byKey, u.key)
			delete(open, seq)
		}
	}
	for from := uint64(0); ; {
		if err := ctx.Err(); err != nil {
			return nil, r, err
		}
		records, err := m.log.ReadFrom(from, 4096, 1<<20)
		if err != nil {
			return nil, r, err
		}
		if len(records) == 0 || records[0].Boot == m.log.boot {
			return open, r, nil
		}
		from = records[len(records)-1].Seq + 1
		for _, rec := range records {
			p, ok := peek(rec)
			if !ok {
				r.Unreadable++
				continue
			}
			switch rec.Type {
			case TypeIntent:
				u := &unsettled{key: p.key, intent: slices.Clone(rec.Payload)}
				if before, again := byKey[p.key]; again { // written anew in a later segment
					u.progress = open[before].progress
					delete(open, before)
				}
				open[rec.Seq], byKey[p.key] = u, rec.Seq
			case TypeProgress:
				if u := open[p.intentSeq]; u != nil {
					u.progress = slices.Clone(rec.Payload)
				}
			case TypeSettle:
				end(p.intentSeq)
				if seq, ok := byKey[p.key]; ok && p.key.request != "" {
					end(seq)
				}
			}
		}
	}
}

// settleUnknown writes the SETTLE of an attempt found open. It reports false if
// the INTENT cannot be decoded.
func (m *Meter) settleUnknown(seq uint64, u *unsettled) (bool, error) {
	var (
		intent   ledgerv1.Intent
		progress ledgerv1.Progress
	)
	if proto.Unmarshal(u.intent, &intent) != nil || intent.GetEvent() == nil {
		return false, nil
	}
	s := Settlement{Outcome: ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_UNKNOWN, At: time.Now()}
	if len(u.progress) > 0 && proto.Unmarshal(u.progress, &progress) == nil {
		s.ModelServed, s.Count.Counted = progress.GetModelServed(), progress.GetUnits()
	}
	e := intent.GetEvent()
	conclude(e, s)
	b, err := proto.Marshal(&ledgerv1.Settle{IntentSeq: seq, Event: e})
	if err != nil {
		return false, fmt.Errorf("encode settlement: %w", err)
	}
	if _, err := m.log.Append(TypeSettle, b); err != nil {
		return false, err
	}
	m.metrics.settle(s.Outcome)
	return true, nil
}

// peeked is what recovery needs of a record.
type peeked struct {
	intentSeq uint64
	key       attemptKey
}

// peek reads the few fields recovery needs without decoding the message: a full
// log holds millions of records and nearly all of them are settled.
func peek(rec Record) (p peeked, ok bool) {
	event := protowire.Number(2) // of Settle
	if rec.Type == TypeIntent {
		event = 1
	}
	ok = eachField(rec.Payload, func(num protowire.Number, varint uint64, bytes []byte) bool {
		switch {
		case num == event && rec.Type != TypeProgress:
			return eachField(bytes, func(num protowire.Number, varint uint64, bytes []byte) bool {
				switch num {
				case 2:
					p.key.request = string(bytes)
				case 3:
					p.key.attempt = int32(varint)
				}
				return true
			})
		case num == 1:
			p.intentSeq = varint
		}
		return true
	})
	return p, ok && (rec.Type != TypeIntent || p.key.request != "") && (rec.Type == TypeIntent || p.intentSeq != 0)
}

// eachField calls f for the fields of an encoded message and reports whether it
// was sound and f always agreed.
func eachField(b []byte, f func(num protowire.Number, varint uint64, bytes []byte) bool) bool {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return false
		}
		b = b[n:]
		var (
			varint uint64
			bytes  []byte
		)
		switch typ {
		case protowire.VarintType:
			varint, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			bytes, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 || !f(num, varint, bytes) {
			return false
		}
		b = b[n:]
	}
	return true
}
