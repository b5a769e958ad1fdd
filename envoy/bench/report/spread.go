package report

import (
	"cmp"
	"slices"
)

// A Spread is what several measurements of one thing gave.
type Spread struct{ Median, From, To float64 }

// SpreadOf is the spread of at least one value.
func SpreadOf[N ~int | ~int64 | ~float64](values []N) Spread {
	return Spread{float64(Median(values)), float64(slices.Min(values)), float64(slices.Max(values))}
}

// Exactly is the spread of what gives the same every time.
func Exactly(value float64) Spread { return Spread{value, value, value} }

// Median is the middle value; of an even number of values, the upper one of the two in the middle.
func Median[N cmp.Ordered](values []N) N {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
