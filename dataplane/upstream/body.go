package upstream

import (
	"io"
	"sync"
)

// body reads parts one after the other. The transport may close it after the call
// has returned; only then may the parts be reused.
type body struct {
	length int64

	mu    sync.Mutex
	parts [][]byte // what is left; guarded by mu
	done  func()   // called once; guarded by mu
}

func newBody(parts [][]byte, done func()) *body {
	b := &body{parts: parts, done: done}
	for _, p := range parts {
		b.length += int64(len(p))
	}
	return b
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for n < len(p) && len(b.parts) > 0 {
		m := copy(p[n:], b.parts[0])
		n += m
		if m == len(b.parts[0]) {
			b.parts = b.parts[1:]
		} else {
			b.parts[0] = b.parts[0][m:]
		}
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Close implements io.Closer. After it no Read touches the parts.
func (b *body) Close() error {
	b.mu.Lock()
	f := b.done
	b.parts, b.done = nil, nil
	b.mu.Unlock()
	done(f)
	return nil
}

func done(f func()) {
	if f != nil {
		f()
	}
}
