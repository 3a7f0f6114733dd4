// Package affinity finds out what a request shares with earlier ones, and remembers
// which upstream holds the prompt cache of it.
//
// Read makes a Key of a request: a chain of hashes, one for each block of the prompt in
// the order in which upstreams cache, and the session the request belongs to if it names
// one. A Store keeps, by hash, which cache scopes have served that prefix and how sure
// that is. Nothing here holds a prompt, or does I/O, or reads a clock.
package affinity
