package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

// trial says which positions have not yet served for long enough to be trusted.
type trial struct {
	deaths uint32 // of this process while they were on trial
	first  Position
	last   Position // zero: nothing is on trial
}

func (t trial) active() bool { return !t.last.IsZero() }

// quarantine names a position that this version of the node does not load again.
type quarantine struct {
	pos     Position
	version string
}

// image is what a file of the last good configuration says.
type image struct {
	state      *state
	trial      trial
	quarantine quarantine
	version    string // of the node that validated state
	end        int64  // length of the good part of the file
	torn       bool   // something stands behind the good part
}

var (
	errNoBase = errors.New("the base state is damaged")
	// errOnTrial says that the file's own base is what must not be loaded.
	errOnTrial = errors.New("the base state is on trial")
)

// replayFile reads a file. It stops before the commit of position before, if that
// is not zero. Damage ends the file at the last good commit before it; damage in
// the base state, or content that does not have its root, is an error.
func replayFile(path string, d domain, before Position) (*image, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read
	img, err := replay(f, d, before)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return img, nil
}

func replay(r io.Reader, d domain, before Position) (*image, error) {
	p := &player{frames: newFrameReader(r), img: &image{state: emptyState()}}
	base, err := p.header(d)
	if err != nil {
		return nil, err
	}
	p.img.end = p.frames.at
	for {
		kind, body, err := p.frames.next()
		if errors.Is(err, io.EOF) {
			p.img.torn = p.frames.at != p.img.end
			break
		}
		stop := false
		if err == nil {
			stop, err = p.frame(kind, body, before)
		}
		if errors.Is(err, errFrame) {
			p.img.torn = true
			break
		}
		if err != nil {
			return nil, err
		}
		if stop {
			if base && p.commits == 0 {
				return nil, errOnTrial
			}
			p.img.torn = true
			break
		}
	}
	if base && p.commits == 0 {
		return nil, errNoBase
	}
	if s := p.img.state; !s.pos.IsZero() && s.received.Root() != s.pos.Root {
		return nil, fmt.Errorf("%w: generation %d does not have its root", errNoBase, s.pos.Generation)
	}
	return p.img, nil
}

// player keeps what was read since the last commit.
type player struct {
	frames  *frameReader
	img     *image
	pending []shardUpdate
	held    map[string]pin
	commits int
}

// header reads the first frame and reports whether a base state follows.
func (p *player) header(d domain) (base bool, err error) {
	kind, body, err := p.frames.next()
	if err != nil {
		return false, fmt.Errorf("%w: no header", errNoBase)
	}
	c := cursor{b: body}
	version, of := c.u16(), c.text()
	base = c.flag()
	switch {
	case c.err != nil || kind != frameHeader:
		return false, fmt.Errorf("%w: no header", errNoBase)
	case version != formatVersion:
		return false, fmt.Errorf("%w: format %d is unknown to this release, which reads %d", errNoBase, version, formatVersion)
	case of != d.String():
		return false, fmt.Errorf("%w: it holds the %q domain, not %s", errNoBase, of, d)
	}
	return base, nil
}

func appendHeader(b []byte, d domain, base bool) []byte {
	return appendFrame(b, frameHeader, func(b []byte) []byte {
		b = binary.BigEndian.AppendUint16(b, formatVersion)
		return appendFlag(appendText(b, d.String()), base)
	})
}

func (p *player) frame(kind byte, body []byte, before Position) (stop bool, err error) {
	c := cursor{b: body}
	switch kind {
	case framePut, frameDelete, frameHeld:
		return false, p.shard(kind, &c)
	case frameCommit:
		stop, err = p.commit(&c, before)
		if stop || err != nil {
			return stop, err
		}
	case frameTrying:
		p.img.trial = trial{}
		if len(body) > 0 {
			p.img.trial = trial{deaths: c.u32(), first: c.position(), last: c.position()}
		}
	case frameQuarantine:
		p.img.quarantine = quarantine{pos: c.position(), version: c.text()}
	default:
		return false, fmt.Errorf("%w: type %q is unknown", errFrame, kind)
	}
	if c.err != nil {
		return false, c.err
	}
	// Frames that stand among those of an unfinished commit do not finish it.
	if len(p.pending) == 0 {
		p.img.end = p.frames.at
	}
	return false, nil
}

func (p *player) shard(kind byte, c *cursor) error {
	u := shardUpdate{key: c.text(), gone: kind == frameDelete}
	name, err := shard.Parse(u.key)
	if err != nil || c.err != nil {
		return fmt.Errorf("%w: shard key", errFrame)
	}
	u.name = name
	switch kind {
	case framePut:
		u.payload = c.b
		u.hash = shard.Sum(u.payload)
	case frameHeld:
		if p.held == nil {
			p.held = make(map[string]pin)
		}
		held := pin{serves: c.flag()}
		if held.serves {
			held.held = c.b
		}
		p.held[u.key] = held
		return c.err
	}
	p.pending = append(p.pending, u)
	return nil
}

func (p *player) commit(c *cursor, before Position) (stop bool, err error) {
	pos, version := c.position(), c.text()
	if !before.IsZero() && pos.sameGeneration(before) {
		return true, nil
	}
	old := p.img.state
	pins := make(map[string]pin)
	for n := c.u32(); n > 0 && c.err == nil; n-- {
		key := c.text()
		now := pin{since: c.u64(), unit: c.text(), tenant: c.text()}
		if h, ok := p.held[key]; ok {
			now.held, now.serves = h.held, h.serves
		} else {
			now.held, now.serves = old.served(key)
		}
		pins[key] = now
	}
	if c.err != nil {
		return false, c.err
	}
	// The set is this player's own, so it may change in place.
	for _, u := range p.pending {
		if u.gone {
			old.received.Delete(u.key)
		} else {
			old.received.Put(u.key, u.hash, u.payload)
		}
	}
	p.img.state = &state{pos: pos, received: old.received, pins: pins}
	p.img.version = version
	p.pending, p.held = nil, nil
	p.commits++
	return false, nil
}

func appendShard(b []byte, u shardUpdate) []byte {
	if u.gone {
		return appendFrame(b, frameDelete, func(b []byte) []byte { return appendText(b, u.key) })
	}
	return appendFrame(b, framePut, func(b []byte) []byte { return append(appendText(b, u.key), u.payload...) })
}

func appendHeld(b []byte, key string, p pin) []byte {
	return appendFrame(b, frameHeld, func(b []byte) []byte {
		return append(appendFlag(appendText(b, key), p.serves), p.held...)
	})
}

func appendCommit(b []byte, s *state, version string) []byte {
	return appendFrame(b, frameCommit, func(b []byte) []byte {
		b = appendText(appendPosition(b, s.pos), version)
		b = binary.BigEndian.AppendUint32(b, uint32(len(s.pins)))
		for key, p := range s.pins {
			b = binary.BigEndian.AppendUint64(appendText(b, key), p.since)
			b = appendText(appendText(b, p.unit), p.tenant)
		}
		return b
	})
}

func appendTrial(b []byte, t trial) []byte {
	return appendFrame(b, frameTrying, func(b []byte) []byte {
		if !t.active() {
			return b
		}
		b = binary.BigEndian.AppendUint32(b, t.deaths)
		return appendPosition(appendPosition(b, t.first), t.last)
	})
}

func appendQuarantine(b []byte, q quarantine) []byte {
	return appendFrame(b, frameQuarantine, func(b []byte) []byte {
		return appendText(appendPosition(b, q.pos), q.version)
	})
}
