package cluster

import (
	"cmp"
	"math"
	"slices"
)

// A Claim is what one replica wants of a key's limit.
type Claim struct {
	Number int64 // the replica's place in the order in which replicas joined. Each has its own
	Wants  int64 // how many permits it could use now
}

// A Division says how a limit is divided. Its zero value gives nothing to anybody.
//
// Everybody gets what it wants up to Level, and Spare more. Where permits are left, those who get one more are next to
// each other in the order of numbers, from First to Last, the lowest number coming after the highest.
type Division struct {
	Level, Spare int64
	HasOdd       bool
	First, Last  int64
}

// noLevel is the level when everybody gets all that it wants.
const noLevel = math.MaxInt32

// Divide divides limit among the claims. It changes nothing but the order of claims.
//
// When the claims ask for more than the limit, it is divided by max-min fairness. What doesn't come out even goes to
// those who want more than the level, one permit each, beginning with the replica that is start places behind the one
// of the lowest number. When not everybody gets even one permit, the beginning moves on with turn, so that nobody is
// left out for good.
//
// When the claims ask for less than the limit, everybody gets an equal part of the rest to spare. live is how many
// replicas there are. The part of those that make no claim is kept for them. What doesn't come out even goes to the
// claims first.
func Divide(limit int64, claims []Claim, live int, start, turn int64) Division {
	n := int64(len(claims))
	if n == 0 || limit <= 0 {
		return Division{}
	}
	slices.SortFunc(claims, func(a, b Claim) int { return cmp.Compare(a.Wants, b.Wants) })
	rest := limit
	for i, c := range claims {
		wanting := n - int64(i)
		if c.Wants*wanting > rest {
			d := Division{Level: rest / wanting}
			if d.Level == 0 {
				start += turn
			}
			d.giveOdd(rest%wanting, claims, start)
			return d
		}
		rest -= c.Wants
	}
	parts := max(n, int64(live))
	d := Division{Level: noLevel, Spare: rest / parts}
	if odd := rest % parts; odd < n {
		d.giveOdd(odd, claims, start)
	} else {
		d.Spare++
	}
	return d
}

// giveOdd gives one permit more to so many of the claims that may have one.
func (d *Division) giveOdd(odd int64, claims []Claim, start int64) {
	if odd == 0 {
		return
	}
	slices.SortFunc(claims, func(a, b Claim) int { return cmp.Compare(a.Number, b.Number) })
	n := int64(len(claims))
	d.HasOdd = true
	d.First = claims[start%n].Number
	for i := start % n; odd > 0; i = (i + 1) % n {
		if d.Level == noLevel || claims[i].Wants > d.Level {
			d.Last = claims[i].Number
			odd--
		}
	}
}

// Share is what the replica of that number gets when it wants so much.
func (d Division) Share(number, wants int64) int64 {
	share := min(wants, d.Level) + d.Spare
	if d.HasOdd && (d.Level == noLevel || wants > d.Level) && d.isBetween(number) {
		share++
	}
	return share
}

// isBetween reports whether a number is from First to Last.
func (d Division) isBetween(number int64) bool {
	if d.First <= d.Last {
		return d.First <= number && number <= d.Last
	}
	return number >= d.First || number <= d.Last
}
