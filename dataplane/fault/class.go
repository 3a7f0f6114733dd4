// Package fault is the one typed error of the data plane: what went wrong, in a
// class that decides what may be tried next and what the caller is told.
package fault

// Class says what kind of failure happened. The zero value is Internal, a defect
// of the gateway.
type Class uint8

// Failures of an upstream or on the way to it. What may be retried, where, and
// what rests for how long is decided by class.
const (
	Internal        Class = iota // a defect of the gateway
	Connect                      // name lookup, TCP, TLS or egress proxy failed
	Reset                        // connection reset or closed before headers
	Timeout                      // no first byte in time, or 504
	RequestTimeout               // 408
	ServerError                  // 500, 502 and other 5xx
	Unavailable                  // 503
	Overloaded                   // 529 or the overloaded code
	RateLimited                  // 429
	Quota                        // 402, or the account has no quota or money left
	Auth                         // 401, or the credential is refused
	Permission                   // 403
	ModelNotFound                // 404: the upstream does not know the model
	StateNotFound                // 404: a stored object does not exist
	Conflict                     // 409
	ContextOverflow              // the prompt does not fit the model
	TooLarge                     // 413
	BadRequest                   // 400
	Unprocessable                // 422
	Refusal                      // content policy or safety stop
	Malformed                    // 2xx that cannot be decoded
	CutBeforeFirst               // a 2xx stream ended before its first event
	CutAfterFirst                // the stream broke later
	ClientCanceled               // the client left while an upstream was working
	OtherRejection               // any other 4xx
	endOfUpstream
)

// Failures the gateway decides itself, before or instead of an upstream call.
const (
	InvalidRequest      Class = endOfUpstream + iota // the body or a parameter cannot be used
	Unauthenticated                                  // no valid credential of the caller
	NotPermitted                                     // the caller may not do this
	UnknownPath                                      // no such path
	MethodNotAllowed                                 // the path exists, the method does not
	BodyTooLarge                                     // the request body exceeds the route's limit
	HeadersTooLarge                                  // the request headers exceed the limit
	BodyTimeout                                      // the caller sent its request too slowly
	UnsupportedEncoding                              // the body's encoding or media type cannot be read
	RequestNotSupported                              // no candidate can do what the request needs
	ModelUnknown                                     // the caller names a model that is not offered
	CapacityExhausted                                // every candidate is limited, resting from a limit, or busy
	NoCandidate                                      // no candidate is usable for another runtime reason
	DeadlineExceeded                                 // the time allowed for the request is over
	ConfigUnavailable                                // the node has no configuration yet
	ConfigStale                                      // the configuration is older than allowed
	Draining                                         // the node is shutting down
	MeteringUnavailable                              // usage cannot be recorded
	CreditUnavailable                                // credit cannot be checked
	LimitExceeded                                    // a rate or concurrency limit of the caller
	BudgetExceeded                                   // a calendar budget of the caller
	CreditExhausted                                  // the caller's credit is used up
	RequestExceedsLimit                              // the request can never fit a limit
	ContentBlocked                                   // a guard blocked the request or the answer
	GuardUnavailable                                 // a guard that must answer did not
	DetectionBudget                                  // the guards' budget is used up
	ClientClosed                                     // the client left before an upstream was asked
	endOfClasses
)

// Consumption says whether an upstream may have worked, and charged, for an
// attempt that failed.
type Consumption uint8

// The degrees of consumption, in rising order.
const (
	ConsumedNone     Consumption = iota // nothing was consumed
	ConsumedUnlikely                    // probably nothing
	ConsumedPossible                    // nobody can tell
	ConsumedCertain                     // something was consumed
)

var consumptionNames = [...]string{"none", "unlikely", "possible", "certain"}

// String is the name used in logs and records.
func (c Consumption) String() string {
	if int(c) < len(consumptionNames) {
		return consumptionNames[c]
	}
	return "possible"
}

// String is the stable name of the class, as logs, metrics and policies use it.
func (c Class) String() string { return c.row().name }

// Code is the stable code a caller gets for the class.
func (c Class) Code() string { return c.row().code }

// Status is the HTTP status a caller gets for the class. A protocol may change it
// where its clients expect another number for the same cause.
func (c Class) Status() int { return c.row().status }

// Consumption is what an attempt that ended in this class may have consumed.
func (c Class) Consumption() Consumption { return c.row().consumed }

// Text is a sentence for the caller that says what happened and what to do,
// without any detail of the case. A failure that carries no text of its own shows it.
func (c Class) Text() string { return c.row().text }

// Upstream reports whether the class is a failure of an upstream, or on the way
// to it, rather than a decision of the gateway.
func (c Class) Upstream() bool { return c > Internal && c < endOfUpstream }

// WaitHelps reports whether the same request may succeed later without anybody
// changing anything.
func (c Class) WaitHelps() bool { return c.row().waitHelps }

// Classes returns every class, in order.
func Classes() []Class {
	all := make([]Class, endOfClasses)
	for i := range all {
		all[i] = Class(i)
	}
	return all
}

func (c Class) row() *row {
	if c >= endOfClasses {
		c = Internal
	}
	return &rows[c]
}

// OfStatus is the class of an upstream answer that is known by its HTTP status
// alone. A status below 400 has no failure class and gives Malformed.
func OfStatus(status int) Class {
	switch status {
	case 400:
		return BadRequest
	case 401:
		return Auth
	case 402:
		return Quota
	case 403:
		return Permission
	case 404:
		return ModelNotFound
	case 408:
		return RequestTimeout
	case 409:
		return Conflict
	case 413:
		return TooLarge
	case 422:
		return Unprocessable
	case 429:
		return RateLimited
	case 503:
		return Unavailable
	case 504:
		return Timeout
	case 529:
		return Overloaded
	}
	switch {
	case status >= 500:
		return ServerError
	case status >= 400:
		return OtherRejection
	}
	return Malformed
}
