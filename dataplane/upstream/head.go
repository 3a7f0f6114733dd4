package upstream

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"sync"

	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

// Bounds of an answer's head beside Config.MaxHeaderBytes.
const (
	maxHeaderLines = 1000
	maxInterim     = 5 // 1xx answers before the final one
)

// framing is how the end of an answer's body is told (RFC 9112, section 6.3).
type framing uint8

const (
	framedLength  framing = iota // by its length, which may be 0
	framedChunked                // by chunks
	framedClose                  // by the end of the connection
)

// head is the head of an answer.
type head struct {
	proto   string
	minor   int
	code    int
	status  string
	header  http.Header
	framing framing
	length  int64 // of framedLength
	last    bool  // the connection must not be used again
}

var errHeadTooLarge = errors.New("the upstream's response head is too large")

// malformedError says what about an answer cannot be read.
type malformedError string

func (e malformedError) Error() string { return "malformed response of the upstream: " + string(e) }

// errNoAnswer is the end of the connection before the first byte of an answer.
var errNoAnswer = fmt.Errorf("the upstream closed the connection before it answered: %w", io.ErrUnexpectedEOF)

var headScratch = sync.Pool{New: func() any {
	b := make([]byte, 0, 2<<10)
	return &b
}}

// readHead reads the head of the final answer to a call with the given method;
// interim ones are skipped. limit bounds its bytes.
func readHead(r *bufio.Reader, method string, limit int64) (head, error) {
	scratch := headScratch.Get().(*[]byte)
	defer headScratch.Put(scratch)
	for range maxInterim + 1 {
		raw, err := readLines(r, (*scratch)[:0], limit)
		if cap(raw) <= 16<<10 {
			*scratch = raw[:0]
		}
		if err != nil {
			return head{}, err
		}
		h, err := parseHead(string(raw), method)
		if err != nil {
			return head{}, err
		}
		if h.code >= 200 {
			return h, nil
		}
		if h.code == http.StatusSwitchingProtocols {
			return head{}, malformedError("it switches protocols, which nobody asked for")
		}
	}
	return head{}, malformedError("too many interim answers")
}

// readLines reads up to and including the empty line that ends a head.
func readLines(r *bufio.Reader, dst []byte, limit int64) ([]byte, error) {
	start := 0 // of the line that is being read
	for {
		part, err := r.ReadSlice('\n')
		dst = append(dst, part...)
		if int64(len(dst)) > limit {
			return dst, errHeadTooLarge
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(dst) == 0:
			return dst, errNoAnswer
		case errors.Is(err, io.EOF):
			return dst, io.ErrUnexpectedEOF
		case err != nil:
			return dst, err
		}
		line := dst[start:]
		if len(line) == 1 || len(line) == 2 && line[0] == '\r' {
			return dst, nil
		}
		start = len(dst)
	}
}

// parseHead takes a head apart, strictly: what two readers could understand in two
// ways is refused (RFC 9112, section 11).
func parseHead(s, method string) (head, error) {
	line, rest := cutLine(s)
	h, err := parseStatus(line)
	if err != nil {
		return h, err
	}
	n := strings.Count(rest, "\n") - 1
	if n > maxHeaderLines {
		return h, errHeadTooLarge
	}
	h.header = make(http.Header, max(n, 0))
	values := make([]string, max(n, 0)) // one array behind all values
	for {
		if line, rest = cutLine(rest); line == "" {
			break
		}
		name, value, err := parseField(line)
		if err != nil {
			return h, err
		}
		if have := h.header[name]; have != nil {
			h.header[name] = append(have, value)
			continue
		}
		values[0] = value
		h.header[name], values = values[:1:1], values[1:]
	}
	return h, h.frame(method)
}

// cutLine returns the first line without its end, and what follows.
func cutLine(s string) (line, rest string) {
	line, rest, _ = strings.Cut(s, "\n")
	return strings.TrimSuffix(line, "\r"), rest
}

// parseStatus reads a status line: HTTP/1.1 200 OK.
func parseStatus(line string) (head, error) {
	proto, status, ok := strings.Cut(line, " ")
	if !ok || len(proto) != len("HTTP/1.1") || proto[:7] != "HTTP/1." || proto[7] < '0' || proto[7] > '9' {
		return head{}, malformedError("its first line is not a status line of HTTP/1")
	}
	code, _, _ := strings.Cut(status, " ")
	n, err := strconv.ParseUint(code, 10, 16)
	if err != nil || len(code) != 3 || n < 100 {
		return head{}, malformedError("its status is not a number of three digits")
	}
	if !validValue(line) {
		return head{}, malformedError("its status line holds control characters")
	}
	return head{proto: proto, minor: int(proto[7] - '0'), code: int(n), status: status}, nil
}

// parseField reads a header line.
func parseField(line string) (name, value string, err error) {
	name, value, ok := strings.Cut(line, ":")
	switch {
	case line[0] == ' ' || line[0] == '\t':
		return "", "", malformedError("a header is folded over several lines")
	case !ok || !validName(name):
		return "", "", malformedError("a header line has no valid name")
	}
	value = strings.Trim(value, " \t")
	if !validValue(value) {
		return "", "", malformedError("a header value holds control characters")
	}
	return textproto.CanonicalMIMEHeaderKey(name), value, nil
}

// frame decides how the body ends.
func (h *head) frame(method string) error {
	for _, v := range h.header["Connection"] {
		h.last = h.last || hasToken(v, "close")
	}
	h.last = h.last || h.minor == 0 // it may be kept alive, which is not worth the rules
	coding, coded := h.header["Transfer-Encoding"]
	delete(h.header, "Transfer-Encoding")
	lengths, err := h.contentLength()
	if err != nil {
		return err
	}
	if coded && (len(coding) != 1 || !strings.EqualFold(coding[0], "chunked") || h.minor == 0) {
		return malformedError("its transfer encoding is not chunked")
	}
	if method == http.MethodHead || h.code < 200 || h.code == http.StatusNoContent || h.code == http.StatusNotModified {
		h.framing, h.length = framedLength, 0
		return nil
	}
	switch {
	case coded:
		h.framing, h.length = framedChunked, -1
		if lengths {
			// The chunks decide; that a length stands beside them is the sign of somebody
			// in between who did not understand.
			delete(h.header, "Content-Length")
			h.last = true
		}
	case lengths:
		h.framing = framedLength
	default:
		h.framing, h.length, h.last = framedClose, -1, true
	}
	return nil
}

// contentLength sets length, and reports whether there is one.
func (h *head) contentLength() (bool, error) {
	values := h.header["Content-Length"]
	if len(values) == 0 {
		return false, nil
	}
	for _, v := range values[1:] {
		if v != values[0] {
			return false, malformedError("it has two different lengths")
		}
	}
	n, err := strconv.ParseUint(values[0], 10, 63)
	if err != nil {
		return false, malformedError("its length is not a number")
	}
	h.header["Content-Length"] = values[:1]
	h.length = int64(n)
	return true, nil
}

func hasToken(list, token string) bool {
	for list != "" {
		var item string
		item, list, _ = strings.Cut(list, ",")
		if strings.EqualFold(strings.Trim(item, " \t"), token) {
			return true
		}
	}
	return false
}

// tokenBytes are the bytes of a token (RFC 9110, section 5.6.2).
var tokenBytes = func() (set [256]bool) {
	for _, c := range "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" {
		set[c] = true
	}
	return set
}()

func validName(s string) bool {
	for i := range len(s) {
		if !tokenBytes[s[i]] {
			return false
		}
	}
	return s != ""
}

// CanCarry reports whether a header can carry the credential: one with control
// characters is no use with any provider.
func CanCarry(key secret.Text) bool { return validValue(key.Reveal()) }

// validValue refuses control characters, above all those that end a line. Bytes above
// 127 pass: what they mean is between sender and receiver.
func validValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
