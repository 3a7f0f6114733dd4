package inbound

import (
	"net/http"
	"time"
)

// writer ends the connection of a client that takes nothing of its answer. An answer
// may take as long as it likes, so there is no deadline for all of it; but a client
// that never reads would hold its call, and the place at the provider that the call
// occupies, for as long as it keeps the connection open.
type writer struct {
	http.ResponseWriter
	idle  time.Duration
	until time.Time // the deadline that is set
}

// pieceSize is how much is written under one deadline, so that a client on a slow line
// gets the time for a large event that it needs.
const pieceSize = 64 << 10

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write implements http.ResponseWriter.
func (w *writer) Write(p []byte) (int, error) {
	written := 0
	for {
		piece := p[written:min(written+pieceSize, len(p))]
		w.extend()
		n, err := w.ResponseWriter.Write(piece)
		written += n
		if err != nil || written == len(p) {
			return written, err
		}
	}
}

// FlushError is for http.ResponseController.
func (w *writer) FlushError() error {
	w.extend()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// extend puts the deadline off. The last one stays, for what the server itself writes
// at the end of the answer; the next call on the connection sets its own.
func (w *writer) extend() {
	now := time.Now()
	if w.until.Sub(now) > w.idle-w.idle/16 {
		return
	}
	w.until = now.Add(w.idle)
	// A server that cannot set deadlines is a test's; the bound then is the test's own.
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(w.until)
}
