package gemini_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider/streamcheck"
)

// What clients send comes out as the same JSON value. A file with want says what a
// request becomes that says something in another way: names of the .proto file, schemas
// in OpenAPI's form, parts without positions of their own, values that are the default.
func TestRequestsOfClientsAreTheSameAfterwards(t *testing.T) {
	t.Parallel()
	all := files(t, "requests/*.json")
	for name, body := range all {
		if strings.HasSuffix(name, ".want") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, ok := all[name+".want"]
			if !ok {
				want = body
			}
			r := decode(t, body)
			got := encode(t, r, own())
			if diff := cmp.Diff(value(t, []byte(want)), value(t, got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(r.Unknown) > 0 {
				t.Errorf("unknown fields: %v", r.Unknown)
			}
			if again := encode(t, decode(t, string(got)), own()); !bytes.Equal(got, again) {
				t.Errorf("encoding again gives other bytes:\n%s\n%s", got, again)
			}
		})
	}
}

// A stream and what the encoder makes of it tell the same, however its bytes arrive.
func TestStreamsOfTheProviderAreTheSameAfterwards(t *testing.T) {
	t.Parallel()
	for name, stream := range files(t, "streams/*.sse") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			events, f := decodeStream(own(), []byte(stream))
			if f != nil {
				t.Fatal(f)
			}
			a := collect(t, events)
			for _, sizes := range [][]int{{1}, {2, 3}, {7}, {100, 1}} {
				again, f := decodeStream(own(), []byte(stream), sizes...)
				if diff := cmp.Diff(events, again); diff != "" || f != nil {
					t.Errorf("in pieces of %v bytes: %v (-whole +pieces)\n%s", sizes, f, diff)
				}
			}
			out, f := emitted(t, a, own())
			if f != nil {
				t.Fatal(f)
			}
			if err := streamcheck.Check(fakeprovider.Gemini, out); err != nil {
				t.Errorf("%v in\n%s", err, out)
			}
			events, f = decodeStream(own(), out)
			if f != nil {
				t.Fatal(f)
			}
			b := collect(t, events)
			b.ID, b.Model, a.ID = "", a.Model, ""
			if diff := cmp.Diff(a, b); diff != "" {
				t.Errorf("(-decoded +encoded and decoded again):\n%s\n%s", diff, out)
			}
		})
	}
}
