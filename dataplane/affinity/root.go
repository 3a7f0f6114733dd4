package affinity

// Root returns what names a conversation before its model is known, the same text on
// every node and for every request of it: the session if it has a name, else the object
// that an upstream stores for it, else the prompt up to its first message. Empty if
// there is none of them. It reads no more of the prompt than that, and in.Model plays no
// part. Safe for concurrent use.
//
// The root of a Key is of one model. This one chooses among models.
func Root(in Input) string {
	r, _ := readers.Get().(*reader)
	if r == nil {
		r = new(reader)
	}
	defer func() {
		r.release()
		readers.Put(r)
	}()
	r.start(&in)
	if source, name := session(&in); source != "" {
		return r.of("conversation", in.Tenant, in.Consumer, in.EndUser, name).hex()
	}
	if in.Shape == nil {
		return ""
	}
	if source, object := pinned(in.Shape); source != "" {
		return r.of("object", in.Tenant, object).hex()
	}
	r.rootOnly = true
	r.blocks(new(Key))
	if h := r.opening(); !h.IsZero() {
		return h.hex()
	}
	return ""
}
