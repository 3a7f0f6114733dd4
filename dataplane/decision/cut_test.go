package decision

import (
	"strings"
	"testing"
	"unicode/utf8"

	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	"google.golang.org/protobuf/proto"
)

// A name that a client chose never makes a record that cannot be written: the client would be
// missing in the log.
func TestNameIsCutBetweenCharacters(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"m", strings.Repeat("a", maxName-1) + "é", strings.Repeat("a", maxName-3) + "😀", strings.Repeat("é", maxName), "\xff\xfe", strings.Repeat("a", maxName) + "\xff",
	} {
		got := Cut(name)
		if len(got) > maxName || !utf8.ValidString(got) {
			t.Errorf("%q is cut to %q", name, got)
		}
		if _, err := proto.Marshal(&ledgerv1.RequestRecord{ModelRequested: got}); err != nil {
			t.Errorf("a record of %q cannot be written: %v", name, err)
		}
	}
	if got := Cut("short"); got != "short" {
		t.Errorf("a short name is cut to %q", got)
	}
}
