//go:build race

package e2e

// raced tells that the race detector is on, under which everything takes several times
// as long: loads are smaller then.
const raced = true
