package settings

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

// Bytes is a size in bytes. It is written as a whole number with B, KiB, MiB,
// GiB or TiB, for instance "16MiB"; a bare number is bytes. It is never negative.
type Bytes int64

var byteUnits = []struct {
	name string
	size int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// String writes the size in the largest unit that divides it.
func (b Bytes) String() string {
	for _, u := range byteUnits {
		if b != 0 && int64(b)%u.size == 0 {
			return strconv.FormatInt(int64(b)/u.size, 10) + u.name
		}
	}
	return "0B"
}

// ParseBytes reads a size as Bytes describes it.
func ParseBytes(s string) (Bytes, error) {
	digits, size := s, int64(1)
	for _, u := range byteUnits {
		if head, ok := strings.CutSuffix(s, u.name); ok {
			digits, size = strings.TrimSpace(head), u.size
			break
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || digits[0] == '+' {
		return 0, errors.New("want a size such as 16MiB (units B, KiB, MiB, GiB, TiB)")
	}
	if n > math.MaxInt64/size {
		return 0, errors.New("the size does not fit into 64 bits")
	}
	return Bytes(n * size), nil
}

func (l *leaf) supported() bool {
	switch t := l.value.Type(); {
	case reflect.PointerTo(t).Implements(typeText), t == typeDuration, t == typeBytes, t == typeList, t == typeMap:
		return true
	default:
		switch t.Kind() {
		case reflect.String, reflect.Bool, reflect.Int, reflect.Int64:
			return true
		}
		return false
	}
}

// isList and isMap tell the settings that are not one scalar.
func (l *leaf) isList() bool { return l.value.Type() == typeList }
func (l *leaf) isMap() bool  { return l.value.Type() == typeMap }

// set reads a value from one text, as it stands in the environment, a flag, a
// default tag or a scalar of the file. The error shows the text unless it is a
// secret.
func (l *leaf) set(text, source string) error {
	if err := l.parse(text); err != nil {
		if l.secret {
			return fmt.Errorf("the value is not acceptable (not shown, it is a secret): want %s", l.want())
		}
		return fmt.Errorf("%q: %w", clip(text), err)
	}
	l.source = source
	return nil
}

func clip(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}

func (l *leaf) parse(text string) error {
	if len(l.enum) > 0 && !slices.Contains(l.enum, text) {
		return fmt.Errorf("want one of %s", strings.Join(l.enum, ", "))
	}
	if l.secret && text == secret.Redacted {
		return errors.New("this is a printed secret")
	}
	switch v := l.value.Addr().Interface().(type) {
	case encoding.TextUnmarshaler:
		return v.UnmarshalText([]byte(text))
	case *time.Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return errors.New("want " + l.want())
		}
		*v = d
		return nil
	case *Bytes:
		b, err := ParseBytes(text)
		if err != nil {
			return err
		}
		*v = b
		return nil
	case *[]string:
		var parts []string
		if text != "" {
			parts = strings.Split(text, ",")
		}
		return l.setList(parts)
	case *map[string]string:
		return l.setPairs(text)
	}
	switch l.value.Kind() {
	case reflect.String:
		l.value.SetString(text)
	case reflect.Bool:
		if text != "true" && text != "false" {
			return errors.New("want " + l.want())
		}
		l.value.SetBool(text == "true")
	default: // int, int64
		n, err := strconv.ParseInt(text, 10, l.value.Type().Bits())
		if err != nil || text[0] == '+' {
			return errors.New("want " + l.want())
		}
		l.value.SetInt(n)
	}
	return nil
}

// setList replaces a list. Space around its parts is not part of them.
func (l *leaf) setList(parts []string) error {
	out := make([]string, 0, len(parts))
	for _, p := range parts {
		p = strings.TrimSpace(p)
		if p == "" {
			return errors.New("an entry of the list is empty")
		}
		out = append(out, p)
	}
	l.value.Set(reflect.ValueOf(out))
	return nil
}

// setPairs replaces a map from the text "k=v,k2=v2".
func (l *leaf) setPairs(text string) error {
	out := map[string]string{}
	for _, pair := range strings.Split(text, ",") {
		if strings.TrimSpace(pair) == "" {
			if text == "" {
				break
			}
			return errors.New("an entry is empty")
		}
		k, v, ok := strings.Cut(pair, "=")
		k, v = strings.TrimSpace(k), strings.TrimSpace(v)
		if _, twice := out[k]; !ok || k == "" || twice {
			return errors.New("want name=value pairs with commas, each name once")
		}
		out[k] = v
	}
	l.value.Set(reflect.ValueOf(out))
	return nil
}

// want says in words what the setting takes.
func (l *leaf) want() string {
	switch t := l.value.Type(); t {
	case typeDuration:
		return "a duration such as 30s or 5m"
	case typeBytes:
		return "a size such as 16MiB"
	case typeList:
		return "a list"
	case typeMap:
		return "name and value pairs"
	default:
		if len(l.enum) > 0 {
			return "one of " + strings.Join(l.enum, ", ")
		}
		switch t.Kind() {
		case reflect.Bool:
			return "true or false"
		case reflect.Int, reflect.Int64:
			return "a whole number"
		}
		return "text of the right form"
	}
}
