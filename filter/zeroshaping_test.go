package filter_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// With holds of zero, a breaker that never trips and headroom that has nothing to take, each request fares as in a
// configuration without them.
func TestProtectionThatIsZeroChangesNothing(t *testing.T) {
	for name, more := range map[string][]any{
		"holds of zero":                {"hold", object{"success": "0s", "cancel": "0s", "failure": "0s"}, "min_active", 0},
		"a breaker that never trips":   {"breaker", object{"failures": 1000, "penalty": "0s", "max_penalty": "0s"}},
		"headroom without any to take": {"headroom", object{"window": "1m", "min": 2}},
		"all of them":                  {"hold", object{"success": "0s"}, "breaker", object{"failures": 1000, "penalty": "0s"}, "headroom", object{"mode": "aimd", "min": 2}},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(8) {
				plain := playOut(t, seed, pool("model", 2, "queue", 3, "max_wait", "700ms", "fair_by", "tenant"))
				zero := playOut(t, seed, pool("model", 2, append([]any{"queue", 3, "max_wait", "700ms", "fair_by", "tenant"}, more...)...))
				require.Equal(t, plain, zero, "seed %d", seed)
			}
		})
	}
}

// playOut plays a random schedule and returns what became of every request at every step, and the counts at the end.
func playOut(t *testing.T, seed uint64, p object) (story []string) {
	t.Helper()
	rnd := newRand(seed)
	g := start(t, 3, config(p))
	ends := []ending{answer(200), answer(503), answer(429, "retry-after", "9"), answer(403, "retry-after", "9"), clientGone, upstreamReset, inMidStream(upstreamReset),
		inMidStream(clientGone), hostReply(403, "rbac"), hostReply(200, "direct_response"), upgraded(clientGone)}
	var live []*wasmtest.Stream
	for range 150 {
		switch n := rnd.IntN(10); {
		case n < 4:
			live = append(live, g.send(rnd.IntN(3), "x-model", "m", "x-tenant", fmt.Sprint(rnd.IntN(3))))
		case n < 7 && len(live) > 0:
			i, end := rnd.IntN(len(live)), ends[rnd.IntN(len(ends))]
			if runs(live[i]) {
				end(live[i])
			} else {
				live[i].ClientGone()
			}
		default:
			g.host.Run(time.Duration(rnd.IntN(300)) * ms)
		}
		kept, line := live[:0], ""
		for _, s := range live {
			line += stateOf(s) + "; "
			if _, over := s.Ended(); !over {
				kept = append(kept, s)
			}
		}
		live = kept
		story = append(story, line)
	}
	for _, s := range live {
		s.ClientGone()
	}
	g.host.Run(minute)
	g.requireDrained("model")
	for _, m := range g.metrics() {
		if m.Type != wasmtest.Histogram {
			story = append(story, fmt.Sprint(m.Name, " ", m.Value))
		}
	}
	require.Zero(t, g.host.Run(time.Hour), "a drained gateway ticks")
	g.host.Close()
	return story
}
