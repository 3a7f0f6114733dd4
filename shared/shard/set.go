package shard

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
)

// Buckets is the number of buckets of a Set.
const Buckets = 1024

// Hash is a SHA-256.
type Hash = [sha256.Size]byte

// Sum returns the hash of a shard's bytes.
func Sum(payload []byte) Hash { return sha256.Sum256(payload) }

// BucketOf returns the bucket of a key, 0 to 1,023.
func BucketOf(key string) int {
	h := sha256.Sum256([]byte(key))
	return int(binary.BigEndian.Uint16(h[:]) >> 6)
}

// RootOf returns the root over the hashes of all buckets.
func RootOf(buckets *[Buckets]Hash) Hash {
	h := sha256.New()
	for i := range buckets {
		h.Write(buckets[i][:])
	}
	return Hash(h.Sum(nil))
}

// BucketHash returns the hash of one bucket that holds entries, which it sorts.
// It panics if a key is longer than 65,535 bytes. Set does this for itself; the
// function is for those who keep buckets elsewhere, in a database for instance.
func BucketHash(entries []Entry) Hash {
	slices.SortFunc(entries, byKey)
	return hashSorted(entries)
}

// Entry is one shard of a Set.
type Entry struct {
	Key     string
	Hash    Hash
	Payload []byte // shared with the set: not to be changed; nil if the set was not given it
}

// Set is a set of shards with its hashes kept up: a change costs the rehash of
// its bucket and of the root, however large the set is, and only when a hash is
// asked for.
//
// A Set is not safe for concurrent use while it changes. After Root has been
// called and until the next change, any number of goroutines may read and Clone
// it. Make a Set with New.
type Set struct {
	buckets [Buckets]*bucket
	hashes  [Buckets]Hash
	dirty   [Buckets]bool
	stale   bool // some bucket is dirty, or root was never computed
	root    Hash
	size    int
	// owner marks the buckets this set may change in place. Clone replaces it,
	// which leaves every bucket shared; it is atomic because several goroutines
	// may clone one set at once.
	owner atomic.Pointer[owner]
}

type owner struct{ _ byte } // not empty: each allocation must have its own address

type bucket struct {
	owner   *owner
	entries []Entry // sorted by key
}

// New returns an empty set.
func New() *Set {
	s := &Set{stale: true}
	s.owner.Store(new(owner))
	empty := hashSorted(nil)
	for i := range s.hashes {
		s.hashes[i] = empty
	}
	return s
}

// Put adds a shard or replaces the one of that key. hash must be Sum of the
// shard's bytes: Put does not compute it, so that payload may be nil where only
// hashes are kept. It reports whether the set's hash changes by this; payload is
// kept either way. Put panics on a key longer than MaxKeyLen: Parse what comes
// from outside first.
func (s *Set) Put(key string, hash Hash, payload []byte) bool {
	if len(key) > MaxKeyLen {
		panic(fmt.Sprintf("shard: key of %d bytes put into a set, at most %d", len(key), MaxKeyLen))
	}
	i := BucketOf(key)
	b := s.writable(i)
	at, found := b.find(key)
	if found {
		e := &b.entries[at]
		changed := e.Hash != hash
		e.Hash, e.Payload = hash, payload
		if changed {
			s.touch(i)
		}
		return changed
	}
	b.entries = slices.Insert(b.entries, at, Entry{key, hash, payload})
	s.size++
	s.touch(i)
	return true
}

// Delete takes a shard out and reports whether it was there.
func (s *Set) Delete(key string) bool {
	i := BucketOf(key)
	if b := s.buckets[i]; b == nil {
		return false
	} else if _, found := b.find(key); !found {
		return false
	}
	b := s.writable(i)
	at, _ := b.find(key)
	b.entries = slices.Delete(b.entries, at, at+1)
	s.size--
	s.touch(i)
	return true
}

// Get returns the shard of a key.
func (s *Set) Get(key string) (Entry, bool) {
	b := s.buckets[BucketOf(key)]
	if b == nil {
		return Entry{}, false
	}
	at, found := b.find(key)
	if !found {
		return Entry{}, false
	}
	return b.entries[at], true
}

// Len returns the number of shards.
func (s *Set) Len() int { return s.size }

// Bucket returns the shards of bucket i, 0 to 1,023, in order of their keys.
// The slice belongs to the set: it must not be changed, nor kept over the next
// change of the set.
func (s *Set) Bucket(i int) []Entry {
	if s.buckets[i] == nil {
		return nil
	}
	return s.buckets[i].entries
}

// Keys returns the keys of bucket i, 0 to 1,023, in order.
func (s *Set) Keys(i int) []string {
	entries := s.Bucket(i)
	keys := make([]string, len(entries))
	for j := range entries {
		keys[j] = entries[j].Key
	}
	return keys
}

// All yields every shard, bucket by bucket, in order of the keys within each.
// The set must not change meanwhile.
func (s *Set) All() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for _, b := range s.buckets {
			if b == nil {
				continue
			}
			for _, e := range b.entries {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// Root returns the hash of the whole set. It rehashes what changed since the
// last call; if nothing did, it only reads.
func (s *Set) Root() Hash {
	s.settle()
	return s.root
}

// Hashes returns the hashes of all buckets. As Root, it rehashes what changed.
func (s *Set) Hashes() [Buckets]Hash {
	s.settle()
	return s.hashes
}

// Differing returns the buckets whose hash is not the given one, in order: those
// a peer with these hashes has to fetch.
func (s *Set) Differing(peer *[Buckets]Hash) []int {
	s.settle()
	var out []int
	for i := range s.hashes {
		if s.hashes[i] != peer[i] {
			out = append(out, i)
		}
	}
	return out
}

// Clone returns a copy that can change without the original, and the other way
// round. It copies no shard: both share buckets until one changes them. Its cost
// does not depend on the size of the set.
func (s *Set) Clone() *Set {
	s.owner.Store(new(owner))
	c := &Set{buckets: s.buckets, hashes: s.hashes, dirty: s.dirty, stale: s.stale, root: s.root, size: s.size}
	c.owner.Store(new(owner))
	return c
}

// writable returns bucket i, copied first if another set may hold it too.
func (s *Set) writable(i int) *bucket {
	own := s.owner.Load()
	b := s.buckets[i]
	switch {
	case b == nil:
		b = &bucket{owner: own}
	case b.owner != own:
		b = &bucket{owner: own, entries: slices.Clone(b.entries)}
	default:
		return b
	}
	s.buckets[i] = b
	return b
}

func (s *Set) touch(i int) { s.dirty[i], s.stale = true, true }

// settle brings bucket hashes and root up to date.
func (s *Set) settle() {
	if !s.stale {
		return
	}
	for i, dirty := range s.dirty {
		if dirty {
			s.hashes[i] = hashSorted(s.Bucket(i))
			s.dirty[i] = false
		}
	}
	s.root = RootOf(&s.hashes)
	s.stale = false
}

func (b *bucket) find(key string) (int, bool) {
	return slices.BinarySearchFunc(b.entries, key, func(e Entry, k string) int { return cmp.Compare(e.Key, k) })
}

func byKey(a, b Entry) int { return cmp.Compare(a.Key, b.Key) }

// hashSorted hashes entries that stand in order of their keys.
func hashSorted(entries []Entry) Hash {
	h := sha256.New()
	buf := make([]byte, 0, 2+MaxKeyLen+sha256.Size)
	for i := range entries {
		e := &entries[i]
		if len(e.Key) > 1<<16-1 {
			panic(fmt.Sprintf("shard: key of %d bytes cannot be hashed", len(e.Key)))
		}
		buf = binary.BigEndian.AppendUint16(buf[:0], uint16(len(e.Key)))
		buf = append(buf, e.Key...)
		buf = append(buf, e.Hash[:]...)
		h.Write(buf)
	}
	return Hash(h.Sum(nil))
}
