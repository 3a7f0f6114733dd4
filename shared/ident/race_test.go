//go:build race

package ident

// raceEnabled: the detector moves what is otherwise on the stack to the heap.
const raceEnabled = true
