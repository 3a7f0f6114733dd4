package access

import (
	"crypto/sha256"
	"net"
	"sync"
	"time"
)

// limiter slows down peers whose calls do not authenticate. Each peer address has
// a bucket of failures that empties over time. Both maps are bounded.
type limiter struct {
	burst int
	every time.Duration // one failure is forgotten in this time
	most  int

	// mu guards the maps below.
	mu    sync.Mutex
	peers map[string]failures
	// good are hashes of tokens that authenticated lately. They pass even from a
	// peer that failed too often: a proxy or an office shares one address.
	good map[[sha256.Size]byte]time.Time
}

type failures struct {
	level float64
	at    time.Time
}

const goodFor = 10 * time.Minute

func newLimiter(burst int, every time.Duration, most int) *limiter {
	return &limiter{
		burst: burst, every: every, most: most,
		peers: map[string]failures{}, good: map[[sha256.Size]byte]time.Time{},
	}
}

// wait returns how long a peer must wait before its next token is looked at, 0 if
// it need not.
func (l *limiter) wait(peer string, token [sha256.Size]byte, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, ok := l.good[token]; ok && now.Sub(at) < goodFor {
		return 0
	}
	over := l.decayed(l.peers[peer], now) - float64(l.burst) + 1
	if over <= 0 {
		return 0
	}
	return max(time.Duration(over*float64(l.every)), time.Millisecond)
}

func (l *limiter) decayed(f failures, now time.Time) float64 {
	return max(0, f.level-float64(now.Sub(f.at))/float64(l.every))
}

func (l *limiter) failed(peer string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, known := l.peers[peer]
	if !known && len(l.peers) >= l.most {
		l.makeRoom(now)
	}
	l.peers[peer] = failures{l.decayed(f, now) + 1, now}
}

// makeRoom forgets peers that have recovered, else any one.
func (l *limiter) makeRoom(now time.Time) {
	for peer, f := range l.peers {
		if l.decayed(f, now) == 0 {
			delete(l.peers, peer)
		}
	}
	for peer := range l.peers {
		if len(l.peers) < l.most {
			return
		}
		delete(l.peers, peer)
	}
}

func (l *limiter) succeeded(token [sha256.Size]byte, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.good[token]; !known && len(l.good) >= l.most {
		for t := range l.good {
			delete(l.good, t)
			break
		}
	}
	l.good[token] = now
}

// hostOf is a peer address without its port: what failures are counted by.
func hostOf(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return host
}
