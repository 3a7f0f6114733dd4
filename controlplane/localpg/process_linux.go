package localpg

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// childAttr gives the child its own process group, so that a terminal's
// interrupt reaches us alone and we stop the server in our order, the account to
// run as, and the signal it gets when our thread dies.
func childAttr(run *account, onDeath syscall.Signal) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: onDeath}
	if run != nil {
		attr.Credential = &syscall.Credential{Uid: run.uid, Gid: run.gid}
	}
	return attr
}

// servesFolder reports whether a process works in the data folder, as every
// PostgreSQL server does. A process we may not look at counts as one that does.
func servesFolder(pid int, data string) bool {
	cwd, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "cwd"))
	if err != nil {
		return !os.IsNotExist(err)
	}
	a, err1 := os.Stat(cwd)
	b, err2 := os.Stat(data)
	return err1 == nil && err2 == nil && os.SameFile(a, b)
}
