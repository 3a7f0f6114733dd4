package snapshot

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

const (
	// trialTime is how long a generation must serve before a death of the process
	// is no longer put down to it.
	trialTime = 30 * time.Second
	// maxDeaths is the number of deaths on trial after which a generation is not
	// loaded again.
	maxDeaths = 2
	// keptFiles is how many base states stay: the current one, and the one before
	// for the case that the current one is damaged.
	keptFiles = 2
)

// journal is the last good configuration of one domain on disk: a file with a base
// state and every update since. One goroutine uses it.
type journal struct {
	dir       string
	domain    domain
	version   string // of this node
	compactAt int64
	log       zerolog.Logger

	f        *os.File
	seq      uint64
	size     int64
	baseSize int64
	// broken says that the file lacks an update, so that only a new base helps.
	broken bool

	trial      trial
	young      []swapped // within trialTime, oldest first
	quarantine quarantine
	damaged    []uint64 // files that a new base replaces
}

type swapped struct {
	pos Position
	at  time.Time
}

func newJournal(dir string, d domain, version string, compactAt int64, log zerolog.Logger) *journal {
	return &journal{dir: dir, domain: d, version: version, compactAt: compactAt, log: log.With().Stringer("domain", d).Logger()}
}

// open loads the newest state that is whole and may be loaded, and readies the file
// for appending. A process that died while something was on trial is counted here,
// before anything is decoded. It fails only if the directory cannot be used at all;
// what is damaged is logged and passed over.
func (j *journal) open(now time.Time) (*image, error) {
	seqs, err := j.files()
	if err != nil {
		return nil, err
	}
	img, newest := j.read(seqs, Position{})
	if img == nil {
		img = &image{state: emptyState()}
	}
	if img.quarantine.version == j.version {
		j.quarantine = img.quarantine
	}
	if len(seqs) > 0 {
		j.seq = seqs[0]
	}
	rewrite := !newest
	if t := img.trial; t.active() {
		t.deaths++
		if t.deaths < maxDeaths {
			j.trial, img.trial = t, t
			j.young = []swapped{{t.first, now}, {t.last, now}}
		} else {
			j.log.Error().Uint64("generation", t.last.Generation).Uint32("deaths", t.deaths).
				Msg("generation quarantined: the node died while it was on trial")
			j.quarantine = quarantine{pos: t.last, version: j.version}
			if img, _ = j.read(seqs, t.first); img == nil {
				img = &image{state: emptyState()}
			}
			img.trial, rewrite = trial{}, true
		}
	}
	img.quarantine = j.quarantine
	if rewrite {
		return img, j.rebase(img.state)
	}
	return img, j.reopen(img)
}

// read returns the newest readable image before a position and whether it is the
// newest file's; nil if there is none.
func (j *journal) read(seqs []uint64, before Position) (img *image, newest bool) {
	for i, seq := range seqs {
		img, err := replayFile(j.path(seq), j.domain, before)
		if err == nil {
			return img, i == 0
		}
		j.log.Error().Err(err).Msg("configuration on disk is not usable, trying an older one")
		if errors.Is(err, errNoBase) && !slices.Contains(j.damaged, seq) {
			j.damaged = append(j.damaged, seq)
		}
	}
	return nil, len(seqs) == 0
}

// reopen appends to the newest file after its good part.
func (j *journal) reopen(img *image) error {
	if j.seq == 0 {
		return j.rebase(img.state)
	}
	f, err := os.OpenFile(j.path(j.seq), os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("open configuration journal: %w", err)
	}
	j.f, j.size, j.baseSize = f, img.end, 0
	if img.torn {
		if err := f.Truncate(img.end); err != nil {
			return j.fault(fmt.Errorf("cut torn tail: %w", err))
		}
	}
	if img.trial.active() {
		return j.append(func(w *bufio.Writer) error { return emit(w, appendTrial(nil, img.trial)) })
	}
	return nil
}

// record appends an update. With trial its target is put on trial: two deaths of
// the process within trialTime keep it from being loaded again. When record returns
// nil, the update is on disk.
func (j *journal) record(s *state, changes []shardUpdate, now time.Time) error {
	j.try(s.pos, now)
	if j.broken || j.f == nil {
		return j.rebase(s)
	}
	err := j.append(func(w *bufio.Writer) error {
		var b []byte
		if !j.quarantine.pos.IsZero() {
			b = appendQuarantine(b[:0], j.quarantine)
			if err := emit(w, b); err != nil {
				return err
			}
		}
		if err := emit(w, appendTrial(b[:0], j.trial)); err != nil {
			return err
		}
		for _, u := range changes {
			b = appendShard(b[:0], u)
			if err := emit(w, b); err != nil {
				return err
			}
		}
		return emit(w, appendCommit(b[:0], s, j.version))
	})
	if err != nil {
		return err
	}
	// A base that is itself on trial would leave nothing to fall back to but the
	// file before.
	if grown := j.size - j.baseSize; grown > j.compactAt && (!j.trial.active() || grown > 4*j.compactAt) {
		if err := j.rebase(s); err != nil {
			// The update is on disk, and the next one tries to compact again.
			j.broken = false
			j.log.Warn().Err(err).Msg("compaction of the configuration journal put off")
		}
	}
	return nil
}

// try puts a position on trial, with those that came shortly before.
func (j *journal) try(p Position, now time.Time) {
	j.young = slices.DeleteFunc(j.young, func(s swapped) bool { return now.Sub(s.at) >= trialTime })
	j.young = append(j.young, swapped{p, now})
	j.trial = trial{deaths: j.trial.deaths, first: j.young[0].pos, last: p}
	if len(j.young) == 1 {
		j.trial.deaths = 0
	}
	// A newer generation stands where the quarantined one stood.
	if j.quarantine.pos.older(p) || j.quarantine.pos.Epoch != p.Epoch {
		j.quarantine = quarantine{}
	}
}

// trialEnds returns when the last position on trial may be trusted; zero if none is.
func (j *journal) trialEnds() time.Time {
	if !j.trial.active() || len(j.young) == 0 {
		return time.Time{}
	}
	return j.young[len(j.young)-1].at.Add(trialTime)
}

// trust ends the trial.
func (j *journal) trust() error {
	if !j.trial.active() {
		return nil
	}
	j.trial, j.young = trial{}, nil
	if j.f == nil || j.broken {
		return nil
	}
	return j.append(func(w *bufio.Writer) error { return emit(w, appendTrial(nil, trial{})) })
}

func emit(w *bufio.Writer, frame []byte) error {
	_, err := w.Write(frame)
	return err
}

// append writes frames and syncs. After a failure the file is cut back to where it
// was, and counts as broken if that fails too or the frames may be needed later.
func (j *journal) append(write func(*bufio.Writer) error) error {
	counted := &countingWriter{f: j.f, at: j.size}
	w := bufio.NewWriterSize(counted, 1<<20)
	err := write(w)
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = j.f.Sync()
	}
	if err != nil {
		return j.fault(errors.Join(fmt.Errorf("append to configuration journal: %w", err), j.f.Truncate(j.size)))
	}
	j.size = counted.at
	return nil
}

func (j *journal) fault(err error) error {
	j.broken = true
	return err
}

type countingWriter struct {
	f  *os.File
	at int64
}

func (w *countingWriter) Write(b []byte) (int, error) {
	n, err := w.f.WriteAt(b, w.at)
	w.at += int64(n)
	return n, err
}

// rebase writes s as a new base state, beside which the current file stays as the
// older one.
func (j *journal) rebase(s *state) error {
	seq := j.seq + 1
	size, err := j.writeBase(j.path(seq), s)
	if err != nil {
		return j.fault(err)
	}
	f, err := os.OpenFile(j.path(seq), os.O_RDWR, 0o600)
	if err != nil {
		return j.fault(fmt.Errorf("open configuration journal: %w", err))
	}
	j.close()
	j.f, j.seq, j.size, j.baseSize, j.broken = f, seq, size, size, false
	j.prune()
	return nil
}

func (j *journal) writeBase(path string, s *state) (int64, error) {
	tmp, err := os.CreateTemp(j.dir, j.domain.String()+"-*.tmp")
	if err != nil {
		return 0, fmt.Errorf("create base state: %w", err)
	}
	counted := &countingWriter{f: tmp}
	w := bufio.NewWriterSize(counted, 1<<20)
	err = j.baseFrames(w, s)
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = tmp.Sync()
	}
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return 0, errors.Join(fmt.Errorf("write base state: %w", err), os.Remove(tmp.Name()))
	}
	return counted.at, syncDir(j.dir)
}

func (j *journal) baseFrames(w *bufio.Writer, s *state) error {
	b := appendHeader(nil, j.domain, !s.pos.IsZero())
	if !j.quarantine.pos.IsZero() {
		b = appendQuarantine(b, j.quarantine)
	}
	if j.trial.active() {
		b = appendTrial(b, j.trial)
	}
	if err := emit(w, b); err != nil || s.pos.IsZero() {
		return err
	}
	for e := range s.received.All() {
		b = appendShard(b[:0], shardUpdate{key: e.Key, payload: e.Payload})
		if err := emit(w, b); err != nil {
			return err
		}
	}
	for key, p := range s.pins {
		b = appendHeld(b[:0], key, p)
		if err := emit(w, b); err != nil {
			return err
		}
	}
	return emit(w, appendCommit(b[:0], s, j.version))
}

// prune removes files that are no longer one of the newest, and what an
// interrupted rebase left. A file that stays behind does no harm. Damaged files go
// first, so that the older of the two that stay is a good one.
func (j *journal) prune() {
	for _, seq := range j.damaged {
		_ = os.Remove(j.path(seq))
	}
	j.damaged = nil
	seqs, err := j.files()
	if err != nil {
		return
	}
	for _, seq := range seqs[min(keptFiles, len(seqs)):] {
		if err := os.Remove(j.path(seq)); err != nil {
			j.log.Warn().Err(err).Msg("old base state stays on disk")
		}
	}
	left, _ := filepath.Glob(filepath.Join(j.dir, j.domain.String()+"-*.tmp"))
	for _, tmp := range left {
		_ = os.Remove(tmp)
	}
}

func (j *journal) path(seq uint64) string {
	return filepath.Join(j.dir, fmt.Sprintf("%s-%016x.conf", j.domain, seq))
}

// files returns the sequence numbers of the files on disk, newest first.
func (j *journal) files() ([]uint64, error) {
	entries, err := os.ReadDir(j.dir)
	if err != nil {
		return nil, fmt.Errorf("list configuration on disk: %w", err)
	}
	var seqs []uint64
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), j.domain.String()+"-")
		if !ok {
			continue
		}
		if rest, ok = strings.CutSuffix(rest, ".conf"); !ok {
			continue
		}
		if seq, err := strconv.ParseUint(rest, 16, 64); err == nil && len(rest) == 16 {
			seqs = append(seqs, seq)
		}
	}
	slices.Sort(seqs)
	slices.Reverse(seqs)
	return seqs, nil
}

func (j *journal) close() {
	if j.f != nil {
		_ = j.f.Close() // everything that counts was synced
		j.f = nil
	}
}

// differences lists what takes one set to another.
func differences(from, to *shard.Set) []shardUpdate {
	hashes := from.Hashes()
	var out []shardUpdate
	for _, i := range to.Differing(&hashes) {
		for _, e := range to.Bucket(i) {
			if old, ok := from.Get(e.Key); !ok || old.Hash != e.Hash {
				out = append(out, shardUpdate{key: e.Key, hash: e.Hash, payload: e.Payload})
			}
		}
		for _, e := range from.Bucket(i) {
			if _, ok := to.Get(e.Key); !ok {
				out = append(out, shardUpdate{key: e.Key, gone: true})
			}
		}
	}
	return out
}
