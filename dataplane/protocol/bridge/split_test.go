package bridge_test

import (
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider/streamcheck"
)

// told is what a caller gets of a stream, and how it ended.
type told struct{ out, fault string }

// hear converts a stream for a caller. A break is told as the relay tells it.
func hear(t testing.TB, p pair, upstream io.Reader) told {
	t.Helper()
	x := prepare(t, p, hello(p.from), streaming)
	conv, f := x.call.Convert(x.target)
	if f != nil {
		t.Fatal(f)
	}
	x.conv = conv
	out, f := x.relay(upstream)
	heard := told{out: madeID.ReplaceAllString(string(out), "gwc_")}
	if f != nil {
		heard.fault = f.Class.String()
	}
	return heard
}

// madeID is the id of a call that came without one, which is another one each time.
var madeID = regexp.MustCompile(`gwc_[a-z0-9]+`)

func TestConvE03_AnySplitOfAStreamTellsTheSame(t *testing.T) {
	t.Parallel()
	for _, r := range recordings(t) {
		for _, from := range protocols() {
			p := pair{from, r.from}
			want := hear(t, p, strings.NewReader(r.body))
			if got := hear(t, p, iotest.OneByteReader(strings.NewReader(r.body))); got != want {
				t.Errorf("%s to %s: byte for byte it is told as\n%+v, want\n%+v", r.name, from, got, want)
			}
			if strings.Contains(want.out, "\uFFFD") && !strings.Contains(r.body, "\uFFFD") {
				t.Errorf("%s to %s: a character is broken in %s", r.name, from, want.out)
			}
		}
	}
}

func TestConvE04_LineEndsChangeNothing(t *testing.T) {
	t.Parallel()
	for _, r := range recordings(t) {
		plain := strings.ReplaceAll(r.body, "\r\n", "\n")
		for _, from := range protocols() {
			p := pair{from, r.from}
			want := hear(t, p, strings.NewReader(plain))
			for name, body := range map[string]string{
				"CRLF": strings.ReplaceAll(plain, "\n", "\r\n"), "CR": strings.ReplaceAll(plain, "\n", "\r"),
				"no space": strings.ReplaceAll(plain, "data: ", "data:"),
			} {
				if got := hear(t, p, strings.NewReader(body)); got != want {
					t.Errorf("%s to %s: with %s it is told as\n%+v, want\n%+v", r.name, from, name, got, want)
				}
			}
		}
	}
}

// The rules of every protocol hold for every stream that is handed on, whatever the
// upstream sent.
func TestField_F85_EveryStreamThatIsHandedOnKeepsTheRules(t *testing.T) {
	t.Parallel()
	for _, r := range recordings(t) {
		for _, from := range protocols() {
			checkRules(t, pair{from, r.from}, r.body)
		}
	}
}

// checkRules hears a stream and checks it with its end, be it the error event.
func checkRules(t testing.TB, p pair, body string) told {
	t.Helper()
	x := prepare(t, p, hello(p.from), streaming)
	conv, f := x.call.Convert(x.target)
	if f != nil {
		t.Fatal(f)
	}
	x.conv = conv
	c := conv.NewStream()
	out, f := x.relayBy(c, strings.NewReader(body))
	if f != nil {
		if len(out) == 0 {
			return told{fault: f.Class.String()} // nothing was committed to: the caller gets a status
		}
		out = c.Fail(out, f, "req_1")
	}
	err := streamcheck.Check(vendor(p.from), out, streamcheck.AllowError)
	// Usage that the upstream did not tell is not made up, and arguments that the model
	// got wrong, or that are free text, are passed on as they are.
	if err != nil && !strings.Contains(err.Error(), "usage") && !strings.Contains(err.Error(), "do not add up") {
		t.Errorf("%s from %s (%v): %v\n%s\nof\n%s", p.from, p.to, f, err, out, body)
	}
	return told{out: string(out)}
}

func FuzzSplit(f *testing.F) {
	all := recordings(f)
	for i := range all {
		f.Add(uint8(i), uint8(i), []byte{1, 200, 3, 7})
	}
	f.Fuzz(func(t *testing.T, which, caller uint8, cuts []byte) {
		r := all[int(which)%len(all)]
		p := pair{protocols()[caller%4], r.from}
		want := hear(t, p, strings.NewReader(r.body))
		if got := hear(t, p, &pieces{strings.NewReader(r.body), cuts}); got != want {
			t.Errorf("%s to %s, cut at %v: told\n%+v, want\n%+v", r.name, p.from, cuts, got, want)
		}
	})
}

// pieces reads in pieces of the given sizes, the rest at once.
type pieces struct {
	src   io.Reader
	sizes []byte
}

// Read implements io.Reader.
func (p *pieces) Read(b []byte) (int, error) {
	if len(p.sizes) > 0 {
		b = b[:min(len(b), int(p.sizes[0])+1)]
		p.sizes = p.sizes[1:]
	}
	return p.src.Read(b)
}

// FuzzUpstream gives arbitrary bytes as an upstream's stream and as its answer.
func FuzzUpstream(f *testing.F) {
	for _, r := range recordings(f) {
		for i, p := range protocols() {
			if p == r.from {
				f.Add(uint8(i), uint8(i+1), r.body)
			}
		}
	}
	f.Add(uint8(0), uint8(2), "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":9000000000}]}}]}\n\n")
	f.Fuzz(func(t *testing.T, upstream, caller uint8, body string) {
		if len(body) > 64<<10 {
			return
		}
		p := pair{protocols()[caller%4], protocols()[upstream%4]}
		if p.from == p.to || !utf8.ValidString(body) {
			// Pieces of the protocol's own are handed on as they are, and the standard
			// knows no other streams: that nothing breaks is all there is to see.
			got := hear(t, p, strings.NewReader(body))
			bounded(t, p, len(body), len(got.out))
			return
		}
		got := checkRules(t, p, body)
		bounded(t, p, len(body), len(got.out))
		x := prepare(t, p, hello(p.from))
		conv, fault := x.call.Convert(x.target)
		if fault != nil {
			t.Fatal(fault)
		}
		out, _ := conv.Answer([]byte(body))
		bounded(t, p, len(body), len(out))
	})
}

// bounded checks that what the caller gets is bounded by what the upstream sent: an
// envelope for each event, and each text a few times, escaped.
func bounded(t testing.TB, p pair, in, out int) {
	t.Helper()
	if most := 64<<10 + 200*in; out > most {
		t.Errorf("%s to %s: %d bytes became %d, want at most %d", p.to, p.from, in, out, most)
	}
}
