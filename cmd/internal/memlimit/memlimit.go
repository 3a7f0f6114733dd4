// Package memlimit sets the memory limit of the Go runtime from the container's, so
// that the garbage collector works harder before the kernel kills the process.
package memlimit

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// Percent is the share of the container's memory that the runtime may use. The rest
// is for what it does not count: stacks of C, page tables, files mapped by the kernel.
const Percent = 90

// Set applies the limit of the container to the runtime and returns it in bytes, 0 if
// there is none. GOMEMLIMIT in the environment wins. environ is os.Getenv.
func Set(environ func(string) string) int64 {
	if environ("GOMEMLIMIT") != "" {
		return 0 // the runtime has read it
	}
	limit, ok := Container(os.DirFS("/"))
	if !ok {
		return 0
	}
	limit = limit / 100 * Percent
	debug.SetMemoryLimit(limit)
	return limit
}

// Container returns the memory limit of the control group of this process, in bytes.
// root is the root of the file system. The limit of a group holds for those below it,
// so the least on the way up counts. It knows version 2 of control groups and the
// memory controller of version 1; see cgroups(7).
func Container(root fs.FS) (int64, bool) {
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0, false
	}
	least, found := int64(math.MaxInt64), false
	take := func(name string) {
		if n, err := read(root, name); err == nil && n < least {
			least, found = n, true
		}
	}
	for line := range strings.Lines(string(groups)) {
		// hierarchy:controllers:path; version 2 has hierarchy 0 and no controllers.
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		var base, file string
		switch {
		case parts[0] == "0" && parts[1] == "":
			base, file = "sys/fs/cgroup", "memory.max"
		case contains(parts[1], "memory"):
			base, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		// In a container the path may be the host's, which does not exist here: then
		// the mount itself is the group.
		for at := path.Clean("/" + parts[2]); ; at = path.Dir(at) {
			take(path.Join(base, at, file))
			if at == "/" {
				break
			}
		}
	}
	return least, found
}

func contains(list, item string) bool {
	for c := range strings.SplitSeq(list, ",") {
		if c == item {
			return true
		}
	}
	return false
}

var errNone = errors.New("no limit")

// noLimit is what version 1 writes where there is none: the largest multiple of a
// page, or nearly so.
const noLimit = math.MaxInt64 - 1<<20

func read(root fs.FS, name string) (int64, error) {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64) // "max" is no number
	if err != nil || n <= 0 || n >= noLimit {
		return 0, errNone
	}
	return n, nil
}
