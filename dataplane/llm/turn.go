package llm

import "fmt"

// Turn is what one side says until the other one speaks: the form in which strict
// protocols want a conversation. Results of tools open the user's turn that
// answers them.
type Turn struct {
	Assistant bool
	Results   []*Result // in the order of the calls they answer; only in a user's turn
	Parts     []*Part   // what else is said, system messages of the middle included
}

// PairError says which tool call has no result, or which result no call.
type PairError struct {
	CallID string
	Result bool // the result is without a call
}

// Error implements error.
func (e *PairError) Error() string {
	if e.Result {
		return fmt.Sprintf("the result of the tool call %q stands in the conversation, but no call with this id comes before it", e.CallID)
	}
	return fmt.Sprintf("the tool call %q has no result; send the result of every call before the next answer", e.CallID)
}

// Conversation is a request's messages in strict form.
type Conversation struct {
	System []*Part // of the system messages before the first turn
	Turns  []Turn
	Late   int  // system messages after the first turn, which are parts of users' turns
	Moved  bool // a result was moved to where its call is answered
}

// Converse brings the messages into strict form: neighbours of one side are one turn,
// each call is answered in the turn right after it, results in the order of their
// calls. A system message after the first turn becomes a part of the user's turn at
// its place, wrapped by late. It fails with a *PairError if calls and results do not
// pair. The parts are those of the request, apart from what late makes.
func (r *Request) Converse(late func(Part) Part) (*Conversation, error) {
	c := &Conversation{}
	results := make(map[string][]*Result)
	calls := make(map[string]int)
	for i := range r.Messages {
		m := &r.Messages[i]
		for j := range m.Parts {
			switch p := &m.Parts[j]; p.Kind {
			case PartResult:
				results[p.Result.CallID] = append(results[p.Result.CallID], p.Result)
			case PartCall:
				calls[p.Call.ID]++
			}
		}
	}
	var open []*Call // of the assistant's turn at hand
	answer := func() error {
		if len(open) == 0 {
			return nil
		}
		t := Turn{}
		for _, call := range open {
			waiting := results[call.ID]
			if len(waiting) == 0 {
				return &PairError{CallID: call.ID}
			}
			results[call.ID] = waiting[1:]
			t.Results = append(t.Results, waiting[0])
		}
		open = nil
		c.Turns = append(c.Turns, t)
		return nil
	}
	for i := range r.Messages {
		m := &r.Messages[i]
		switch m.Role {
		case RoleSystem:
			if len(c.Turns) == 0 {
				for j := range m.Parts {
					c.System = append(c.System, &m.Parts[j])
				}
				continue
			}
			// Codex and others put instructions between turns, also between a call
			// and its result: there they must not part the two.
			c.Late++
			if err := answer(); err != nil {
				return nil, err
			}
			for j := range m.Parts {
				p := late(m.Parts[j])
				c.user(&p)
			}
		case RoleAssistant:
			// A message of the assistant between a call and its result is of the same
			// turn; one after the results begins the next.
			for j := range m.Parts {
				p := &m.Parts[j]
				n := len(c.Turns)
				if n == 0 || !c.Turns[n-1].Assistant {
					c.Turns = append(c.Turns, Turn{Assistant: true})
					n++
				}
				c.Turns[n-1].Parts = append(c.Turns[n-1].Parts, p)
				if p.Kind == PartCall {
					open = append(open, p.Call)
				}
			}
		case RoleTool:
			for j := range m.Parts {
				id := m.Parts[j].Result.CallID
				if calls[id] == 0 {
					return nil, &PairError{CallID: id, Result: true}
				}
				if !holds(open, id) {
					c.Moved = true
				}
			}
			if err := answer(); err != nil {
				return nil, err
			}
		case RoleUser:
			if err := answer(); err != nil {
				return nil, err
			}
			for j := range m.Parts {
				c.user(&m.Parts[j])
			}
		}
	}
	if err := answer(); err != nil {
		return nil, err
	}
	for id, left := range results {
		if len(left) > 0 {
			return nil, &PairError{CallID: id, Result: true}
		}
	}
	return c, nil
}

func (c *Conversation) user(p *Part) {
	n := len(c.Turns)
	if n == 0 || c.Turns[n-1].Assistant {
		c.Turns = append(c.Turns, Turn{})
		n++
	}
	c.Turns[n-1].Parts = append(c.Turns[n-1].Parts, p)
}

func holds(calls []*Call, id string) bool {
	for _, c := range calls {
		if c.ID == id {
			return true
		}
	}
	return false
}
