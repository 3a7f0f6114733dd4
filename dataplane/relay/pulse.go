package relay

import (
	"net/http"
	"sync"
	"time"
)

// KeepAliveEvery is how long a client hears nothing before it gets a sign of life.
// Proxies and SDKs give up on a silent stream after 30 to 60 s.
const KeepAliveEvery = 15 * time.Second

// KeepAlive says how a client is told that its stream is still alive.
type KeepAlive struct {
	Frame []byte        // what is sent; empty sends nothing
	Every time.Duration // of silence; 0 is KeepAliveEvery
}

// Pulse sends keep-alives while nothing else is written. It touches the client's side
// alone: an upstream that fell silent is found out all the same. Safe for
// concurrent use.
type Pulse struct {
	mu    sync.Mutex
	w     http.ResponseWriter
	rc    *http.ResponseController
	frame []byte
	every time.Duration
	timer *time.Timer
	head  func() // writes the head before the first beat; nil once that is done
	begun bool
	over  bool
}

// NewPulse starts a Pulse on w. head is called before the first beat and has to write
// the head of the answer; nil if that is done. It returns nil, which is a Pulse that
// never beats, if k has no frame.
func NewPulse(w http.ResponseWriter, k KeepAlive, head func()) *Pulse {
	if len(k.Frame) == 0 {
		return nil
	}
	p := &Pulse{w: w, rc: http.NewResponseController(w), frame: k.Frame, every: k.Every, head: head}
	if p.every <= 0 {
		p.every = KeepAliveEvery
	}
	p.mu.Lock() // the first beat may come before the timer is known
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(p.every, p.beat)
	return p
}

func (p *Pulse) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return
	}
	if p.head != nil {
		p.head()
		p.head = nil
	}
	p.begun = true
	// A client that is gone is found out by whoever writes the answer.
	if _, err := p.w.Write(p.frame); err == nil {
		_ = p.rc.Flush()
	}
	p.timer.Reset(p.every)
}

// lock keeps beats away while the answer is written. The silence begins anew at unlock.
func (p *Pulse) lock() {
	if p != nil {
		p.mu.Lock()
	}
}

func (p *Pulse) unlock() {
	if p != nil {
		p.timer.Reset(p.every)
		p.mu.Unlock()
	}
}

// Stop ends the beats and reports whether there was any. Nothing is written after it
// returned.
func (p *Pulse) Stop() (begun bool) {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	p.timer.Stop()
	return p.begun
}
