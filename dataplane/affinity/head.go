package affinity

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// headSlots is how many parts the window of a head has.
const headSlots = 10

// heads counts the requests that begin alike.
type heads struct {
	slot time.Duration

	mu   sync.Mutex
	seen *simplelru.LRU[Hash, *headCount] // guarded by mu
}

// headCount counts by slots; the newest is the slot of last.
type headCount struct {
	last  int64 // number of the newest slot
	slots [headSlots]int32
}

func newHeads(cfg Config) heads {
	size, window := cfg.Heads, cfg.HeadWindow
	if size <= 0 {
		size = defaultHeads
	}
	if window <= 0 {
		window = defaultWindow
	}
	return heads{slot: max(window/headSlots, 1), seen: newLRU[Hash, *headCount](size)}
}

// HeadRecent counts a request, and returns how many with the same tools and system prompt
// this node has seen within the window, this one included; 0 if it has neither. It is to be
// called once for each request. The fleet has seen about as many on each of its nodes.
func (s *Store) HeadRecent(k *Key, now time.Time) int { return s.heads.count(k.Head, now, true) }

// HeadWould is what HeadRecent would return, without counting the request.
func (s *Store) HeadWould(k *Key, now time.Time) int { return s.heads.count(k.Head, now, false) }

func (h *heads) count(head Hash, now time.Time, keep bool) int {
	if head.IsZero() {
		return 0
	}
	slot := now.UnixNano() / int64(h.slot)
	h.mu.Lock()
	defer h.mu.Unlock()
	c, ok := h.seen.Get(head)
	if !ok {
		if !keep {
			return 1
		}
		c = &headCount{last: slot}
		h.seen.Add(head, c)
	}
	n := 1
	for i := range int64(headSlots) {
		if age := slot - (c.last - i); age < headSlots { // from the future if it is negative
			n += int(c.slots[place(c.last-i)])
		}
	}
	if !keep {
		return n
	}
	if ahead := slot - c.last; ahead > 0 {
		for i := range min(ahead, headSlots) {
			c.slots[place(slot-i)] = 0
		}
		c.last = slot
	}
	c.slots[place(c.last)]++
	return n
}

// place is where a slot is kept.
func place(slot int64) int64 { return ((slot % headSlots) + headSlots) % headSlots }
