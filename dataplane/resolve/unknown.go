package resolve

// Inputs are what resolution may ask of a request and nobody keeps of it: texts of the
// client, which no record may hold.
type Inputs uint8

// The inputs.
const (
	InputHeader Inputs = 1 << iota
	InputBody
	InputTools
	InputEffort
	InputRoot // of the conversation; a record has it where requests were shared by weight
)

var inputNames = [...]string{"header", "body_field", "tool_name", "reasoning_effort", "conversation"}

// Names are the inputs as conditions name them; the last one is the conversation that
// shares by weight go by. Nil for none.
func (i Inputs) Names() []string {
	var out []string
	for at, name := range inputNames {
		if i&(1<<at) != 0 {
			out = append(out, name)
		}
	}
	return out
}

// guess is how a condition is tried with what is not known: once as if every comparison
// with an unknown input spoke for it, once as if every one spoke against it. If the two
// agree, the condition does not turn on what is not known.
type guess struct {
	on      bool
	favour  bool // the comparisons speak for the condition
	negated bool // within an odd number of nots
	asked   Inputs
}

// asksFor is a comparison with something that a request that is decided again may lack.
func asksFor(in Inputs, when condition) condition {
	return func(f *Features) bool {
		if f.guess.on && f.Unknown&in != 0 {
			f.guess.asked |= in
			return f.guess.favour != f.guess.negated
		}
		return when(f)
	}
}

// holds reports whether the condition holds, and notes what that was guessed from.
func (c condition) holds(f *Features) bool {
	if f.Unknown == 0 {
		return c(f)
	}
	f.guess = guess{on: true, favour: true}
	most := c(f)
	f.guess.favour = false
	least := c(f)
	asked := f.guess.asked
	f.guess = guess{}
	if most == least {
		return most
	}
	f.Guessed |= asked
	return c(f)
}
