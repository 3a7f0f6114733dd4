package wirejson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

func strict(body string) error {
	var r wirejson.Reader
	r.ResetStrict([]byte(body))
	if r.Enter('{') {
		for r.Next() {
			continue
		}
	}
	return r.Done()
}

// What parsers disagree on is refused: who reads the body next might read another request.
func TestStrictReadingRefusesWhatParsersDisagreeOn(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		body string
		want error
	}{
		"duplicate name":             {`{"model":"a","model":"b"}`, jsontext.ErrDuplicateName},
		"duplicate name, escaped":    {`{"model":"a","mod\u0065l":"b"}`, jsontext.ErrDuplicateName},
		"duplicate name, deep":       {`{"a":[{"b":1,"b":2}]}`, jsontext.ErrDuplicateName},
		"trailing value":             {`{} {}`, wirejson.ErrTrailing},
		"trailing garbage":           {`{}x`, wirejson.ErrTrailing},
		"no end":                     {`{"a":1`, io.ErrUnexpectedEOF},
		"empty":                      {``, io.ErrUnexpectedEOF},
		"invalid UTF-8":              {"{\"a\":\"\xff\"}", nil},
		"invalid UTF-8 in a name":    {"{\"\xff\":1}", nil},
		"lone surrogate":             {`{"a":"\ud800"}`, nil},
		"control character":          {"{\"a\":\"\x01\"}", nil},
		"trailing comma":             {`{"a":1,}`, nil},
		"comment":                    {`{"a":1/*x*/}`, nil},
		"NaN":                        {`{"a":NaN}`, nil},
		"byte order mark":            {"\ufeff{}", nil},
		"depth 101":                  {strings.Repeat(`{"a":`, 101) + "1" + strings.Repeat("}", 101), wirejson.ErrDepth},
		"depth of a million, arrays": {`{"a":` + strings.Repeat("[", 1_000_000), wirejson.ErrDepth},
	} {
		err := strict(tc.body)
		if err == nil || tc.want != nil && !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", name, err, tc.want)
		}
	}
	for _, ok := range []string{
		`{}`, " {\n} \n", `{"a":1,"b":[{"a":2},{"a":3}],"é":"😀\ud83d\ude00"}`,
		strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100),
	} {
		if err := strict(ok); err != nil {
			t.Errorf("%.60s: got %v, want it accepted", ok, err)
		}
	}
}

// Strict reading accepts nothing that the standard library refuses.
func FuzzStrictIsNoLaxerThanTheStandardLibrary(f *testing.F) {
	for _, s := range []string{`{"a":[1,2,{"b":null}]}`, `{"a":"\u00e9"}`, `{"a":1e5,"b":-0}`, `{"a":}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		if err := strict(body); err == nil && !json.Valid([]byte(body)) {
			t.Errorf("accepted invalid JSON %q", body)
		}
	})
}

func TestCursorReadsMembersAndSkipsTheRest(t *testing.T) {
	t.Parallel()
	body := `{"skip":{"a":[1,{"b":2}]}, "s":"x\ty", "n":12.0, "big":9223372036854775807, "f":1.5, "t":true, "nil":null, "list":[1,[2],{"c":3}], "wrong":"no", "end":-7}`
	var r wirejson.Reader
	for round, reset := range map[string]func(){
		"strict":  func() { r.ResetStrict([]byte(body)) },
		"lenient": func() { r.ResetLenient([]byte(body)) },
		"stream":  func() { r.ResetStream(iotest.OneByteReader(strings.NewReader(body))) },
	} {
		reset()
		var got []string
		if !r.Enter('{') {
			t.Fatal("no object")
		}
		for r.Next() {
			name := string(r.Name())
			switch name {
			case "s":
				v, ok := r.String(10)
				got = append(got, fmt.Sprintf("s=%s %v", v, ok))
			case "n", "big", "f", "wrong", "end":
				v, ok := r.Int()
				got = append(got, fmt.Sprintf("%s=%v %v", name, v, ok))
			case "t":
				v, ok := r.Bool()
				got = append(got, fmt.Sprintf("t=%v %v", v, ok))
			case "nil":
				got = append(got, fmt.Sprintf("nil %v", r.Null()))
			case "list":
				if r.Enter('[') {
					for r.Next() {
						if v, ok := r.Int(); ok {
							got = append(got, fmt.Sprintf("element %d", v))
						}
					}
				}
			}
		}
		if err := r.Done(); err != nil {
			t.Fatalf("%s: %v", round, err)
		}
		want := []string{"s=x\ty true", "n=12 true", "big=9223372036854775807 true", "f=0 false", "t=true true", "nil true", "element 1", "wrong=0 false", "end=-7 true"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: reading differs (-want +got):\n%s", round, diff)
		}
	}
}

func TestStartAndEndAreTheRangeOfAValue(t *testing.T) {
	t.Parallel()
	body := []byte("{ \"a\" : {\"x\": [1, 2]} ,\n\t\"b\":\"text\", \"c\" :  3}")
	want := map[string]string{"a": `{"x": [1, 2]}`, "b": `"text"`, "c": "3"}
	var r wirejson.Reader
	r.ResetStrict(body)
	got := map[string]string{}
	if r.Enter('{') {
		for r.Next() {
			name, from := string(r.Name()), r.Start()
			r.Skip()
			got[name] = string(body[from:r.End()])
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ranges differ (-want +got):\n%s", diff)
	}
}

// Reading a stream whose strings are cut finds the same members, and the lengths
// of all strings, as reading the whole.
func TestCutStringsKeepTheirLengths(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var want []int
		values := make([]string, rapid.IntRange(1, 12).Draw(t, "values"))
		for i := range values {
			n := rapid.OneOf(rapid.IntRange(0, 5), rapid.IntRange(1000, 1060), rapid.Just(20_000)).Draw(t, "size")
			unit := rapid.SampledFrom([]string{"a", "é", `"`, `\`, "\n", "漢"}).Draw(t, "unit")
			values[i] = strings.Repeat(unit, n/len(unit))
			want = append(want, len(values[i]))
		}
		members := map[string][]string{"text": values, strings.Repeat("n", rapid.SampledFrom([]int{1, 1021, 1022, 1023, 3000}).Draw(t, "name")): {"other"}}
		body, err := json.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		var r wirejson.Reader
		size := rapid.IntRange(1, 5000).Draw(t, "read size")
		r.ResetStream(iotest.DataErrReader(&smallReads{bytes.NewReader(body), size}))
		var got []int
		if r.Enter('{') {
			for r.Next() {
				if string(r.Name()) != "text" {
					continue
				}
				if r.Enter('[') {
					for r.Next() {
						n, ok := r.Len()
						if !ok {
							t.Fatal("no string")
						}
						got = append(got, int(n))
					}
				}
			}
		}
		if err := r.Done(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("lengths differ (-want +got):\n%s", diff)
		}
	})
}

type smallReads struct {
	src  io.Reader
	size int
}

func (s *smallReads) Read(p []byte) (int, error) { return s.src.Read(p[:min(len(p), s.size)]) }

// A gigantic string costs no memory while it streams by.
func TestStreamingMemoryIsBounded(t *testing.T) {
	src := io.MultiReader(strings.NewReader(`{"data":"`), io.LimitReader(zeros{}, 64<<20), strings.NewReader(`","n":5}`))
	var r wirejson.Reader
	var n int64
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r.ResetStream(src)
	if r.Enter('{') {
		for r.Next() {
			if string(r.Name()) == "n" {
				n, _ = r.Int()
			}
		}
	}
	runtime.ReadMemStats(&after)
	if err := r.Done(); err != nil || n != 5 {
		t.Errorf("read n = %d, error %v, want 5", n, err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
		t.Errorf("reading 64 MiB allocated %d bytes, want at most 1 MiB", used)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

func TestTextLenIsTheLengthOfTheUnescapedText(t *testing.T) {
	t.Parallel()
	for _, s := range []string{``, `plain`, `a\nb`, `\"`, `\\`, `é`, `\u00e9`, `\u0041`, `\u6f22`, `\ud83d\ude00`, `x\\\"y\/`} {
		var want string
		if err := json.Unmarshal([]byte(`"`+s+`"`), &want); err != nil {
			t.Fatal(err)
		}
		if got := wirejson.TextLen([]byte(s)); got != len(want) {
			t.Errorf("TextLen(%s) = %d, want %d", s, got, len(want))
		}
	}
}

func TestFindSeesMembersAndNeverTextInStrings(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ data, want string }{
		{`{"usage":{"a":1}}`, `{"a":1}}`},
		{`{ "usage" : null}`, `null}`},
		{`{"a":"usage","usage":5}`, `5}`},
		{`{"text":"\"usage\":{\"a\":1}"}`, ``},
		{`{"text":"usage"}`, ``},
		{`{"usage"`, ``},
		{`{"usage":`, ``},
	} {
		if got := string(wirejson.Find([]byte(tc.data), []byte(`"usage"`))); got != tc.want {
			t.Errorf("in %s found %q, want %q", tc.data, got, tc.want)
		}
	}
}

func TestStringAtEndsAtTheFirstBareQuote(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		in, raw, rest string
		ok            bool
	}{
		{`"ab"c`, "ab", "c", true},
		{`"a\"b",`, `a\"b`, ",", true},
		{`"a\\",`, `a\\`, ",", true},
		{`"\\\"" `, `\\\"`, " ", true},
		{`"open\"`, "", "", false},
		{`5`, "", "5", false},
		{``, "", "", false},
	} {
		raw, rest, ok := wirejson.StringAt([]byte(tc.in))
		if string(raw) != tc.raw || string(rest) != tc.rest || ok != tc.ok {
			t.Errorf("StringAt(%s) = %q, %q, %v, want %q, %q, %v", tc.in, raw, rest, ok, tc.raw, tc.rest, tc.ok)
		}
	}
}

func TestAppendedMembersAreValidJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name, value := rapid.String().Draw(t, "name"), string(rapid.SliceOf(rapid.Byte()).Draw(t, "value"))
		out := append(wirejson.AppendIntMember(wirejson.AppendStringMember([]byte("{"), name, value), name+"2", -3), '}')
		var got map[string]any
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		if got[name] != strings.ToValidUTF8(value, "\ufffd") || got[name+"2"] != -3.0 {
			t.Fatalf("read back %v from %q", got, out)
		}
	})
}
