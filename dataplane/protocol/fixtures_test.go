package protocol_test

import (
	"net/url"
	"strconv"
	"testing"
	"time"
)

// testTime is the moment at which the tests take place.
var testTime = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func parseQuery(t testing.TB, raw string) url.Values {
	t.Helper()
	q, err := url.ParseQuery(raw)
	if err != nil {
		t.Fatal(err)
	}
	return q
}
