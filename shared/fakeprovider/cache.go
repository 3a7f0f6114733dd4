package fakeprovider

import (
	"bytes"
	"crypto/sha256"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// What the vendors publish of their prompt caches.
const (
	minCached   = 1024 // tokens
	cachedStep  = 128  // of what OpenAI and Gemini tell
	lookBack    = 20   // blocks before a mark of Anthropic's
	shortCached = 5 * time.Minute
	longCached  = time.Hour
)

// maxPrefixes bounds what the cache of one key holds. It is emptied when it is full:
// no vendor promises to keep anything.
const maxPrefixes = 1 << 16

// prefixID names a prompt up to the end of a block.
type prefixID [sha256.Size]byte

// promptBlock is a block of a prompt: the prompt up to its end, and the mark on it.
type promptBlock struct {
	prefix prefixID
	end    int64         // tokens up to its end
	mark   time.Duration // how long a mark in it asks for; 0 without one
}

// cacheUse is what a prompt reads and will write.
type cacheUse struct {
	read, written5m, written1h int64 // tokens
	writes                     []prefixWrite
}

type prefixWrite struct {
	prefix prefixID
	ttl    time.Duration
}

// keptPrefix is kept until a time, and for as long again from when it is read.
type keptPrefix struct {
	until time.Time
	ttl   time.Duration
}

// promptBlocks cuts the prompt of a request in the order in which the vendors cache it.
func (c *call) promptBlocks() []promptBlock {
	names := [3]string{"tools", "system", "messages"} // of Anthropic
	switch c.protocol {
	case Chat:
		names[1] = "" // among the messages
	case Responses:
		names[1], names[2] = "instructions", "input"
	case Gemini:
		names[1], names[2] = "systemInstruction", "contents"
	}
	var out []promptBlock
	last := sha256.Sum256(append([]byte(c.protocol+" "), c.ask.model...))
	sum := 0
	add := func(name string, value jsontext.Value, list bool) {
		if len(value) == 0 || value.Kind() == jsontext.KindNull {
			return
		}
		b, mark := withoutMarks(value)
		h := sha256.New()
		h.Write(last[:])
		h.Write([]byte(name))
		h.Write([]byte{0})
		h.Write(b)
		h.Sum(last[:0])
		if list {
			value = append(append([]byte{'['}, value...), ']')
		}
		// The request with this block alone tells what the block counts.
		if one, err := readAsk(c.target, appendJSON(nil, obj(name, value))); err == nil {
			sum += one.prompt
		}
		out = append(out, promptBlock{prefix: last, end: tokens(sum), mark: mark})
	}
	add(names[0], c.ask.top[names[0]], false)
	add(names[1], c.ask.top[names[1]], false)
	messages := c.ask.top[names[2]]
	if messages.Kind() != jsontext.KindBeginArray {
		add(names[2], messages, false)
		return out
	}
	var each []jsontext.Value
	_ = decode(messages, &each) // it was read before
	for _, m := range each {
		add(names[2], m, true)
	}
	if mark, ok := c.ask.top["cache_control"]; ok && c.protocol == Anthropic && len(out) > 0 {
		last := &out[len(out)-1]
		last.mark = max(last.mark, markTime(mark))
	}
	return out
}

// withoutMarks is a value without white space and without the members that mark what is
// to be cached, at any depth, and the longest time that one of them asks for.
func withoutMarks(v jsontext.Value) (out []byte, mark time.Duration) {
	if !bytes.Contains(v, []byte(`"cache_control"`)) && !bytes.Contains(v, []byte(`"prompt_cache_breakpoint"`)) {
		b := v.Clone()
		_ = b.Compact()
		return b, 0
	}
	switch v.Kind() {
	case jsontext.KindBeginObject:
		o := obj()
		for name, value := range members(v) {
			if name == "cache_control" || name == "prompt_cache_breakpoint" {
				mark = max(mark, markTime(value))
				continue
			}
			b, inner := withoutMarks(value)
			o, mark = o.with(name, jsontext.Value(b)), max(mark, inner)
		}
		return appendJSON(nil, o), mark
	case jsontext.KindBeginArray:
		var each []jsontext.Value
		_ = decode(v, &each)
		l := make(list, len(each))
		for i := range each {
			b, inner := withoutMarks(each[i])
			l[i], mark = jsontext.Value(b), max(mark, inner)
		}
		return appendJSON(nil, l), mark
	}
	return v, 0
}

// markTime is how long a mark asks for; null is none.
func markTime(v jsontext.Value) time.Duration {
	if v.Kind() != jsontext.KindBeginObject {
		return 0
	}
	var in struct {
		TTL string `json:"ttl"`
	}
	if decode(v, &in) == nil && in.TTL == "1h" {
		return longCached
	}
	return shortCached
}

// look finds what of a prompt is kept, and what is to be. prompt is all its tokens. The
// lock of the accounts is held.
func (m *accountModel) look(p Protocol, blocks []promptBlock, prompt int64, now time.Time) cacheUse {
	kept := func(b promptBlock) bool { return b.end >= minCached && now.Before(m.prefixes[b.prefix].until) }
	var use cacheUse
	if p != Anthropic {
		for _, b := range blocks {
			if kept(b) {
				use.read = min(b.end, prompt) / cachedStep * cachedStep
			}
			if b.end >= minCached {
				use.writes = append(use.writes, prefixWrite{b.prefix, shortCached})
			}
		}
		return use
	}
	for i := len(blocks) - 1; i >= 0 && use.read == 0; i-- {
		if blocks[i].mark == 0 {
			continue
		}
		for j := i; j >= max(0, i-lookBack) && use.read == 0; j-- {
			if kept(blocks[j]) {
				use.read = min(blocks[j].end, prompt)
				use.writes = append(use.writes, prefixWrite{blocks[j].prefix, m.prefixes[blocks[j].prefix].ttl})
			}
		}
	}
	told := use.read
	for _, b := range blocks {
		if b.mark == 0 || b.end < minCached {
			continue
		}
		use.writes = append(use.writes, prefixWrite{b.prefix, b.mark})
		end := min(b.end, prompt)
		if n := end - told; n > 0 && b.mark == longCached {
			use.written1h += n
		} else if n > 0 {
			use.written5m += n
		}
		told = max(told, end)
	}
	return use
}

// keep writes to the cache. What is kept for longer stays so. The lock of the accounts is
// held.
func (m *accountModel) keep(writes []prefixWrite, now time.Time) {
	if len(m.prefixes)+len(writes) > maxPrefixes {
		clear(m.prefixes)
	}
	for _, w := range writes {
		if until := now.Add(w.ttl); until.After(m.prefixes[w.prefix].until) {
			m.prefixes[w.prefix] = keptPrefix{until, w.ttl}
		}
	}
}
