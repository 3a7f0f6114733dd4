// Package configcheck is the one validator of configuration. The control plane
// runs it before a commit, a node before it swaps a snapshot, so bytes that a
// node would refuse are never committed.
//
// It works on decoded shards. [Checker.Check] looks at a whole configuration,
// [Checker.CheckChanged] at what a change touches, [Checker.CheckResource] at
// one resource as an author wrote it, with its secrets still in place. Nothing
// here does I/O or looks at the clock, and no input makes it panic.
//
// References between the identity and the policy domain are soft on a node,
// because the domains arrive apart from each other: a node checks them with
// Config.CrossDomain unset, the control plane with it set.
package configcheck
