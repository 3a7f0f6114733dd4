package upstream

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// conn is one connection to a provider. It belongs to one call at a time.
type conn struct {
	net.Conn // what is read and written: the TCP connection, or TLS above it

	tcp       net.Conn
	key       hostKey
	secure    *tls.Conn       // nil without TLS
	raw       syscall.RawConn // of the TCP connection, for alive
	buf       *bufio.Reader   // while a call runs
	idleSince time.Time

	// Made once, so that a call allocates no closure.
	interrupt func() // ends what is being read and written
	peek      func(fd uintptr) bool
	dead      bool // the result of peek
}

var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, readSize) }}

// readSize is the buffer of a connection while a call runs. Larger reads of a body
// go past it.
const readSize = 4 << 10

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

// dial opens a connection. Its errors mean that nothing was sent.
func (t *Transport) dial(ctx context.Context, k hostKey, serverName string) (*conn, error) {
	dialer := net.Dialer{
		Timeout:   orDefault(k.connect, t.cfg.ConnectTimeout),
		KeepAlive: 30 * time.Second,
	}
	if !k.private {
		dialer.Control = refusePrivate
	}
	tcp, err := dialer.DialContext(ctx, "tcp", k.address)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: tcp, tcp: tcp, key: k}
	if s, ok := tcp.(syscall.Conn); ok {
		if c.raw, err = s.SyscallConn(); err != nil {
			return nil, errors.Join(err, tcp.Close())
		}
	}
	c.peek = c.look
	if k.scheme == "https" {
		if err = c.handshake(ctx, t.tls(serverName), t.cfg.TLSTimeout); err != nil {
			tcp.Close()
			return nil, err
		}
	}
	c.interrupt = func() { _ = c.SetDeadline(longAgo) }
	return c, nil
}

func (c *conn) handshake(ctx context.Context, cfg *tls.Config, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c.secure = tls.Client(c.Conn, cfg)
	if err := c.secure.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("TLS handshake: %w", err)
	}
	c.Conn = c.secure
	return nil
}

// tls is the configuration of connections to one name: HTTP/1.1 alone is offered.
func (t *Transport) tls(serverName string) *tls.Config {
	cfg := t.cfg.TLS.Clone()
	if cfg == nil {
		cfg = new(tls.Config)
	}
	if cfg.ServerName == "" {
		cfg.ServerName = serverName
	}
	if cfg.ClientSessionCache == nil {
		cfg.ClientSessionCache = t.sessions
	}
	cfg.NextProtos = []string{"http/1.1"}
	return cfg
}

// acquire returns a connection for a call: an idle one that is still good, or a new one.
func (t *Transport) acquire(ctx context.Context, k hostKey, serverName string) (c *conn, reused bool, err error) {
	for {
		c = t.pool.get(k)
		if c == nil {
			c, err = t.dial(ctx, k, serverName)
			if err != nil {
				return nil, false, err
			}
			break
		}
		if c.alive(time.Now(), t.cfg.IdleTimeout) {
			reused = true
			break
		}
		c.Close()
	}
	c.buf = readers.Get().(*bufio.Reader)
	c.buf.Reset(c.Conn)
	return c, reused, nil
}

// Close ends the connection, without TLS's own farewell: it would have to wait for a
// peer that does not read, and the end of an answer is told by HTTP.
func (c *conn) Close() error { return c.tcp.Close() }

// alive reports whether an idle connection can be used again: it is not too old, and
// nothing came on it. What comes between two calls is the end of the connection, or
// bytes nobody asked for, which would be taken for the next answer.
func (c *conn) alive(now time.Time, timeout time.Duration) bool {
	if now.Sub(c.idleSince) >= timeout {
		return false
	}
	if c.raw != nil {
		c.dead = false
		if err := c.raw.Read(c.peek); err != nil || c.dead {
			return false
		}
	}
	return c.secure == nil || c.nothingDecrypted()
}

// nothingDecrypted looks for bytes that the TLS layer has read and not given out. The
// deadline in the past keeps it from reading any further.
func (c *conn) nothingDecrypted() bool {
	if c.secure.SetReadDeadline(longAgo) != nil {
		return false
	}
	var one [1]byte
	n, err := c.secure.Read(one[:])
	if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	return c.secure.SetReadDeadline(time.Time{}) == nil
}

// release ends a call: the connection is kept for the next one, or closed.
func (t *Transport) release(c *conn, keep bool) {
	keep = keep && c.buf.Buffered() == 0
	c.buf.Reset(nil)
	readers.Put(c.buf)
	c.buf = nil
	if !keep {
		c.Close()
		return
	}
	t.pool.put(c)
}
