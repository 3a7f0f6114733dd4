package meter

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Type says what a record of the log means.
type Type uint8

// The record types. Values are part of the file format and never change.
const (
	// TypeIntent is written before the first byte of an attempt goes upstream.
	TypeIntent Type = 1
	// TypeProgress holds the usage counted so far by an open attempt.
	TypeProgress Type = 2
	// TypeSettle ends an attempt. It is complete in itself: a SETTLE alone
	// makes the ledger row.
	TypeSettle Type = 3
)

// String returns the name the type has in logs.
func (t Type) String() string {
	switch t {
	case TypeIntent:
		return "INTENT"
	case TypeProgress:
		return "PROGRESS"
	case TypeSettle:
		return "SETTLE"
	default:
		return fmt.Sprintf("TYPE(%d)", uint8(t))
	}
}

func (t Type) valid() bool { return t >= TypeIntent && t <= TypeSettle }

// MaxPayload is the largest payload of one record, in bytes.
const MaxPayload = 64 << 10

// recordHeader is the length of a record without its payload, in bytes.
const recordHeader = 4 + 4 + 8 + 1

// Record is one record of a log.
type Record struct {
	// Seq is the record's number. Numbers of a directory only grow and are
	// never used twice.
	Seq uint64
	// Boot is the id of the process incarnation that wrote the record.
	Boot string
	// Type says what Payload is.
	Type Type
	// Payload is what was appended.
	Payload []byte
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// saltSum returns the checksum state after a segment's salt, from which every
// record checksum of that segment continues.
func saltSum(salt uint64) uint32 {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], salt)
	return crc32.Update(0, castagnoli, b[:])
}

// appendRecord appends the encoded record to dst.
func appendRecord(dst []byte, salt uint32, seq uint64, t Type, payload []byte) []byte {
	at := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(payload)))
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint64(dst, seq)
	dst = append(dst, byte(t))
	dst = append(dst, payload...)
	rec := dst[at:]
	binary.LittleEndian.PutUint32(rec[4:], recordSum(salt, rec))
	return dst
}

// recordSum returns the checksum a whole encoded record must carry. Bytes 4 to
// 8, the checksum itself, are left out.
func recordSum(salt uint32, rec []byte) uint32 {
	return crc32.Update(crc32.Update(salt, castagnoli, rec[:4]), castagnoli, rec[8:])
}

// parseRecord reads the record at the start of b. It returns the record's
// length in bytes, or 0 when no sound record starts there. Sequence numbers
// outside [minSeq, maxSeq] are unsound; that check comes before the checksum
// because it is what makes a search through damaged bytes cheap.
func parseRecord(b []byte, salt uint32, minSeq, maxSeq uint64) (rec Record, n int) {
	if len(b) < recordHeader {
		return Record{}, 0
	}
	size := binary.LittleEndian.Uint32(b)
	if size > MaxPayload || int(size) > len(b)-recordHeader {
		return Record{}, 0
	}
	seq := binary.LittleEndian.Uint64(b[8:])
	if seq < minSeq || seq > maxSeq || !Type(b[16]).valid() {
		return Record{}, 0
	}
	n = recordHeader + int(size)
	if binary.LittleEndian.Uint32(b[4:]) != recordSum(salt, b[:n]) {
		return Record{}, 0
	}
	return Record{Seq: seq, Type: Type(b[16]), Payload: b[recordHeader:n]}, n
}
