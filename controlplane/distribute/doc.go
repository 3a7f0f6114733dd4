// Package distribute brings configuration to nodes and tells who runs what.
//
// A [Hub] keeps the last verified state of each view in memory, follows the head
// in PostgreSQL, and serves aidy.sync.v1.ConfigSyncService from memory, so nodes
// get the last view while PostgreSQL is down. Every replica of the control plane
// runs one, none leads, and any of them serves any node.
//
// What a node runs is known from its reports alone, never from what was sent.
//
// A node is expected to report at least once in each heartbeat interval, with
// the same content if nothing changed: that is how the other replicas know that
// it is alive. Signals of other nodes and rollouts are not part of the package.
package distribute
