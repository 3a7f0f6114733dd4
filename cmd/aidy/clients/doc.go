// Package clients tests the gateway with programs that others wrote: the JavaScript
// SDKs of the vendors, the AI SDK, and the agents Claude Code, Codex and Gemini CLI. It
// holds tests alone, which are built with the tag clients; `make test-clients` installs
// the programs and runs them.
//
// Each row of a test is one client, one task, and the protocol in which the models are
// served. The product runs within the test as `aidy dev` runs it. Every row has a
// tenant and a scripted provider of its own, so what a client sends ends there: nothing
// but loopback is reached.
package clients
