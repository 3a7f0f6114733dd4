package localpg

import "testing"

func TestParseVersion(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text string
		want int
		ok   bool
	}{
		{"postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)", 15, true},
		{"postgres (PostgreSQL) 9.6.24", 9, true},
		{"postgres (PostgreSQL) 18beta1", 18, true},
		{"postgres (PostgreSQL) 17", 17, true},
		{"postgres (PostgreSQL) devel", 0, false},
		{"something else", 0, false},
		{"", 0, false},
	} {
		if got, ok := parseVersion(tc.text); got != tc.want || ok != tc.ok {
			t.Errorf("parseVersion(%q) = %d, %v, want %d, %v", tc.text, got, ok, tc.want, tc.ok)
		}
	}
}

func TestNewestPackageFolderComesFirst(t *testing.T) {
	t.Parallel()
	if a, b := versionIn("/usr/lib/postgresql/9/bin"), versionIn("/usr/lib/postgresql/15/bin"); a != 9 || b != 15 {
		t.Errorf("versions %d and %d, want 9 and 15", a, b)
	}
}
