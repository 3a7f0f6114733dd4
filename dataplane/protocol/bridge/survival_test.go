package bridge_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

// rows runs f for each field with an example, of each protocol, with each other target.
func rows(t *testing.T, f func(t *testing.T, p pair, field protocol.Field, s protocol.Support)) {
	t.Helper()
	others(t, func(t *testing.T, p pair) {
		for _, field := range codec(p.from).Fields() {
			if field.Example == "" {
				continue
			}
			t.Run(field.Path, func(t *testing.T) { f(t, p, field, codec(p.to).Support(field.Feature)) })
		}
	})
}

// try converts the example of a field.
func try(t *testing.T, p pair, example string, o protocol.Options) (*exchange, *fault.Error) {
	t.Helper()
	settings := []setting{options(o)}
	if strings.Contains(example, `"stream_options"`) {
		settings = append(settings, streaming)
	}
	x := prepare(t, p, example, settings...)
	var f *fault.Error
	x.conv, f = x.call.Convert(x.target)
	return x, f
}

// lost is what was done with a feature; 0 if it was not lost.
func lost(x *exchange, f llm.Feature) protocol.Action {
	for entry := range strings.SplitSeq(x.conv.Lossy(), ", ") {
		if name, action, _ := strings.Cut(entry, "="); name == string(f) {
			a, _ := protocol.ParseAction(action)
			return a
		}
	}
	return 0
}

func feature(p protocol.Name, f llm.Feature) string { return string(p) + "." + string(f) }

// partOf are features that are lost with another one, and then not told beside it.
var partOf = map[llm.Feature]llm.Feature{
	llm.FeatureCacheLifetime: llm.FeatureCacheMark,   // of a mark
	llm.FeatureCitations:     llm.FeatureResultMedia, // of a document
}

// What the table says to be without an equal meets the table's own action unless
// another one was declared: refused it is named, left out or replaced it is told.
func TestFieldWithoutAnEqualMeetsTheActionOfTheTable(t *testing.T) {
	t.Parallel()
	rows(t, func(t *testing.T, p pair, field protocol.Field, s protocol.Support) {
		if s.Fate != protocol.Inexpressible {
			return
		}
		if x, f := try(t, p, field.Example, protocol.Options{"*": protocol.Drop}); f == nil && lost(x, partOf[field.Feature]) != 0 {
			return // it is lost with what it is a part of
		}
		// What else the example has is left out, so that the field at hand decides.
		rest := protocol.Options{"*": protocol.Drop}
		with := func(a protocol.Action) protocol.Options {
			o := protocol.Options{"*": protocol.Drop}
			o[feature(p.from, field.Feature)] = a
			return o
		}
		x, f := try(t, p, field.Example, with(s.Default))
		switch {
		case s.Default == protocol.Reject && (f == nil || f.Class != fault.RequestNotSupported || !strings.Contains(f.Public, string(field.Feature)) || !strings.Contains(f.Public, string(p.to))):
			t.Errorf("the table says reject; got %v", f)
		case s.Default != protocol.Reject && f != nil && f.Class == fault.InvalidRequest:
			return // nothing else was said
		case s.Default != protocol.Reject && f != nil:
			t.Errorf("the table says %s; got %v (%s)", s.Default, f, f.Public)
		case s.Default != protocol.Reject && lost(x, field.Feature) != s.Default:
			t.Errorf("the table says %s; told is %q\nsent %s", s.Default, x.conv.Lossy(), x.conv.Body)
		}

		if _, f = try(t, p, field.Example, with(protocol.Reject)); f == nil {
			t.Error("reject was declared, and the call passed")
		}
		if x, f = try(t, p, field.Example, rest); f != nil {
			if f.Class == fault.InvalidRequest {
				return // nothing else was said
			}
			t.Fatalf("drop was declared; got %v (%s)", f, f.Public)
		}
		if lost(x, field.Feature) != protocol.Drop {
			t.Errorf("drop was declared; told is %q", x.conv.Lossy())
		}
		accept(t, x, field)
	})
}

// What the table says to be carried or mapped passes, or is told as lost where the
// table's note bounds it. It is never lost in silence.
func TestFieldWithAnEqualIsCarriedOrTold(t *testing.T) {
	t.Parallel()
	rows(t, func(t *testing.T, p pair, field protocol.Field, s protocol.Support) {
		if s.Fate == protocol.Inexpressible {
			return
		}
		o := protocol.Options{"*": protocol.Drop}
		x, f := try(t, p, field.Example, o)
		if f != nil && f.Class == fault.InvalidRequest && s.Default != 0 {
			return // it is beyond the bounds of the note, and nothing else was said
		}
		if f != nil {
			t.Fatalf("the table says that it is carried; got %v (%s)", f, f.Public)
		}
		accept(t, x, field)
		if x.conv.Lossy() != "" || strings.Contains(s.Note, "always") || anyhow(field.Path) {
			return // told, or what the target does or finds anyhow
		}
		more, less, ok := without(t, field)
		if !ok {
			return
		}
		if x, f = try(t, p, more, o); f != nil {
			t.Fatal(f)
		}
		y, f := try(t, p, less, o)
		if f != nil {
			return // the example does not do without
		}
		if string(x.conv.Body) == string(y.conv.Body) && maps.Equal(x.conv.Header, y.conv.Header) {
			t.Errorf("lost in silence: with and without it the provider gets %s\nof %s", x.conv.Body, field.Example)
		}
	})
}

// anyhow reports a field whose value in the example is what the gateway or the target
// takes it for if it is missing.
func anyhow(path string) bool {
	switch name := path[strings.LastIndexByte(path, '.')+1:]; name {
	case "type", "mode": // there is one that fits
		return true
	case "media_type": // the data shows it
		return true
	case "store", "cache_control": // beside the messages: never stored; implicit
		return path == name
	case "name", "description": // of a form, which only OpenAI's protocols name
		return strings.Contains(path, "format.") || strings.Contains(path, "json_schema.")
	}
	return false
}

// accept has a strict provider look at a call.
func accept(t *testing.T, x *exchange, field protocol.Field) {
	t.Helper()
	status, told := x.ask(t, fakeprovider.New(fakeprovider.Config{Strict: true}))
	if status == http.StatusOK {
		return
	}
	t.Errorf("the provider answers %d: %s\nto %s\nof %s", status, told, x.conv.Body, field.Example)
}
