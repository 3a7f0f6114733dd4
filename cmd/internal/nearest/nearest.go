// Package nearest finds what somebody probably meant.
package nearest

// Of returns the candidate that takes the fewest edits from name, the first of
// equals, or "" if none is within a third of name's length (at least two edits).
func Of(name string, candidates []string) string {
	best, least := "", max(2, len(name)/3)+1
	for _, c := range candidates {
		if d := distance(name, c, least); d < least {
			best, least = c, d
		}
	}
	return best
}

// Hint is ", did you mean x?" or "", to be put behind a message.
func Hint(name string, candidates []string) string {
	if n := Of(name, candidates); n != "" {
		return "; did you mean " + n + "?"
	}
	return ""
}

// distance is Levenshtein's, over bytes, or any number of at least limit.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
