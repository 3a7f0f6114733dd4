package affinity

import "github.com/zeebo/xxh3"

// ScopeID stands for a cache scope: the boundary within which an upstream's prompt
// cache is shared.
type ScopeID uint64

// ScopeOf returns the id of the scope of that name.
func ScopeOf(name string) ScopeID { return ScopeID(xxh3.HashString(name)) }
