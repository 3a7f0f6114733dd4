package meter

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// fdatasync writes the file's data, and the size needed to read it back, to disk.
func fdatasync(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

// allocate reserves size bytes of disk for f without changing its length. A
// file system that cannot do so is no error.
func allocate(f *os.File, size int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, size)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return nil
		default:
			return os.NewSyscallError("fallocate", err)
		}
	}
}
