// Package fakeprovider is a language model provider without a model: an
// [http.Handler] that speaks OpenAI Chat Completions, OpenAI Responses,
// Anthropic Messages and Gemini generateContent, streamed and not, precisely
// enough that the vendors' own SDKs accept every answer.
//
// It serves three readers. A person who tries the gateway for the first time
// gets a friendly answer without an account anywhere. A seeded installation gets
// upstreams that cost nothing. A test gets a provider that does exactly what a
// script says: be slow, refuse, reset the connection, cut a stream in the middle,
// fall silent, send broken JSON, report chosen token counts.
//
// # Default answers
//
// Without a script the answer depends on the request alone. The text names the
// protocol and the model and repeats the beginning of the last user text. A
// request that offers tools gets a tool call when tool choice forces one, or when
// the last turn is the user's and contains the word "tool"; after a tool result
// the answer is text again. A request that asks for JSON gets JSON that fits the
// schema. Output limits are honoured.
//
// Token counts are a quarter of a byte count, rounded up: for the input, the bytes
// of all prompt text, tool arguments, tool results and tool definitions, plus
// [MediaBytes] for each part that is not text; for the output, the bytes of
// the answer's text and tool arguments.
//
// # State
//
// Answers carry state the way the vendors' do: signatures on Anthropic's thinking,
// encrypted reasoning in Responses, thoughtSignature for models whose name contains
// "gemini-3"; older Gemini models give neither that nor ids of calls. The state is
// derived from the request and known again without being kept; only the ids of
// stored responses and items are remembered. With [Config.Strict] what comes back must
// be the provider's own.
//
// # Scripts
//
// [Provider.Script] sets the steps for the requests that fit a [Match]; each
// request takes the next [Step]. With [Config.Control] the same is possible over
// HTTP: POST /_control/scripts, GET /_control/requests, DELETE /_control.
//
// # Accounts
//
// [Provider.SetAccount] gives a key a model of what a vendor keeps for it: a prompt cache,
// limits, a time to the first token that depends on what was cached, outages and
// slowness. Without one a key has none of them. Over HTTP it is POST /_control/accounts, and
// GET /_control/accounts tells what became of the requests.
//
// # Sessions
//
// GET /v1/realtime and, with an upgrade, GET /v1/responses are WebSockets. A script for
// the operation [Session] plays at the handshake; the responses inside take the steps of
// Generate. A step of theirs that fails sends an error event, and [FaultCut] ends the
// connection without a word. Events that the vendor does not know are refused with an
// error event, whether or not [Config.Strict] is set; audio is taken and not heard.
//
// # Content events
//
// Steps count content events: those that carry text, reasoning or a part of a
// tool call. The events that open and close a message are not content events.
package fakeprovider
