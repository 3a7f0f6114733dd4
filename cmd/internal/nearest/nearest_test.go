package nearest

import "testing"

func TestTheNearestNameIsFoundAndAFarOneIsNot(t *testing.T) {
	t.Parallel()
	names := []string{"upstream", "upstream-model", "route", "group"}
	for name, want := range map[string]string{
		"upstreem": "upstream",
		"rout":     "route",
		"groups":   "group",
		"zebra":    "",
		"consumer": "",
		"":         "",
	} {
		if got := Of(name, names); got != want {
			t.Errorf("nearest of %q is %q, want %q", name, got, want)
		}
	}
	if got := Hint("rout", names); got != "; did you mean route?" {
		t.Errorf("hint %q", got)
	}
}
