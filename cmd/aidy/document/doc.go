// Package document reads and writes configuration as people write it: YAML or JSON
// in which every field of the API's messages has its own name, enums may be written
// short (openai_chat for PROTOCOL_OPENAI_CHAT), and nothing is guessed. What is not
// known is an error with its line and the nearest name that is.
//
// Text is taken as it stands: there are no variables and nothing is expanded.
package document

import (
	"errors"
	"fmt"
	"strings"
)

// Bounds of a document. What exceeds them is refused, not cut.
const (
	// MaxBytes is the size of a file.
	MaxBytes = 16 << 20
	// MaxNodes is the number of values in a file, each use of an anchor counted.
	MaxNodes = 1 << 19
	// MaxDepth is how deep values may be nested.
	MaxDepth = 64
	// maxProblems is how many problems are told at once.
	maxProblems = 20
)

// Problem is one thing that is wrong with a document.
type Problem struct {
	File string // as the caller named it
	Line int    // from 1; 0 if unknown
	Path string // of the field, such as resources[2].provider.capabilities[0].protocol
	Text string // what is wrong and what was expected
}

func (p *Problem) Error() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		if p.Line > 0 {
			fmt.Fprintf(&b, ":%d", p.Line)
		}
		b.WriteString(": ")
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Text)
	return b.String()
}

// join makes one error of problems, nil of none.
func join(problems []*Problem) error {
	errs := make([]error, 0, len(problems))
	for i, p := range problems {
		if i == maxProblems {
			errs = append(errs, errors.New("there may be more problems"))
			break
		}
		errs = append(errs, p)
	}
	return errors.Join(errs...)
}
