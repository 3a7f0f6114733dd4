package resolve

import (
	"testing"

	"pgregory.net/rapid"
)

// A condition that holds or fails without a guess does so whatever the unknown values are.
func TestConditionThatIsNotGuessedTurnsOnNothingUnknown(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := compiler{reads: new(reads)}
		when, err := c.compile(trees(4, meant()).Draw(t, "tree"), 1)
		if err != nil {
			t.Skip("more nodes than are allowed")
		}
		f, other := features().Draw(t, "known"), features().Draw(t, "unknown")
		f.Unknown = Inputs(rapid.IntRange(1, 1<<len(inputNames)-1).Draw(t, "inputs"))
		full := *f
		full.Unknown = 0
		if f.Unknown&InputHeader != 0 {
			full.Header, f.Header = other.Header, nil
		}
		if f.Unknown&InputTools != 0 {
			full.ToolNames, f.ToolNames = other.ToolNames, nil
		}
		if f.Unknown&InputEffort != 0 {
			full.ReasoningEffort, f.ReasoningEffort = other.ReasoningEffort, ""
		}
		if f.Unknown&InputBody != 0 {
			for range c.reads.fields {
				full.Body = append(full.Body, Scalar{Kind: Text, Text: rapid.SampledFrom(words).Draw(t, "member")})
			}
		}
		absent := *f
		absent.Unknown = 0
		held, of := when.holds(f), when.holds(&absent)
		switch {
		case held != of:
			t.Errorf("says %v, and %v of the same request without what is not known", held, of)
		case f.Guessed == 0 && held != when.holds(&full):
			t.Errorf("says %v without a guess, and the opposite of the whole request", held)
		case f.Guessed&^f.Unknown != 0:
			t.Errorf("guessed %q of the unknown %q", f.Guessed.Names(), f.Unknown.Names())
		}
	})
}
