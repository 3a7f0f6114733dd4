package meter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	segmentMagic   = "AIDYWAL1"
	headerCopy     = 128            // one copy of the segment header, in bytes
	segmentHeader  = 2 * headerCopy // where the first record of a segment starts
	maxBootID      = 63
	segmentSuffix  = ".wal"
	damagedSuffix  = ".wal.damaged"
	segmentNameLen = 20 // digits of the largest uint64
)

// segment is one file of the log. Fields below the blank line are guarded by
// Log.mu; the others never change.
type segment struct {
	path  string
	boot  string
	first uint64 // number its first record has, or would have
	salt  uint32 // checksum state after the salt

	last     uint64 // number of its last record, first-1 when it has none
	size     int64  // bytes holding the header and whole records
	pins     int    // open attempts whose latest record stands here
	file     *os.File
	unsynced bool
}

// segmentName returns the file name of the segment that starts with first.
func segmentName(first uint64) string {
	return fmt.Sprintf("%0*d%s", segmentNameLen, first, segmentSuffix)
}

// encodeHeader returns both copies of a segment header.
func encodeHeader(first, salt uint64, boot string, created time.Time) []byte {
	b := make([]byte, segmentHeader)
	copy(b, segmentMagic)
	binary.LittleEndian.PutUint64(b[8:], first)
	binary.LittleEndian.PutUint64(b[16:], salt)
	binary.LittleEndian.PutUint64(b[24:], uint64(created.UnixNano()))
	b[32] = byte(len(boot))
	copy(b[33:33+maxBootID], boot)
	binary.LittleEndian.PutUint32(b[headerCopy-4:], crc32.Checksum(b[:headerCopy-4], castagnoli))
	copy(b[headerCopy:], b[:headerCopy])
	return b
}

// decodeHeader reads one copy of a segment header and reports whether it is sound.
func decodeHeader(b []byte) (first uint64, salt uint32, boot string, ok bool) {
	if len(b) < headerCopy || string(b[:8]) != segmentMagic ||
		binary.LittleEndian.Uint32(b[headerCopy-4:]) != crc32.Checksum(b[:headerCopy-4], castagnoli) {
		return 0, 0, "", false
	}
	n := int(b[32])
	if n > maxBootID {
		return 0, 0, "", false
	}
	return binary.LittleEndian.Uint64(b[8:]), saltSum(binary.LittleEndian.Uint64(b[16:])), string(b[33 : 33+n]), true
}

// readHeader reads the header of f from the first sound copy. damaged counts
// the bytes of unsound copies.
func readHeader(f io.ReaderAt) (s segment, damaged int64, err error) {
	b := make([]byte, segmentHeader)
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return segment{}, 0, err
	}
	if n < segmentHeader { // shorter than a header, so it holds no record
		return segment{}, int64(n), errNoHeader
	}
	for i := range 2 {
		first, salt, boot, ok := decodeHeader(b[i*headerCopy:])
		switch {
		case !ok:
			damaged += headerCopy
		case s.boot == "":
			s = segment{first: first, salt: salt, boot: boot, last: first - 1}
		}
	}
	if s.boot == "" || s.first == 0 {
		return segment{}, damaged, errNoHeader
	}
	return s, damaged, nil
}

var errNoHeader = errors.New("no readable segment header")

// segmentFile is a segment's file as its name describes it.
type segmentFile struct {
	path  string
	first uint64
	aside bool // set aside at an earlier open
}

// listSegments returns the segment files of dir in order of their first number.
func listSegments(dir string) ([]segmentFile, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []segmentFile
	for _, e := range entries {
		name, aside := strings.CutSuffix(e.Name(), damagedSuffix)
		if !aside {
			var ok bool
			if name, ok = strings.CutSuffix(e.Name(), segmentSuffix); !ok {
				continue
			}
		}
		first, err := strconv.ParseUint(name, 10, 64)
		if len(name) != segmentNameLen || err != nil || !e.Type().IsRegular() {
			continue
		}
		files = append(files, segmentFile{path: filepath.Join(dir, e.Name()), first: first, aside: aside})
	}
	slices.SortFunc(files, func(a, b segmentFile) int {
		switch {
		case a.first < b.first:
			return -1
		case a.first > b.first:
			return 1
		default:
			return strings.Compare(a.path, b.path)
		}
	})
	return files, nil
}
