package meter

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
)

// written is a log directory with known records and one segment.
type written struct {
	file    []byte
	name    string
	records []Record
	starts  []int // offset of each record in file, and the end
}

func writeLog(t testing.TB, n int) written {
	t.Helper()
	dir := t.TempDir()
	l := mustOpen(t, dir, LogConfig{})
	w := written{}
	for i := range n {
		w.starts = append(w.starts, int(l.Size()))
		// One payload looks like a record, to tempt a search through damage.
		payload := appendRecord(nil, 0, uint64(i+2), TypeSettle, fmt.Appendf(nil, "inner %d", i))
		mustAppend(t, l, TypeSettle, string(payload))
	}
	w.starts = append(w.starts, int(l.Size()))
	w.records = readAll(t, l)
	mustClose(t, l)
	w.name = filepath.Base(segmentFiles(t, dir)[0])
	var err error
	if w.file, err = os.ReadFile(filepath.Join(dir, w.name)); err != nil {
		t.Fatal(err)
	}
	return w
}

// reopen opens a directory that holds only file, and checks that nothing that
// was ever a number is given out again.
func (w written) reopen(t *testing.T, file []byte) ([]Record, OpenReport) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, w.name), file, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := Open(dir, LogConfig{}, zerolog.Nop())
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	defer l.Close()
	got := readAll(t, l)
	if seq, newest := mustAppend(t, l, TypeSettle, "next"), w.records[len(w.records)-1].Seq; seq <= newest && len(file) > 0 {
		t.Errorf("number %d was given out again, the newest was %d", seq, newest)
	}
	return got, l.Report()
}

func TestL3TruncationAtEveryByteLosesOnlyWhatIsCut(t *testing.T) {
	t.Parallel()
	w := writeLog(t, 6)
	for cut := range len(w.file) {
		got, report := w.reopen(t, w.file[:cut])
		whole, atEdge := 0, cut == 0
		for i, s := range w.starts {
			if s <= cut {
				whole = i
			}
			atEdge = atEdge || s == cut
		}
		if diff := cmp.Diff(w.records[:whole], got, cmpEmpty); diff != "" {
			t.Fatalf("cut at %d: records differ (-want +got):\n%s", cut, diff)
		}
		if (report.DamageFinds == 0) != atEdge {
			t.Fatalf("cut at %d, at the edge of a record %v: found %+v", cut, atEdge, report.Damage)
		}
		if !atEdge && cut > segmentHeader {
			if d := report.Damage[0]; d.Kind != DamageTail || d.Offset != int64(w.starts[whole]) || d.Bytes != int64(cut-w.starts[whole]) {
				t.Fatalf("cut at %d: reported %+v, want a tail from %d", cut, d, w.starts[whole])
			}
		}
	}
}

func TestL3FlippedByteLosesOnlyItsRecord(t *testing.T) {
	t.Parallel()
	w := writeLog(t, 6)
	rng := rand.New(rand.NewPCG(1, 2))
	for at := range w.file {
		file := bytes.Clone(w.file)
		file[at] ^= byte(1 + rng.IntN(255))
		got, report := w.reopen(t, file)
		want := w.records
		for i := range w.records {
			if w.starts[i] <= at && at < w.starts[i+1] {
				want = append(append([]Record(nil), w.records[:i]...), w.records[i+1:]...)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("flip at %d: records differ (-want +got):\n%s", at, diff)
		}
		if report.DamageFinds != 1 {
			t.Fatalf("flip at %d: found %+v, want one damage", at, report.Damage)
		}
		if d := report.Damage[0]; d.Kind == DamageHole && d.Missing != 1 {
			t.Fatalf("flip at %d: %+v, want one missing record", at, d)
		}
	}
}

func TestL3UnreadableHeaderSetsTheSegmentAside(t *testing.T) {
	t.Parallel()
	w := writeLog(t, 3)
	file := bytes.Clone(w.file)
	file[0], file[headerCopy] = 0, 0
	got, report := w.reopen(t, file)
	if len(got) != 0 {
		t.Errorf("read %d records without a header", len(got))
	}
	want := []Damage{{Kind: DamageHeader, Bytes: int64(len(file))}}
	for i := range report.Damage {
		report.Damage[i].File = ""
	}
	if diff := cmp.Diff(want, report.Damage); diff != "" {
		t.Errorf("damage differs (-want +got):\n%s", diff)
	}
}

func TestL3MissingRecordsBetweenSegmentsAreCounted(t *testing.T) {
	t.Parallel()
	fill := func(t *testing.T) (dir string, files []string) {
		dir = t.TempDir()
		l := mustOpen(t, dir, small())
		for range 40 {
			mustAppend(t, l, TypeSettle, string(make([]byte, 500)))
		}
		mustClose(t, l)
		return dir, segmentFiles(t, dir)
	}
	firstOf := func(t *testing.T, path string) uint64 {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return binary.LittleEndian.Uint64(b[8:])
	}
	t.Run("end of a closed segment cut off", func(t *testing.T) {
		t.Parallel()
		dir, files := fill(t)
		info, err := os.Stat(files[1])
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(files[1], info.Size()-2*(500+recordHeader)); err != nil {
			t.Fatal(err)
		}
		r := mustOpen(t, dir, small()).Report()
		if r.MissingRecords != 2 || r.Damage[0].Kind != DamageGap || r.Records != 38 {
			t.Errorf("report is %+v, want a gap of 2", r)
		}
	})
	for _, gone := range []int{0, 1} {
		t.Run(fmt.Sprintf("segment %d deleted", gone), func(t *testing.T) {
			t.Parallel()
			dir, files := fill(t)
			missing := firstOf(t, files[gone+1]) - firstOf(t, files[gone])
			if err := os.Remove(files[gone]); err != nil {
				t.Fatal(err)
			}
			r := mustOpen(t, dir, small()).Report()
			if r.MissingRecords != missing || r.DamageFinds != 1 || r.Damage[0].Kind != DamageGap {
				t.Errorf("report is %+v, want a gap of %d", r, missing)
			}
		})
	}
}

func TestDamageAfterOpenIsSteppedOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := mustOpen(t, dir, small())
	var starts []int64
	for i := range 5 {
		starts = append(starts, l.Size())
		mustAppend(t, l, TypeSettle, fmt.Sprint("record ", i))
	}
	f, err := os.OpenFile(segmentFiles(t, dir)[0], os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, at := range []int64{starts[1] + 2, starts[4] + 20} {
		if _, err := f.WriteAt([]byte{0xff}, at); err != nil {
			t.Fatal(err)
		}
	}
	read := func() (seqs []uint64) {
		for _, r := range readAll(t, l) {
			seqs = append(seqs, r.Seq)
		}
		return seqs
	}
	if diff := cmp.Diff([]uint64{1, 3, 4}, read()); diff != "" {
		t.Errorf("numbers differ (-want +got):\n%s", diff)
	}
	mustAppend(t, l, TypeSettle, "after the damaged end")
	recs, err := l.ReadFrom(5, 10, 1000)
	if err != nil || len(recs) != 1 || recs[0].Seq != 6 {
		t.Errorf("reading on returned %v (%v), want record 6", recs, err)
	}
}

func TestAckSurvivesAWriteCutShort(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := mustOpen(t, dir, LogConfig{})
	for i := range 3 {
		mustAppend(t, l, TypeSettle, "x")
		if err := l.Ack(uint64(i + 1)); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, l)
	sound, err := os.ReadFile(filepath.Join(dir, "ack"))
	if err != nil {
		t.Fatal(err)
	}
	for at := range sound {
		if at%ackDistance >= ackSlot {
			continue
		}
		damaged := bytes.Clone(sound)
		damaged[at] ^= 0x40
		if err := os.WriteFile(filepath.Join(dir, "ack"), damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		l := mustOpen(t, dir, LogConfig{})
		if got := l.Acked(); got != 2 && got != 3 {
			t.Fatalf("flip at %d: position is %d, want 2 or 3", at, got)
		}
		mustClose(t, l)
	}
	if err := os.WriteFile(filepath.Join(dir, "ack"), []byte("not a position"), 0o600); err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, dir, LogConfig{})
	if r := l.Report(); l.Acked() != 0 || r.DamageFinds != 1 || r.Damage[0].Kind != DamageAck || r.Unshipped != 3 {
		t.Errorf("position is %d, report %+v; want everything offered again and the damage reported", l.Acked(), r)
	}
}

var cmpEmpty = cmp.Transformer("empty", func(r []Record) []Record {
	if len(r) == 0 {
		return nil
	}
	return r
})

// FuzzOpen feeds Open a segment of arbitrary bytes. It must neither fail nor
// return a record that was not written, and a second Open must agree with the first.
func FuzzOpen(f *testing.F) {
	w := writeLog(f, 3)
	f.Add(w.file, []byte{})
	f.Add(w.file[:len(w.file)-3], []byte{1})
	f.Add(append(bytes.Clone(w.file), make([]byte, 100)...), make([]byte, ackDistance+ackSlot))
	f.Fuzz(func(t *testing.T, file, ack []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, w.name), file, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "ack"), ack, 0o600); err != nil {
			t.Fatal(err)
		}
		var before []Record
		for i := range 2 {
			l, err := Open(dir, LogConfig{}, zerolog.Nop())
			if err != nil {
				t.Fatal(err)
			}
			got := readAll(t, l)
			if uint64(len(got)) != l.Report().Records {
				t.Fatalf("read %d records, the report says %d", len(got), l.Report().Records)
			}
			if i == 1 && !cmp.Equal(before, got, cmpEmpty) {
				t.Fatalf("second Open differs:\n%s", cmp.Diff(before, got))
			}
			before = got
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// FuzzScan reads arbitrary bytes as a segment. Records and holes must cover the
// bytes exactly, and every record must be what the encoder writes.
func FuzzScan(f *testing.F) {
	w := writeLog(f, 3)
	salt := binary.LittleEndian.Uint64(w.file[16:])
	f.Add(w.file[segmentHeader:], salt, uint64(1))
	f.Add(append([]byte{0}, w.file[segmentHeader:]...), salt, uint64(1))
	f.Add(w.file[segmentHeader+1:], salt, uint64(1))
	f.Add(bytes.Repeat([]byte{0}, 3*scanWindow), salt, uint64(7))
	f.Fuzz(func(t *testing.T, body []byte, salt, first uint64) {
		first = first%(1<<62) + 1
		file := append(make([]byte, segmentHeader), body...)
		seg := &segment{first: first, salt: saltSum(salt)}
		var sc scanner
		sc.reset(bytes.NewReader(file), seg, int64(len(file)), segmentHeader, first)
		at, next := int64(segmentHeader), first
		for {
			rec, h, err := sc.scan()
			if h.off != at {
				t.Fatalf("hole starts at %d, want %d", h.off, at)
			}
			at += h.bytes
			if err != nil {
				if !errors.Is(err, io.EOF) || at != int64(len(file)) {
					t.Fatalf("scan ended at %d of %d with %v", at, len(file), err)
				}
				return
			}
			if rec.Seq != next+h.missing {
				t.Fatalf("record %d after %d missing, want %d", rec.Seq, h.missing, next+h.missing)
			}
			next = rec.Seq + 1
			enc := appendRecord(nil, seg.salt, rec.Seq, rec.Type, rec.Payload)
			if !bytes.Equal(enc, file[at:at+int64(len(enc))]) {
				t.Fatalf("record at %d is not what the encoder writes", at)
			}
			at += int64(len(enc))
		}
	})
}
