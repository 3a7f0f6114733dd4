package snapshot

import (
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// readClock reads the clocks that go on while the process is down.
func readClock() clockReading {
	r := clockReading{Wall: time.Now().UnixMilli()}
	id, err := readFile("/proc/sys/kernel/random/boot_id", 64)
	if err != nil {
		return r
	}
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return r
	}
	r.Boot, r.UpMS = strings.TrimSpace(string(id)), ts.Nano()/int64(time.Millisecond)
	return r
}
