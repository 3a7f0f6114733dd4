package inbound

import (
	"testing"

	"pgregory.net/rapid"
)

func TestBufferHoldsWhatWasAskedForAndLittleMore(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, maxPooled).Draw(t, "n")
		class, size := classOf(n)
		if size < n {
			t.Fatalf("a buffer of %d bytes for %d", size, n)
		}
		if n > minBuffer && size > n+n/4+1 {
			t.Fatalf("a buffer of %d bytes for %d: more than a quarter is wasted", size, n)
		}
		if again, same := classOf(size); again != class || same != size {
			t.Fatalf("class %d of size %d is not its own class: %d of %d", class, size, again, same)
		}
		if class >= len(buffers{}.classes) {
			t.Fatalf("class %d for %d bytes is out of range", class, n)
		}
	})
}

func TestBodyIsReusedOnlyAfterTheLastHold(t *testing.T) {
	t.Parallel()
	pool := new(buffers)
	b := &Body{Bytes: pool.get(100), pool: pool}
	b.refs.Store(1)
	release := b.Hold()
	b.release() // the handler's
	if b.Bytes == nil {
		t.Fatal("the buffer is gone while an attempt holds it")
	}
	release()
	release()
	if b.Bytes != nil {
		t.Fatal("the buffer is kept after the last hold")
	}
}
