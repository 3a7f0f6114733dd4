package meter

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFailedSyncRefusesNewAttemptsOnly(t *testing.T) {
	t.Parallel()
	l := mustOpen(t, t.TempDir(), LogConfig{})
	l.syncFile = func(*os.File) error { return unix.EIO }
	seq, err := l.AppendSync(TypeSettle, []byte("a"))
	if seq != 1 || !errors.Is(err, ErrUnsynced) || !errors.Is(err, unix.EIO) {
		t.Fatalf("AppendSync returned %d, %v; want record 1 and ErrUnsynced with its cause", seq, err)
	}
	if _, err := l.Append(TypeIntent, nil); !errors.Is(err, ErrUnsynced) {
		t.Errorf("INTENT: %v, want ErrUnsynced", err)
	}
	if err := l.Refusing(); !errors.Is(err, ErrUnsynced) {
		t.Errorf("Refusing: %v, want ErrUnsynced", err)
	}
	mustAppend(t, l, TypeSettle, "b")
	if got := l.Durable(); got != 0 {
		t.Errorf("durable is %d after a failed sync, want 0", got)
	}
	l.syncFile = fdatasync
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	if got := l.Durable(); got != 2 {
		t.Errorf("durable is %d after a sync that worked, want 2", got)
	}
	mustAppend(t, l, TypeIntent, "c")
}
