package localpg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	tailBytes = 4 << 10
	// logKeep is the size from which the log of earlier runs is put aside at
	// the next start.
	logKeep = 4 << 20
	// lockWait is how long Start waits for the server of a process that died a
	// moment ago.
	lockWait = 15 * time.Second
)

// process is a running child. The goroutine that started it stays on its thread
// to the child's end, because the parent-death signal is tied to that thread,
// not to the process.
type process struct {
	pid  int
	done chan struct{}
	err  error // set before done is closed
}

func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with us
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		p.pid = cmd.Process.Pid
		started <- nil
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// onOwnThread runs a short-lived command to its end on one thread, for the same
// reason.
func onOwnThread(run func() ([]byte, error)) (out []byte, err error) {
	done := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		out, err = run()
		close(done)
	}()
	<-done
	return out, err
}

func (p *process) exit() error {
	<-p.done
	if p.err == nil {
		return errors.New("exit status 0")
	}
	return p.err
}

// stop sends sig, then an immediate shutdown, then kills the process group. It
// returns when the process is gone, and whether the first signal did it.
func (p *process) stop(sig syscall.Signal, wait time.Duration) bool {
	ended := func(d time.Duration) bool {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-p.done:
			return true
		case <-timer.C:
			return false
		}
	}
	select {
	case <-p.done: // its pid may belong to somebody else by now
		return true
	default:
	}
	_ = syscall.Kill(p.pid, sig)
	if ended(wait) {
		return true
	}
	_ = syscall.Kill(p.pid, syscall.SIGQUIT)
	if ended(killGrace) {
		return false
	}
	_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	<-p.done
	return false
}

// lockHome takes the folder for this process. A holder that is dead means its
// server is still going down: that is waited for.
func lockHome(ctx context.Context, home string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(home, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", home, err)
	}
	deadline := time.NewTimer(lockWait)
	defer deadline.Stop()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = file.Close()
			return nil, fmt.Errorf("lock %s: %w", home, err)
		}
		holder := lockHolder(file)
		if holder != 0 && alive(holder) {
			_ = file.Close()
			return nil, &InUseError{Dir: home, PID: holder}
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			_ = file.Close()
			return nil, &InUseError{Dir: home, PID: holder}
		case <-ctx.Done():
			_ = file.Close()
			return nil, context.Cause(ctx)
		}
	}
	if err = file.Truncate(0); err == nil {
		_, err = file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock %s: %w", home, err)
	}
	return file, nil
}

func lockHolder(file *os.File) int {
	var buf [20]byte
	n, _ := file.ReadAt(buf[:], 0)
	pid, _ := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	return pid
}

func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// postmasterPID reads the first line of the server's own pid file.
func postmasterPID(data string) (int, error) {
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strconv.Atoi(strings.TrimSpace(line))
}

// refuseForeign looks at a pid file that is there before our start. We hold the
// lock, so it is left over from a crash, or belongs to a server that somebody
// started by hand. A left-over whose pid another program has by now would make
// PostgreSQL refuse to start for ever, as happens in containers: it is removed.
func refuseForeign(data string) error {
	pid, err := postmasterPID(data)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil && alive(pid) && servesFolder(pid, data) {
		return &InUseError{Dir: data, PID: pid}
	}
	if err := os.Remove(filepath.Join(data, "postmaster.pid")); err != nil {
		return fmt.Errorf("remove the pid file of a server that is gone: %w", err)
	}
	return nil
}

func openLog(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > logKeep {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}

// tail returns the end of the server's log, ready to follow an error.
func tail(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > tailBytes {
		_, _ = file.Seek(-tailBytes, io.SeekEnd)
	}
	text, _ := io.ReadAll(io.LimitReader(file, tailBytes))
	if len(text) == 0 {
		return ""
	}
	return "; end of its log:\n" + string(bytes.TrimSpace(text))
}

func lastBytes(b []byte, n int) []byte {
	b = bytes.TrimSpace(b)
	return b[max(0, len(b)-n):]
}

// cleanEnv is our environment without the variables that steer PostgreSQL
// programs, and with plain messages.
func cleanEnv() []string {
	env := []string{"LC_ALL=C", "TZ=UTC"}
	for _, kv := range os.Environ() {
		if strings.HasPrefix(kv, "PG") || strings.HasPrefix(kv, "LC_") || strings.HasPrefix(kv, "LANG") ||
			strings.HasPrefix(kv, "TZ=") || strings.HasPrefix(kv, "AIDY_") {
			continue
		}
		env = append(env, kv)
	}
	return env
}
