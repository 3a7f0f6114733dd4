package controlplane

import (
	"io"
	"net/http"
	"time"
)

// requestTime is how long a caller of the admin API may take to send its request, of
// which the largest is a bundle. Nobody is authenticated before it came.
const requestTime = time.Minute

// within bounds the time in which a request's body must have come. It says nothing of
// the answer: streams go on. A server's own ReadTimeout would end them, too.
func within(d time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			rc := http.NewResponseController(w)
			if rc.SetReadDeadline(time.Now().Add(d)) == nil {
				r.Body = &timedBody{ReadCloser: r.Body, rc: rc}
			}
		}
		next.ServeHTTP(w, r)
	})
}

// timedBody lifts the deadline at the end of the body: what is read of the connection
// afterwards tells whether the caller is still there.
type timedBody struct {
	io.ReadCloser
	rc *http.ResponseController
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		_ = b.rc.SetReadDeadline(time.Time{}) // it could be set, so it can be lifted
	}
	return n, err
}
