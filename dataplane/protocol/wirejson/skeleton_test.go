package wirejson_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// walked is all that a walk over a body tells.
type walked struct {
	Seen   []string
	Err    string
	Offset int64
}

// walk reads a body with every method that looks at values; how chooses among them,
// so that two walks with the same choices can be compared.
func walk(r *wirejson.Reader, body []byte, how byte) walked {
	var w walked
	var value func(depth int)
	value = func(depth int) {
		how = how*5 + 3
		kind, from := r.Kind(), r.Start()
		switch {
		case kind == '{' || kind == '[':
			if how%7 == 0 {
				r.Skip()
				break
			}
			r.Enter(kind)
			for r.Next() {
				if kind == '{' {
					w.Seen = append(w.Seen, "name "+string(r.Name()))
				}
				value(depth + 1)
			}
		case kind != '"' || how%6 == 0:
			w.Seen = append(w.Seen, "raw "+string(r.Raw()))
		case how%6 == 1:
			s, ok := r.String(100)
			w.Seen = append(w.Seen, fmt.Sprint("string ", s, ok))
		case how%6 == 2:
			b, ok := r.Bytes()
			w.Seen = append(w.Seen, fmt.Sprint("bytes ", string(b), ok))
		case how%6 == 3:
			n, ok := r.Len()
			w.Seen = append(w.Seen, fmt.Sprint("len ", n, ok))
		case how%6 == 4:
			r.Skip()
		default:
			return // left to Next
		}
		if to := r.End(); r.Err() == nil {
			w.Seen = append(w.Seen, fmt.Sprint(from, " ", to), string(body[from:to]))
		}
	}
	value(0)
	if err := r.Done(); err != nil {
		w.Err = err.Error()
		var syntax *jsontext.SyntacticError
		if errors.As(err, &syntax) {
			w.Offset = syntax.ByteOffset
		}
		w.Seen = nil // how far a walk came before an error is nobody's business
	}
	return w
}

// pieces are what texts are made of: long runs, and all that can go wrong beside them.
var pieces = []string{
	strings.Repeat("plain text ", 20), strings.Repeat("x", 31), strings.Repeat("x", 43), strings.Repeat("x", 44), strings.Repeat("x", 45),
	strings.Repeat("漢字", 40), strings.Repeat("é", 30), strings.Repeat("a😀", 20), "abcdefg漢" + strings.Repeat("z", 40),
	`\n`, `\"`, `\\`, `\/`, `\u0041`, `\u00e9`, `\ud83d\ude00`, `\ud83d`, `\ude00`, `\ud83`, `\u`, `\x`, `\`, `"`, `:`, `,`, `{`, `}`, `[`, `]`,
	"\x00", "\x1f", "\n", "\x7f", "\x80", "\xc3", "\xa9", "\xf0\x9f", "\xff", "\xed\xa0\x80", " ", "", "a",
}

// clean are the pieces that are allowed in a string.
var clean = append(append([]string{}, pieces[:16]...), ":", ",", "{", "]", "\x7f", " ", "", "a")

func genText(t *rapid.T, from []string) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(from), 0, 6).Draw(t, "text"), "")
}

func genValue(t *rapid.T, depth int, from []string) string {
	space := rapid.SampledFrom([]string{"", "", " ", "\n\t"}).Draw(t, "space")
	kinds := 6
	if depth > 4 {
		kinds = 4
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0, 1:
		return space + `"` + genText(t, from) + `"` + space
	case 2:
		return space + rapid.SampledFrom([]string{"1", "-2.5e3", "true", "false", "null"}).Draw(t, "literal") + space
	case 3, 4:
		var b strings.Builder
		for i := range rapid.IntRange(0, 4).Draw(t, "members") {
			if i > 0 {
				b.WriteByte(',')
			}
			name := `"` + genText(t, from) + rapid.SampledFrom([]string{"", "1", "2", "3"}).Draw(t, "end") + `"`
			fmt.Fprintf(&b, "%s%s:%s", name, space, genValue(t, depth+1, from))
		}
		return space + "{" + b.String() + "}" + space
	default:
		items := make([]string, rapid.IntRange(0, 4).Draw(t, "items"))
		for i := range items {
			items[i] = genValue(t, depth+1, from)
		}
		return "[" + strings.Join(items, ",") + "]" + space
	}
}

// mutate changes some bytes of a body.
func mutate(t *rapid.T, body []byte) []byte {
	for range rapid.IntRange(0, 3).Draw(t, "mutations") {
		at := rapid.IntRange(0, len(body)-1).Draw(t, "at")
		switch rapid.IntRange(0, 3).Draw(t, "mutation") {
		case 0:
			body[at] = rapid.Byte().Draw(t, "byte")
		case 1:
			body = append(body[:at:at], body[min(len(body), at+rapid.IntRange(1, 50).Draw(t, "cut")):]...)
		case 2:
			body = []byte(string(body[:at]) + rapid.SampledFrom(pieces).Draw(t, "piece") + string(body[at:]))
		case 3:
			body = body[:at+1]
		}
		if len(body) == 0 {
			return []byte("{")
		}
	}
	return body
}

func agree(t interface{ Fatalf(string, ...any) }, body []byte, how byte) (short bool) {
	var plain, quick wirejson.Reader
	plain.ResetPlain(body)
	quick.ResetStrict(body)
	short = quick.Short()
	want, got := walk(&plain, body, how), walk(&quick, body, how)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%.300q: reading with a skeleton differs (-plain +skeleton):\n%s", body, diff)
	}
	return short
}

// A long body is read with its texts cut short, and nobody can tell: the verdict, the
// error, its place, and all values and ranges are those of the walk over every byte.
func TestSkeletonsAreReadAsTheirBodies(t *testing.T) {
	t.Parallel()
	used := 0
	for name, from := range map[string][]string{"clean": clean, "any": pieces} {
		rapid.Check(t, func(t *rapid.T) {
			// A long text makes sure that the body is worth a skeleton.
			long := strings.Repeat("long ", 1200)
			body := `{"first":` + genValue(t, 0, from) + `,"long":"` + long + `","last":` + genValue(t, 0, from) + `}` + rapid.SampledFrom([]string{"", " ", "x", "{}"}).Draw(t, "rest")
			raw := []byte(body)
			if rapid.Bool().Draw(t, "mutated") {
				raw = mutate(t, raw)
			}
			if agree(t, raw, rapid.Byte().Draw(t, "how")) {
				used++
			}
		})
		if used < 10 {
			t.Errorf("%s: %d bodies had a skeleton, the test tests nothing", name, used)
		}
		used = 0
	}
}

func TestSkeletonsKeepWhatStrictReadingRefuses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long text ", 1000)
	for name, tc := range map[string]struct {
		body string
		ok   bool
	}{
		"sound":                               {`{"a":"` + long + `","b":"` + long + `"}`, true},
		"same name twice":                     {`{"a":"` + long + `","a":1}`, false},
		"same name twice, deep":               {`{"a":"` + long + `","b":[{"c":1,"c":2}]}`, false},
		"long names that differ at their end": {`{"` + long + `1":1,"` + long + `2":2,"a":"` + long + `"}`, true},
		"long name twice":                     {`{"` + long + `":1,"a":"` + long + `","` + long + `" :2}`, false},
		"long name twice, once escaped":       {`{"` + long + `b":1,"a":"` + long + `","` + long + `\u0062":2}`, false},
		"half a pair before a run":            {`{"a":"\ud83d` + long + `\ude00"}`, false},
		"half a pair after a run":             {`{"a":"` + long + `\ude00"}`, false},
		"half a character before a run":       {"{\"a\":\"\xc3" + long + "\xa9\"}", false},
		"half a character after a run":        {"{\"a\":\"" + long + "\xc3\"}", false},
		"control character in a run":          {"{\"a\":\"" + long + "\x1f" + long + "\"}", false},
		"delete is no control character":      {"{\"a\":\"" + long + "\x7f" + long + "\"}", true},
		"half an escape before a run":         {`{"a":"\u00g` + long + `"}`, false},
		"no such escape before a run":         {`{"a":"\` + long + `"}`, false}, // \l
		"no end":                              {`{"a":"` + long + `"`, false},
		"no end of a text":                    {`{"a":"` + long, false},
		"ends after a backslash":              {`{"a":"` + long + `\`, false},
		"two values":                          {`{"a":"` + long + `"}{}`, false},
		"text where a name is due":            {`{"a":1,"` + long + `"}`, false},
		"long text as a name with no value":   {`{"` + long + `":}`, false},
		"bare text":                           {`{"a":"` + long + `"` + long + `}`, false},
	} {
		if err := strict(tc.body); (err == nil) != tc.ok {
			t.Errorf("%s: got %v, want accepted %v", name, err, tc.ok)
		}
		for how := range 12 {
			agree(t, []byte(tc.body), byte(how))
		}
	}
}

func FuzzSkeletons(f *testing.F) {
	f.Add(`{"a":"`, `"}`, byte(1))
	f.Add(`{"a":"\ud83d`, `\ude00","a":1}`, byte(2))
	f.Add("{{\"", "\"", byte(85)) // a name that is no string
	f.Add("{\"\xc3", "\xa9\":1}", byte(3))
	f.Fuzz(func(t *testing.T, before, after string, how byte) {
		agree(t, []byte(before+strings.Repeat("long text ", 500)+after), how)
	})
}

func TestPlainRunEndsAtTheFirstByteThatIsNotPlain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := []byte(strings.Repeat("a", rapid.IntRange(0, 80).Draw(t, "start")))
		b = append(b, rapid.SliceOfN(rapid.OneOf(rapid.Byte(), rapid.SampledFrom([]byte("\x1f !\"#[\\]\x7f\x80\xa2\xdc"))), 0, 30).Draw(t, "bytes")...)
		want, ascii := 0, true
		for want < len(b) && b[want] >= ' ' && b[want] != '"' && b[want] != '\\' {
			ascii = ascii && b[want] < utf8.RuneSelf
			want++
		}
		if n, a := wirejson.PlainRun(b); n != want || a != ascii {
			t.Fatalf("%q: got %d, ASCII %v, want %d, %v", b, n, a, want, ascii)
		}
	})
}
