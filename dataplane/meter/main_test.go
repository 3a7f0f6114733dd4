package meter

import (
	"fmt"
	"os"
	"testing"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(childEnv); role != "" { // see crash_test.go
		if err := playChild(role); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// small is a log configuration whose segments a test can fill.
func small() LogConfig { return LogConfig{SegmentBytes: 4 << 10, MaxBytes: 64 << 10} }

func mustOpen(t testing.TB, dir string, cfg LogConfig) *Log {
	t.Helper()
	l, err := Open(dir, cfg, zerolog.Nop())
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return l
}

func mustClose(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
}

func mustAppend(t testing.TB, l *Log, typ Type, payload string) uint64 {
	t.Helper()
	seq, err := l.Append(typ, []byte(payload))
	if err != nil {
		t.Fatalf("Append: %v", err)
	}
	return seq
}

// readAll returns every record of the log.
func readAll(t testing.TB, l *Log) []Record {
	t.Helper()
	var all []Record
	for from := uint64(0); ; {
		recs, err := l.ReadFrom(from, 7, 4<<10)
		if err != nil {
			t.Fatalf("ReadFrom(%d): %v", from, err)
		}
		if len(recs) == 0 {
			return all
		}
		all = append(all, recs...)
		from = recs[len(recs)-1].Seq + 1
	}
}

// segmentFiles returns the paths of the segments in dir, oldest first.
func segmentFiles(t testing.TB, dir string) []string {
	t.Helper()
	files, err := listSegments(dir)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, f := range files {
		if !f.aside {
			paths = append(paths, f.path)
		}
	}
	return paths
}
