package llm

// EventKind is what an event of an answer says.
type EventKind uint8

// The kinds, in the order in which an answer has them:
//
//	Start (PartStart (Delta | Cite | SetState)* PartEnd)* Finish End
//
// Parts start in the order of their indexes, without gaps; several may be open at
// once. Usage may come at any time after Start; later ones replace earlier ones.
const (
	EventStart     EventKind = iota // ID, Model; Usage if it is known by then
	EventPartStart                  // Index, Part: its kind, and for a call id and name; PartRedacted, PartNative and media come whole
	EventDelta                      // Index, Text: more text, refusal, reasoning or arguments
	EventCite                       // Index, Citation
	EventState                      // Index, State of the part
	EventPartEnd                    // Index
	EventFinish                     // Stop
	EventUsage                      // Usage
	EventEnd                        // the proper end
)

// Event is a step of an answer. Pointers and Text are valid only during the call
// that hands the event over.
type Event struct {
	Kind     EventKind
	Index    int
	ID       string
	Model    string
	Text     []byte
	Part     *Part
	Citation *Citation
	State    *State
	Stop     Stop
	Usage    *Usage
}

// Answer is a whole answer.
type Answer struct {
	ID       string
	Model    string
	Parts    []Part
	Stop     Stop
	Usage    Usage
	Reported bool // a usage was stated
}

// Emit tells the answer as events. What emit returns ends the telling.
func (a *Answer) Emit(emit func(Event) error) error {
	usage := &a.Usage
	if !a.Reported {
		usage = nil
	}
	if err := emit(Event{Kind: EventStart, ID: a.ID, Model: a.Model, Usage: usage}); err != nil {
		return err
	}
	for i := range a.Parts {
		if err := emitPart(i, &a.Parts[i], emit); err != nil {
			return err
		}
	}
	if err := emit(Event{Kind: EventFinish, Stop: a.Stop}); err != nil {
		return err
	}
	if usage != nil {
		if err := emit(Event{Kind: EventUsage, Usage: usage}); err != nil {
			return err
		}
	}
	return emit(Event{Kind: EventEnd})
}

func emitPart(i int, p *Part, emit func(Event) error) error {
	start := Part{Kind: p.Kind, Media: p.Media, Native: p.Native}
	text := p.Text
	switch p.Kind {
	case PartCall:
		c := *p.Call
		text, c.Arguments = c.Arguments, ""
		start.Call = &c
	case PartRedacted:
		start.State = p.State
	}
	if err := emit(Event{Kind: EventPartStart, Index: i, Part: &start}); err != nil {
		return err
	}
	if text != "" {
		if err := emit(Event{Kind: EventDelta, Index: i, Text: []byte(text)}); err != nil {
			return err
		}
	}
	for c := range p.Citations {
		if err := emit(Event{Kind: EventCite, Index: i, Citation: &p.Citations[c]}); err != nil {
			return err
		}
	}
	if p.State != nil && p.Kind != PartRedacted {
		if err := emit(Event{Kind: EventState, Index: i, State: p.State}); err != nil {
			return err
		}
	}
	return emit(Event{Kind: EventPartEnd, Index: i})
}

// Collector makes an Answer of events. The zero value is ready.
type Collector struct {
	answer Answer
	texts  [][]byte
	size   int
	ended  bool
}

// MaxCollected bounds what a Collector keeps of one answer, in bytes of text. A part
// without a text counts as PartSize.
const MaxCollected = 64 << 20

// PartSize is what a part, or a source of one, counts beside its text, in bytes.
const PartSize = 256

// Add takes the next event. It reports false once the answer is larger than
// MaxCollected; nothing more is kept then.
func (c *Collector) Add(e Event) bool {
	a := &c.answer
	part := func() *Part {
		if e.Index < 0 || e.Index >= len(a.Parts) {
			return &Part{} // a decoder that breaks the order loses the event, and not the process
		}
		return &a.Parts[e.Index]
	}
	switch e.Kind {
	case EventStart:
		a.ID, a.Model = e.ID, e.Model
		c.use(e.Usage)
	case EventPartStart:
		p := *e.Part
		p.Citations = nil
		if p.Call != nil {
			call := *p.Call
			p.Call = &call
		}
		a.Parts = append(a.Parts, p)
		c.texts = append(c.texts, nil)
		c.size += PartSize
		if p.Native != nil {
			c.size += len(p.Native.Raw)
		}
		if p.Media != nil {
			c.size += len(p.Media.Data)
		}
	case EventDelta:
		if e.Index >= 0 && e.Index < len(c.texts) {
			c.texts[e.Index] = append(c.texts[e.Index], e.Text...)
			c.size += len(e.Text)
		}
	case EventCite:
		p := part()
		p.Citations = append(p.Citations, *e.Citation)
		c.size += PartSize + len(e.Citation.Text) + len(e.Citation.Raw)
	case EventState:
		s := *e.State
		part().State = &s
		c.size += len(s.Data)
	case EventFinish:
		a.Stop = e.Stop
	case EventUsage:
		c.use(e.Usage)
	case EventEnd:
		c.ended = true
	}
	return c.size <= MaxCollected
}

func (c *Collector) use(u *Usage) {
	if u != nil {
		c.answer.Usage, c.answer.Reported = *u, true
	}
}

// Ended reports whether the proper end was seen.
func (c *Collector) Ended() bool { return c.ended }

// Answer is what was collected.
func (c *Collector) Answer() *Answer {
	for i, t := range c.texts {
		p := &c.answer.Parts[i]
		if p.Kind == PartCall {
			p.Call.Arguments += string(t)
		} else {
			p.Text += string(t)
		}
		c.texts[i] = nil
	}
	return &c.answer
}
