// Package meter records what every upstream attempt consumed, so that nothing
// a provider may bill is lost when a process, a connection or a disk fails.
//
// A [Meter] writes an INTENT before the first byte of an attempt goes upstream,
// a PROGRESS every few seconds of a stream, and a SETTLE before the last bytes
// of the answer reach the client. The three go to a [Log], a durable file log
// of the node's own, and a [Shipper] carries the settlements to the control
// plane until each one is acknowledged.
//
// # Files
//
// A log directory belongs to one process at a time and holds
//
//	LOCK                      held with flock(2) while the log is open
//	ack                       position up to which everything was shipped
//	00000000000000000001.wal  segments, named after their first sequence number
//	….wal.damaged             segments whose header could not be read, set aside
//
// A segment starts with two copies of its header and continues with records:
//
//	len u32 | crc32c u32 | seq u64 | type u8 | payload
//
// Integers are little endian; len counts the payload. The checksum (CRC-32C,
// Castagnoli polynomial, RFC 3720 appendix B.4) covers a salt of the segment,
// len, seq, type and payload. The salt is random, so bytes inside a payload can
// never pass for a record, whoever chose them. Sequence numbers inside a
// segment are consecutive, which lets a reader that met damage find the next
// record and say exactly how many it lost.
//
// # What survives
//
// When Append returns, the record is in the kernel: kill -9 of the process at
// any point loses nothing. Power loss loses at most what was appended since the
// last completed sync ([LogConfig].SyncInterval plus the time of one sync);
// AppendSync waits for that sync.
package meter
