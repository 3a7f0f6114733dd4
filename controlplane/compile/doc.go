// Package compile turns rows into the shards that nodes receive, and says what a
// change means: which shards it touches, which fields differ, what tenants gain
// and lose, and which dangers its author must confirm.
//
// It is pure: equal rows give equal bytes, whoever compiles them and when.
// [Build] is the one function that reads, through the Rows it is given.
package compile
