package endpoint

import (
	"bytes"
	"errors"
	"io"
	"mime/multipart"
	"testing"
)

// What is accepted is read by the standard library's reader as the same parts.
func FuzzFormsAreReadAsOthersReadThem(f *testing.F) {
	for _, seed := range []string{
		"--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--b--",
		"--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\nContent-Type: audio/wav\r\n\r\n\x00\xff\r\n\r\n--b--\r\n",
		"\r\n--b \t\r\ncontent-disposition:form-data;name=a\r\n\r\n\r\n--b--  ",
		"--b\r\nContent-Disposition: form-data; name=\"a\"\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=41\r\n--b--",
		"--b\nContent-Disposition: form-data; name=\"a\"\n\nx\n--b--",
		"--b--",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		parts, bad := readParts(body, "b")
		if bad != nil {
			return
		}
		others := multipart.NewReader(bytes.NewReader(body), "b")
		for i, p := range parts {
			if p.coded {
				return // for a model it is refused, and nothing else is looked at
			}
			o, err := others.NextRawPart()
			if err != nil {
				t.Fatalf("part %d of %q: %v", i, body, err)
			}
			value, err := io.ReadAll(o)
			if err != nil || o.FormName() != p.name || !bytes.Equal(value, p.value.Of(body)) {
				t.Fatalf("part %d of %q is %q: %q, others read %q: %q, %v", i, body, p.name, p.value.Of(body), o.FormName(), value, err)
			}
		}
		if o, err := others.NextRawPart(); !errors.Is(err, io.EOF) && len(parts) > 0 {
			t.Fatalf("others read one more part of %q: %v, %v", body, o, err)
		}
	})
}
