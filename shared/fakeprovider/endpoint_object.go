package fakeprovider

import (
	"slices"
	"sync"
)

// objects keeps what begins and is asked for later. Safe for concurrent use.
type objects struct {
	mu   sync.Mutex
	byID map[string]*kept // guarded by mu
	ids  []string         // in the order in which they were made; guarded by mu
}

// kept is a video, or an operation that makes one.
type kept struct {
	key     string
	asked   int // how often it was looked at
	answer  object
	seconds string
	size    string
	model   string
	prompt  string
	from    string
}

// maxObjects bounds what is kept.
const maxObjects = 10000

func (o *objects) add(id string, k *kept) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byID == nil {
		o.byID = make(map[string]*kept)
	}
	if len(o.ids) == maxObjects {
		delete(o.byID, o.ids[0])
		o.ids = o.ids[1:]
	}
	if o.byID[id] == nil {
		o.ids = append(o.ids, id)
	}
	o.byID[id] = k
}

// look returns a copy of what a key owns, and counts the look.
func (o *objects) look(id, key string, count bool) (kept, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := o.byID[id]
	if k == nil || k.key != key {
		return kept{}, false
	}
	if count {
		k.asked++
	}
	return *k, true
}

func (o *objects) drop(id, key string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if k := o.byID[id]; k == nil || k.key != key {
		return false
	}
	delete(o.byID, id)
	o.ids = slices.DeleteFunc(o.ids, func(s string) bool { return s == id })
	return true
}

// of lists what a key owns.
func (o *objects) of(key string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var ids []string
	for _, id := range o.ids {
		if o.byID[id].key == key {
			ids = append(ids, id)
		}
	}
	return ids
}
