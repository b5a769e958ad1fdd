package cluster

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// sharesByHand divides a limit slowly: it gives permits away one by one. claims are in the order of their numbers.
func sharesByHand(limit int64, claims []Claim, live int, start, turn int64) []int64 {
	shares := make([]int64, len(claims))
	if len(claims) == 0 {
		return shares
	}
	wanted := int64(0)
	for _, c := range claims {
		wanted += c.Wants
	}
	if wanted < limit {
		rest := limit - wanted
		for i, c := range claims {
			shares[i] = c.Wants
		}
		for ; rest >= int64(max(live, len(claims))); rest -= int64(max(live, len(claims))) {
			for i := range shares {
				shares[i]++
			}
		}
		for i := range min(rest, int64(len(claims))) {
			shares[(start+i)%int64(len(claims))]++
		}
		return shares
	}
	// Rounds: in each one everybody who wants more gets a permit, as long as there are enough for all of them.
	isUnsated := func(i int) bool { return claims[i].Wants > shares[i] }
	for round := 0; ; round++ {
		unsated := int64(0)
		for i := range claims {
			if isUnsated(i) {
				unsated++
			}
		}
		if unsated == 0 {
			return shares
		}
		if unsated > limit {
			if round == 0 {
				start += turn
			}
			break
		}
		for i := range claims {
			if isUnsated(i) {
				shares[i]++
				limit--
			}
		}
	}
	gotOdd := make([]bool, len(claims))
	for i := start; limit > 0; i++ {
		if at := int(i % int64(len(claims))); isUnsated(at) && !gotOdd[at] {
			gotOdd[at] = true
			limit--
		}
	}
	for i := range shares {
		if gotOdd[i] {
			shares[i]++
		}
	}
	return shares
}

func shares(limit int64, claims []Claim, live int, start, turn int64) []int64 {
	d := Divide(limit, slices.Clone(claims), live, start, turn)
	out := make([]int64, len(claims))
	for i, c := range claims {
		out[i] = d.Share(c.Number, c.Wants)
	}
	return out
}

// A question is the arguments of Divide.
type question struct {
	limit       int64
	claims      []Claim
	live        int
	start, turn int64
}

func (q question) shares() []int64 { return shares(q.limit, q.claims, q.live, q.start, q.turn) }

func drawQuestion(t *rapid.T) question {
	wants := rapid.SliceOfN(rapid.Int64Range(0, 12), 0, 9).Draw(t, "wants")
	q := question{
		limit: rapid.Int64Range(0, 40).Draw(t, "limit"), start: rapid.Int64Range(0, 20).Draw(t, "start"),
		turn: rapid.Int64Range(0, 20).Draw(t, "turn"),
	}
	number := int64(0)
	for _, w := range wants {
		number += rapid.Int64Range(1, 3).Draw(t, "gap")
		q.claims = append(q.claims, Claim{Number: number, Wants: w})
	}
	q.live = len(wants) + rapid.IntRange(0, 3).Draw(t, "silent")
	return q
}

func sum(values []int64) (total int64) {
	for _, v := range values {
		total += v
	}
	return total
}

func TestDivideIsWhatGivingOneByOneGives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := drawQuestion(t)
		require.Equal(t, sharesByHand(q.limit, q.claims, q.live, q.start, q.turn), q.shares(), "%+v", q)
	})
}

// S4, and nothing is left over that somebody wants.
func TestSharesAreMaxMinFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := drawQuestion(t)
		got := q.shares()
		require.LessOrEqual(t, sum(got), q.limit)
		wanted := int64(0)
		for i, c := range q.claims {
			wanted += c.Wants
			if got[i] >= c.Wants {
				continue
			}
			require.Equal(t, q.limit, sum(got), "somebody wants more: %+v %v", q, got)
			for j := range got {
				require.LessOrEqual(t, got[j], got[i]+1, "%d has more than one above %d, who wants more: %+v %v", j, i, q, got)
			}
		}
		if wanted <= q.limit {
			for i, c := range q.claims {
				require.GreaterOrEqual(t, got[i], c.Wants, "there is enough for all: %+v %v", q, got)
			}
		}
		if q.live == len(q.claims) && q.live > 0 {
			require.Equal(t, q.limit, sum(got), "all are there, so nothing is kept for others: %+v %v", q, got)
		}
	})
}

// S5: a claim that grows by one takes at most one permit from at most one other, and loses nothing.
func TestAClaimThatChangesByOneMovesOnePermit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := drawQuestion(t)
		if len(q.claims) == 0 {
			return
		}
		before := q.shares()
		i := rapid.IntRange(0, len(q.claims)-1).Draw(t, "who")
		q.claims[i].Wants++
		after := q.shares()
		require.GreaterOrEqual(t, after[i], before[i], "%+v", q)
		moved := int64(0)
		for j := range after {
			moved += max(after[j]-before[j], before[j]-after[j])
		}
		require.LessOrEqual(t, moved, int64(2), "%+v: %v, then %v", q, before, after)
	})
}

func TestOneMorePermitTakesNothingFromAnybody(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := drawQuestion(t)
		before := q.shares()
		turns := q.turn
		q.limit++
		after := q.shares()
		for i := range after {
			// With another level the odd permits have another beginning.
			require.GreaterOrEqual(t, after[i], before[i]-1, "%+v: %v, then %v", q, before, after)
			if turns == 0 {
				require.GreaterOrEqual(t, after[i], before[i], "%+v: %v, then %v", q, before, after)
			}
		}
	})
}

// With fewer permits than replicas that want one, everybody has one at times, and a turn moves at most one.
func TestTurnsServeEverybody(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 9).Draw(t, "replicas")
		q := question{limit: rapid.Int64Range(1, int64(n-1)).Draw(t, "limit"), live: n}
		for i := range n {
			q.claims = append(q.claims, Claim{Number: int64(i + 1), Wants: rapid.Int64Range(1, 9).Draw(t, "wants")})
		}
		had := make([]int64, n)
		var before []int64
		for range n {
			now := q.shares()
			require.Equal(t, q.limit, sum(now))
			moved := int64(0)
			for i := range now {
				had[i] += now[i]
				if before != nil {
					moved += max(now[i]-before[i], before[i]-now[i])
				}
			}
			require.LessOrEqual(t, moved, int64(2))
			before = now
			q.turn++
		}
		for i := range had {
			require.Equal(t, q.limit, had[i], "replica %d", i)
		}
	})
}

func TestSharesBySight(t *testing.T) {
	for _, c := range []struct {
		name        string
		limit       int64
		wants       []int64
		live        int
		start, turn int64
		want        []int64
	}{
		{"nobody", 6, nil, 0, 0, 0, []int64{}},
		{"a closed limit", 0, []int64{3, 0}, 2, 0, 0, []int64{0, 0}},
		{"all idle", 6, []int64{0, 0, 0}, 3, 0, 0, []int64{2, 2, 2}},
		{"one is busy, within the limit", 6, []int64{3, 0, 0}, 3, 0, 0, []int64{4, 1, 1}},
		{"one wants it all", 6, []int64{12, 0, 0}, 3, 0, 0, []int64{6, 0, 0}},
		{"all want more", 7, []int64{9, 9, 9}, 3, 0, 0, []int64{3, 2, 2}},
		{"the odd one is another replica's for another key", 7, []int64{9, 9, 9}, 3, 1, 0, []int64{2, 3, 2}},
		{"the odd one goes to who wants it", 5, []int64{1, 9, 9}, 3, 0, 0, []int64{1, 2, 2}},
		{"turns don't matter while each has one", 7, []int64{9, 9, 9}, 3, 0, 1, []int64{3, 2, 2}},
		{"fewer permits than replicas", 2, []int64{9, 9, 9}, 3, 0, 0, []int64{1, 1, 0}},
		{"and the next turn", 2, []int64{9, 9, 9}, 3, 0, 1, []int64{0, 1, 1}},
		{"the parts of those without a claim are kept", 6, []int64{1}, 3, 0, 0, []int64{3}},
		{"what is wanted is not kept for others", 6, []int64{9}, 3, 0, 0, []int64{6}},
	} {
		claims := []Claim{}
		for i, w := range c.wants {
			claims = append(claims, Claim{Number: int64(i + 1), Wants: w})
		}
		require.Equal(t, c.want, shares(c.limit, claims, c.live, c.start, c.turn), c.name)
	}
}
