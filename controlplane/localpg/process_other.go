//go:build unix && !linux

package localpg

import "syscall"

// childAttr is as on Linux, without the signal at our death, which only Linux
// has: there a server outlives a killed parent until it is stopped by hand, and
// the lock it holds keeps a second one off its folder.
func childAttr(run *account, _ syscall.Signal) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if run != nil {
		attr.Credential = &syscall.Credential{Uid: run.uid, Gid: run.gid}
	}
	return attr
}

// servesFolder cannot be told here; the careful answer is yes.
func servesFolder(int, string) bool { return true }
