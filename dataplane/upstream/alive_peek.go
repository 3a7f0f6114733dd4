//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package upstream

import "syscall"

// look asks the kernel, without waiting, whether anything has come on an idle
// connection: its end, an error or bytes.
func (c *conn) look(fd uintptr) bool {
	var one [1]byte
	_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	c.dead = err != syscall.EAGAIN
	return true
}
