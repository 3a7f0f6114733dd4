package localpg

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// sharedHome is where data go that the server's account cannot reach in the
// folder asked for.
const sharedHome = "/var/lib/aidy-dev"

// account is whom the server runs as when we are root.
type account struct {
	name     string
	uid, gid uint32
}

// accountToRunAs returns nil for an ordinary user, who runs the server himself.
func accountToRunAs() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 != nil || err2 != nil || uid == 0 {
			continue
		}
		return &account{name: name, uid: uint32(uid), gid: uint32(gid)}, nil
	}
	return nil, errors.New("PostgreSQL does not run as root and there is no account named postgres or nobody to run it as; " +
		"run as an ordinary user, or set AIDY_DATABASE_URL to a running server")
}

// chooseHome returns the folder the server lives in, made if absent: dir, or a
// folder elsewhere if run cannot enter dir.
func chooseHome(dir string, run *account) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if run == nil {
		return dir, nil
	}
	if err := openOwn(dir); err == nil && run.canEnter(dir) {
		return dir, nil
	}
	sum := sha256.Sum256([]byte(dir))
	name := hex.EncodeToString(sum[:6])
	var refused []error
	for _, home := range []string{filepath.Join(sharedHome, name), filepath.Join(os.TempDir(), "aidy-dev-"+name), "/tmp/aidy-dev-" + name} {
		if err := makeReachable(home, run); err != nil {
			refused = append(refused, err)
			continue
		}
		if err := record(dir, home); err != nil {
			return "", err
		}
		return home, nil
	}
	return "", fmt.Errorf("account %s cannot enter %s, and no other place was found: %w", run.name, dir, errors.Join(refused...))
}

// openOwn lets others pass through a folder that is ours, whatever the umask
// was when it was made. Nothing below it is readable for them.
func openOwn(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o111 == 0o111 {
		return nil
	}
	if owner(info) != uint32(os.Geteuid()) {
		return fmt.Errorf("%s belongs to another account", dir)
	}
	return os.Chmod(dir, info.Mode().Perm()|0o111)
}

func makeReachable(home string, run *account) error {
	if err := os.MkdirAll(home, 0o755); err != nil {
		return err
	}
	info, err := os.Lstat(home)
	if err != nil {
		return err
	}
	// Somebody may have put a folder or a link of that name there first.
	if !info.IsDir() || owner(info) != uint32(os.Geteuid()) {
		return fmt.Errorf("%s is not a folder of ours", home)
	}
	if err := openOwn(home); err != nil {
		return err
	}
	if !run.canEnter(home) {
		return fmt.Errorf("account %s cannot enter %s", run.name, home)
	}
	return nil
}

// record writes where the data went into the folder that was asked for, and
// back.
func record(dir, home string) error {
	if err := os.WriteFile(filepath.Join(dir, "location"), []byte(home+"\n"), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(home, "origin"), []byte(dir+"\n"), 0o644)
}

// canEnter tells by owner and mode whether the account may pass through dir and
// every folder above it.
func (a *account) canEnter(dir string) bool {
	at, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	for ; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return false
		}
		bit := os.FileMode(0o001)
		switch st := info.Sys().(type) {
		case *syscall.Stat_t:
			if st.Uid == a.uid {
				bit = 0o100
			} else if st.Gid == a.gid {
				bit = 0o010
			}
		}
		if info.Mode().Perm()&bit == 0 {
			return false
		}
		if at == filepath.Dir(at) {
			return true
		}
	}
}

// makeOwned makes a folder that the server's account alone may enter.
func makeOwned(dir string, run *account) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	want := uint32(os.Geteuid())
	if run != nil {
		want = run.uid
	}
	if !info.IsDir() || (owner(info) != want && owner(info) != uint32(os.Geteuid())) {
		return fmt.Errorf("%s is not a folder of ours", dir)
	}
	if run != nil && owner(info) != want {
		if err := os.Chown(dir, int(run.uid), int(run.gid)); err != nil {
			return err
		}
	}
	return os.Chmod(dir, 0o700)
}

func owner(info os.FileInfo) uint32 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Uid
	}
	return ^uint32(0)
}

// maxSocketPath is the longest socket path every system takes: sun_path is 108
// bytes on Linux with its zero byte, 104 on macOS and the BSDs.
const maxSocketPath = 103

// socketFolder returns a folder for the socket, made and empty of anything but
// our own: home/run, or one with a short name if that path is too long.
func socketFolder(home string, run *account) (string, error) {
	dir := filepath.Join(home, "run")
	if fits(dir) {
		return dir, makeOwned(dir, run)
	}
	for _, base := range []string{os.TempDir(), "/tmp"} {
		if !fits(filepath.Join(base, "aidy-pg-1234567890")) || (run != nil && !run.canEnter(base)) {
			continue
		}
		short, err := os.MkdirTemp(base, "aidy-pg-")
		if err != nil {
			continue
		}
		return short, makeOwned(short, run)
	}
	return "", fmt.Errorf("%s is too long for a unix socket (%d bytes at most) and no shorter folder can be made", dir, maxSocketPath)
}

func fits(dir string) bool { return len(filepath.Join(dir, ".s.PGSQL."+port)) <= maxSocketPath }
