package llm

// efforts are the efforts with the most tokens of reasoning that stand for each
// where a protocol counts tokens. The numbers are ours: vendors publish none.
var efforts = [...]struct {
	effort Effort
	budget int64
}{
	{EffortMinimal, 1024}, {EffortLow, 2048}, {EffortMedium, 8192}, {EffortHigh, 16384}, {EffortXHigh, 32768}, {EffortMax, 65536},
}

// Tokens is the budget that stands for the effort; 0 for none and for one that is
// not known.
func (e Effort) Tokens() int64 {
	for _, row := range efforts {
		if row.effort == e {
			return row.budget
		}
	}
	return 0
}

// EffortOf is the effort that stands for a budget: the smallest with at least as
// many tokens.
func EffortOf(budget int64) Effort {
	for _, row := range efforts {
		if budget <= row.budget {
			return row.effort
		}
	}
	return EffortMax
}

// Nearest is the effort itself, or the nearest one that is offered. offered is in
// rising order and not empty.
func (e Effort) Nearest(offered ...Effort) Effort {
	best := offered[0]
	for _, o := range offered {
		if o == e {
			return e
		}
		if o.Tokens() <= e.Tokens() {
			best = o
		}
	}
	return best
}
