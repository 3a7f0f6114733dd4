// Package ledger is the money side of the control plane: it takes the usage
// that nodes ship, rates it with the published price versions, and keeps it in
// rows that are never changed.
//
// # Exactly once
//
// A row is identified by (ledger_day, request_id, attempt, kind, seq), and the
// day is derived from the request id, so that a replay always meets its first
// copy. A batch, its rows, its sums, its journal and the watermark of its node
// are one transaction; nothing is acknowledged before that is on disk. The same
// batch twice, in halves or out of order leaves the same sums.
//
// # Money
//
// Amounts are whole nano units (shared/money), rounded once a row. A side for
// which no published price is found is written as unpriced, counted and logged:
// its amount is 0 because none is known, and the row says so. An event that
// cannot be stored as a row goes to usage_quarantine with the reason and its
// bytes, so that it neither holds up its batch nor is lost.
//
// # Unknown outcomes
//
// An attempt that was sent and never answered is one hold row. It states the
// units at stake and moves no money. After [Config].HoldFor, any replica writes
// hold_release and settlement in its place: the upstream cost as estimated, the
// customer by policy (nothing by default). If the true settlement still
// arrives, the difference is booked as an adjustment that points at the
// estimated one.
package ledger
