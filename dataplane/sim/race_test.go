//go:build race

package sim

// raced says that the race detector slows the simulation down, so that it is cut short:
// what it measures then is races. `make test` runs it once more without.
const raced = true
