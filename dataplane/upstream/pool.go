package upstream

import (
	"sync"
	"time"
)

// hostKey is everything that keeps two direct calls from sharing connections.
type hostKey struct {
	scheme  string
	address string // host:port
	private bool
	connect time.Duration
}

// pool keeps idle connections. The one that was used last is taken first, so that
// those nobody needs grow old and are closed. Safe for concurrent use.
type pool struct {
	maxIdle int
	maxHost int
	timeout time.Duration

	mu     sync.Mutex
	hosts  map[hostKey][]*conn // the oldest first; guarded by mu
	idle   int                 // in all hosts; guarded by mu
	timer  *time.Timer         // runs while there is something to sweep; guarded by mu
	closed bool                // guarded by mu
}

func newPool(maxIdle, maxHost int, timeout time.Duration) *pool {
	return &pool{maxIdle: maxIdle, maxHost: maxHost, timeout: timeout, hosts: make(map[hostKey][]*conn)}
}

// get takes the idle connection that was used last; nil if there is none. Nobody has
// looked at it since it was put.
func (p *pool) get(k hostKey) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.hosts[k]
	if len(list) == 0 {
		return nil
	}
	c := list[len(list)-1]
	list[len(list)-1] = nil
	p.hosts[k] = list[:len(list)-1]
	p.idle--
	return c
}

// put keeps a connection, or closes it where the bounds leave no room. A full pool
// gives up the oldest connection of another host rather than the new one: the host
// just called is the likelier one to be called again.
func (p *pool) put(c *conn) {
	now := time.Now()
	c.idleSince = now
	if drop := p.keep(c, now); drop != nil {
		drop.Close()
	}
}

func (p *pool) keep(c *conn, now time.Time) (drop *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.hosts[c.key]
	if p.closed || len(list) >= p.maxHost {
		return c
	}
	if p.idle >= p.maxIdle {
		if drop = p.giveUp(c.key); drop == nil {
			return c
		}
	}
	p.hosts[c.key] = append(list, c)
	p.idle++
	if p.timer == nil {
		p.timer = time.AfterFunc(p.timeout, p.sweep)
	}
	return drop
}

// giveUp takes the oldest connection of some host but k out. The caller holds mu.
func (p *pool) giveUp(k hostKey) *conn {
	for other, list := range p.hosts {
		if other == k || len(list) == 0 {
			continue
		}
		drop := list[0]
		list[0] = nil
		p.hosts[other] = list[1:]
		p.idle--
		return drop
	}
	return nil
}

// sweep closes what has been idle for too long, and comes again while anything is left.
func (p *pool) sweep() {
	now := time.Now()
	var old []*conn
	next := time.Duration(-1)
	p.mu.Lock()
	for k, list := range p.hosts {
		n := 0
		for n < len(list) && now.Sub(list[n].idleSince) >= p.timeout {
			n++
		}
		old = append(old, list[:n]...)
		p.idle -= n
		if n == len(list) {
			delete(p.hosts, k)
			continue
		}
		p.hosts[k] = append([]*conn(nil), list[n:]...)
		if left := p.timeout - now.Sub(list[n].idleSince); next < 0 || left < next {
			next = left
		}
	}
	if next < 0 || p.closed {
		p.timer = nil
	} else {
		p.timer.Reset(max(next, time.Second))
	}
	p.mu.Unlock()
	for _, c := range old {
		c.Close()
	}
}

// empty closes all idle connections. With end, none is kept from now on.
func (p *pool) empty(end bool) {
	p.mu.Lock()
	hosts := p.hosts
	p.hosts, p.idle = make(map[hostKey][]*conn), 0
	p.closed = p.closed || end
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	p.mu.Unlock()
	for _, list := range hosts {
		for _, c := range list {
			c.Close()
		}
	}
}
