package wirejson

// ResetPlain is ResetStrict without a skeleton: the walk that it must agree with.
func (r *Reader) ResetPlain(data []byte) {
	r.start(data, MaxDepth)
	r.dec.Reset(&r.buf)
}

// Short reports whether a skeleton is being read.
func (r *Reader) Short() bool { return r.short }

// PlainRun is plainRun.
func PlainRun(b []byte) (int, bool) { return plainRun(b) }

// Unquote is unquote.
func Unquote(dst, raw []byte) []byte { return unquote(dst, raw) }

// Unquotable reports whether unquoteValid takes a string itself.
func Unquotable(inside []byte) bool {
	_, ok := unquoteValid(nil, inside)
	return ok
}
