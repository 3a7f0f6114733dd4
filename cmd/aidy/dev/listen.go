package dev

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// listeners are the doors of the product, bound before anything else starts, so that
// a port that is taken is told at once.
type listeners struct {
	inference, admin, sync, nodeOps, planeOps, builtin net.Listener
}

// bind opens every listener. After an error none is left open.
func bind(o Options, builtinURL string) (*listeners, error) {
	var (
		l   listeners
		err error
	)
	open := func(flag, addr string) net.Listener {
		if err != nil {
			return nil
		}
		var opened net.Listener
		opened, err = listen(flag, addr)
		return opened
	}
	l.inference = open("--inference-addr", o.InferenceAddr)
	l.admin = open("--admin-addr", o.AdminAddr)
	l.sync = open("--sync-addr", o.SyncAddr)
	l.nodeOps = open("--ops-addr", o.OpsAddr)
	if err == nil {
		var next string
		if next, err = nextPort(o.OpsAddr); err == nil {
			l.planeOps, err = listen("--ops-addr (the control plane's is the next port)", next)
		}
	}
	if err == nil {
		// The provider keeps its port, because the configuration names it; where that
		// is taken meanwhile, another port will do and the configuration follows.
		if l.builtin, err = net.Listen("tcp", strings.TrimPrefix(orElse(builtinURL, "http://127.0.0.1:0"), "http://")); err != nil {
			l.builtin, err = listen("the built-in provider", "127.0.0.1:0")
		}
	}
	if err != nil {
		l.close()
		return nil, err
	}
	return &l, nil
}

// close closes what is open. The servers close their own; closing twice is harmless.
func (l *listeners) close() {
	for _, one := range []net.Listener{l.inference, l.admin, l.sync, l.nodeOps, l.planeOps, l.builtin} {
		if one != nil {
			_ = one.Close()
		}
	}
}

func listen(flag, addr string) (net.Listener, error) {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, fmt.Errorf("%s: %q is not HOST:PORT, such as 127.0.0.1:8080", flag, addr)
	}
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s: %s is taken%s; stop it, or choose another address (port 0 is any that is free)", flag, addr, holder(addr))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return l, nil
}

// nextPort is the port after that of an address; 0 stays 0.
func nextPort(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", err
	}
	n, err := net.LookupPort("tcp", port)
	if err != nil {
		return "", fmt.Errorf("--ops-addr: %w", err)
	}
	if n == 65535 {
		return "", errors.New("--ops-addr: there is no port after 65535 for the control plane; choose a lower one")
	}
	if n > 0 {
		n++
	}
	return net.JoinHostPort(host, strconv.Itoa(n)), nil
}

// baseURL is where a listener is reached from this machine.
func baseURL(scheme string, l net.Listener) string {
	host, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return scheme + "://" + l.Addr().String()
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}

// holder says which process listens on a port, where /proc tells: " by process 12
// (nginx)", or nothing.
func holder(addr string) string {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return ""
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return ""
	}
	inodes := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		for _, inode := range listening(table, n) {
			inodes["socket:["+inode+"]"] = true
		}
	}
	if len(inodes) == 0 {
		return ""
	}
	fds, _ := filepath.Glob("/proc/[0-9]*/fd/*") // the pattern is well formed
	for _, fd := range fds {
		if target, err := os.Readlink(fd); err == nil && inodes[target] {
			pid := strings.Split(fd, "/")[2]
			name, _ := os.ReadFile("/proc/" + pid + "/comm") // it may have ended
			return fmt.Sprintf(" by process %s (%s)", pid, strings.TrimSpace(string(name)))
		}
	}
	return ""
}

// listening lists the inodes of sockets that listen on a port, from a table as
// proc_net(5) describes it: the second column is the local address in hexadecimal,
// the fourth the state (0A is listen), the tenth the inode.
func listening(table string, port int) []string {
	f, err := os.Open(table)
	if err != nil {
		return nil
	}
	defer f.Close()
	var out []string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		cells := strings.Fields(lines.Text())
		if len(cells) > 9 && cells[3] == "0A" && strings.HasSuffix(cells[1], fmt.Sprintf(":%04X", port)) {
			out = append(out, cells[9])
		}
	}
	return out
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
