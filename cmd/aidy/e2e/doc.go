// Package e2e tests the whole product: PostgreSQL, control planes, nodes, the scripted
// provider, and the vendors' own SDKs as clients. It holds tests alone.
//
// A fleet is one database with the control planes and nodes on it. Nodes run within the
// test, or as processes of their own where a test kills one. Everything a test changes
// goes through the admin API, and everything it checks is seen from outside: by the
// client, by the provider, in the ledger, or in what the listeners tell operators.
package e2e
