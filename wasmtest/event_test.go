package wasmtest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// crowd registers a queue on each of three workers, sends two messages to each, and delivers everything.
func crowd(t *testing.T, options ...wasmtest.Option) string {
	s, plugin := newStage(t, append(options, wasmtest.WithWorkers(3))...)
	heard := hear(s)
	names := []string{"a", "b", "c"}
	for i, name := range names {
		listen(s, plugin, i, name)
	}
	for _, m := range []string{"1", "2"} {
		for _, name := range names {
			s.Enqueue(name, []byte(m))
		}
	}
	require.Equal(t, 6, s.Drain())
	return strings.Join(*heard, ", ")
}

func TestScheduler_FirstComeFirstServedWithoutASeed(t *testing.T) {
	require.Equal(t, "w0: 1, w1: 1, w2: 1, w0: 2, w1: 2, w2: 2", crowd(t))
}

func TestScheduler_ASeedMixesWorkersReproducibly(t *testing.T) {
	orders := map[string]bool{}
	for seed := range uint64(8) {
		order := crowd(t, wasmtest.WithSeed(seed))
		require.Equal(t, order, crowd(t, wasmtest.WithSeed(seed)))
		orders[order] = true
		for _, w := range []string{"w0", "w1", "w2"} {
			require.Less(t, strings.Index(order, w+": 1"), strings.Index(order, w+": 2"), "one thread's posts stay in order")
		}
	}
	require.Greater(t, len(orders), 4)
}

func TestScheduler_CanBeTheTests(t *testing.T) {
	last := func(pending []wasmtest.Event) int { return len(pending) - 1 }
	require.Equal(t, "w2: 1, w2: 2, w1: 1, w1: 2, w0: 1, w0: 2", crowd(t, wasmtest.WithScheduler(last)))
	require.Panics(t, func() { crowd(t, wasmtest.WithScheduler(func([]wasmtest.Event) int { return 9 })) })
}

func TestScheduler_EnumeratesAllOrders(t *testing.T) {
	orders := map[string]bool{}
	runs, complete := wasmtest.Explore(1000, func(choose func(int) int) {
		orders[crowd(t, wasmtest.WithScheduler(func(p []wasmtest.Event) int { return choose(len(p)) }))] = true
	})
	require.True(t, complete)
	require.Equal(t, 90, runs, "6! / 2!2!2!")
	require.Len(t, orders, 90)
}

func TestPending_TicksAndPostsInOrderOfArrival(t *testing.T) {
	s, plugin := newStage(t, wasmtest.WithWorkers(2))
	listen(s, plugin, 1, "q")
	as(s, plugin, 0, func(p *puppet) { p.must(opTick, 10) })
	s.Advance(20e6)
	s.Enqueue("q", nil)
	pending := s.Pending()
	require.Len(t, pending, 2)
	require.Equal(t, wasmtest.Tick, pending[0].Kind, "due at 10 ms, the message came at 20")
	require.Equal(t, "w0 tick context=1 queue=0", pending[0].String())
	require.Equal(t, "w1 queue-ready context=1 queue=1", pending[1].String())
	require.True(t, s.Deliver(pending[1]), "any of them can be delivered")
	require.True(t, s.Step())
	require.False(t, s.Step())
	require.False(t, s.Deliver(pending[0]), "only once")
	require.False(t, s.Discard(pending[0]))
}

func TestTrace_SameInputsSameText(t *testing.T) {
	run := func(seed uint64) string {
		var text strings.Builder
		crowd(t, wasmtest.WithTrace(&text), wasmtest.WithSeed(seed))
		return text.String()
	}
	a := run(1)
	require.Equal(t, a, run(1))
	require.NotEqual(t, a, run(2))
	require.Contains(t, a, "    0.000000s w2     > proxy_on_queue_ready(1, 3)\n")
	require.Contains(t, a, "    0.000000s w2       dequeue_shared_queue 3 = Ok\n")
	require.Contains(t, a, "    0.000000s w2       register_shared_queue \"c\" = Ok\n")
}
