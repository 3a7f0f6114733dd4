package snapshot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// writeFile replaces a small file so that after a crash there is the old content
// or the new one, never a part. Only the owner can read it.
func writeFile(path string, content []byte) error {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, filepath.Base(path)+"-*.tmp") // mode 0600
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	_, err = tmp.Write(content)
	if err == nil {
		err = tmp.Sync()
	}
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(tmp.Name()))
	}
	return syncDir(dir)
}

// readFile reads a small file; a larger one is an error.
func readFile(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read
	return readBounded(f, path, most)
}

func readBounded(f *os.File, path string, most int64) ([]byte, error) {
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file", path)
	case info.Size() > most:
		return nil, fmt.Errorf("%s has %d bytes, at most %d", path, info.Size(), most)
	}
	b := make([]byte, most+1)
	n := 0
	for n < len(b) {
		m, err := f.Read(b[n:])
		n += m
		if err != nil {
			break // the end, or what is short is found by the reader of the content
		}
	}
	if int64(n) > most {
		return nil, fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return b[:n], nil
}

// syncDir makes renames in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open %s: %w", dir, err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}
