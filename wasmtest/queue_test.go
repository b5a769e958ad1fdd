package wasmtest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// listen registers a queue for the plugin's root on a worker.
func listen(s *stage, plugin *wasmtest.Plugin, worker int, name string) (id uint32) {
	as(s, plugin, worker, func(p *puppet) { id = uint32(p.must(opRegister, name).N) })
	return id
}

// hear notes what each queue-ready dequeues, as "w0 ctx: message".
func hear(s *stage) *[]string {
	heard := new([]string)
	s.do("queue_ready", func(p *puppet) {
		a := p.call(opDequeue, p.Args[1])
		text := a.B
		if a.Status != wasmtest.StatusOk {
			text = a.Status.String()
		}
		*heard = append(*heard, p.VM.Worker().Name()+": "+text)
	})
	return heard
}

func TestQueue_EachEnqueueWakesTheOwnerOnceAndLater(t *testing.T) {
	s, plugin := newStage(t, wasmtest.WithWorkers(2))
	heard := hear(s)
	id := listen(s, plugin, 1, "q")
	as(s, plugin, 0, func(p *puppet) {
		require.EqualValues(t, id, p.must(opResolve, "", "q").N)
		p.must(opEnqueue, id, "a")
		p.must(opEnqueue, id, "b")
		require.Empty(t, *heard, "not before the callback has returned")
	})
	require.Empty(t, *heard, "not before the test delivers")
	require.Len(t, s.Pending(), 1, "one thread's events are in order: only the first can come next")
	require.Equal(t, 2, s.Drain())
	require.Equal(t, []string{"w1: a", "w1: b"}, *heard)
}

func TestQueue_ToOneselfIsLaterToo(t *testing.T) {
	s, plugin := newStage(t)
	id := listen(s, plugin, 0, "q")
	depth, most := 0, 0
	left := 3
	s.do("queue_ready", func(p *puppet) {
		depth++
		most = max(most, depth)
		p.must(opDequeue, id)
		if left--; left > 0 {
			p.must(opEnqueue, id, "again")
		}
		depth--
	})
	require.Equal(t, wasmtest.StatusOk, s.Enqueue("q", nil))
	require.Equal(t, 3, s.Drain())
	require.Equal(t, 1, most, "never inside another callback")
}

func TestQueue_EmptyAndUnknown(t *testing.T) {
	s, plugin := newStage(t, wasmtest.WithVMID("mine"))
	id := listen(s, plugin, 0, "q")
	require.NotZero(t, id)
	as(s, plugin, 0, func(p *puppet) {
		require.Equal(t, wasmtest.StatusEmpty, p.call(opDequeue, id).Status)
		require.Equal(t, wasmtest.StatusNotFound, p.call(opDequeue, id+1).Status)
		require.Equal(t, wasmtest.StatusNotFound, p.call(opEnqueue, id+1, "x").Status)
		require.Equal(t, wasmtest.StatusNotFound, p.call(opResolve, "", "other").Status)
		require.Equal(t, wasmtest.StatusNotFound, p.call(opResolve, "other", "q").Status)
		require.EqualValues(t, id, p.must(opResolve, "mine", "q").N)
	})
	require.Equal(t, wasmtest.StatusNotFound, s.Enqueue("other", nil))
}

func TestQueue_RegisteringAgainTakesOverDeliveryAndKeepsMessages(t *testing.T) {
	s, plugin := newStage(t, wasmtest.WithWorkers(2))
	heard := hear(s)
	id := listen(s, plugin, 0, "q")
	s.Enqueue("q", []byte("old"))
	require.Equal(t, id, listen(s, plugin, 1, "q"), "the id belongs to the name")
	s.Enqueue("q", []byte("new"))
	q, ok := s.Queue("q")
	require.True(t, ok)
	require.Equal(t, "w1", q.Owner.Name())
	require.Len(t, q.Messages, 2)
	require.Equal(t, []string{"q"}, s.QueueNames())

	s.Drain()
	require.Equal(t, []string{"w0: old", "w1: new"}, *heard, "a wake goes to the owner at the time of sending")
}

func TestQueue_ForADeadRootTheMessageStaysSilently(t *testing.T) {
	s, old := newStage(t)
	heard := hear(s)
	listen(s, old, 0, "q")
	keep, err := s.Load(wasmtest.PluginConfig{Name: "second"})
	require.NoError(t, err)
	old.Retire()
	require.Equal(t, wasmtest.StatusOk, s.Enqueue("q", []byte("x")))
	require.Equal(t, 1, s.Drain())
	require.Empty(t, *heard)
	q, _ := s.Queue("q")
	require.Len(t, q.Messages, 1)

	listen(s, keep, 0, "q")
	require.Zero(t, s.Drain(), "taking over wakes nobody for the old messages")
}

func TestQueue_ForADeadVMNobodyWakesAndItsSuccessorIsReachedByContextID(t *testing.T) {
	s, plugin := newStage(t)
	heard := hear(s)
	listen(s, plugin, 0, "q")
	s.Worker(0).Kill()
	s.Enqueue("q", []byte("lost wake"))
	s.Drain()
	require.Empty(t, *heard)

	require.NoError(t, s.Worker(0).Reload())
	s.Enqueue("q", []byte("second"))
	s.Drain()
	require.Equal(t, []string{"w0: lost wake"}, *heard, "the new root has the old one's id, and the old message is first")
}

func TestQueue_RegisteredByAStreamBelongsToItsRoot(t *testing.T) {
	s, plugin := newStage(t)
	listen(s, plugin, 0, "q")
	q, _ := s.Queue("q")
	require.Equal(t, plugin.Root(0).ContextID(), q.Context)
}

func TestQueue_TheCanarysGoesToTheMainThread(t *testing.T) {
	s := emptyStage(t, wasmtest.WithCanary(), wasmtest.WithMainThread())
	heard := hear(s)
	s.on("configure", func(p *puppet) uint32 {
		if p.VM.Worker().Index() == wasmtest.CanaryThread {
			p.must(opRegister, "q")
		}
		return 1
	})
	s.MustLoad(wasmtest.PluginConfig{})
	s.Enqueue("q", []byte("x"))
	s.Drain()
	require.Equal(t, []string{"main: x"}, *heard)
}

func TestQueue_AnUndeliveredWakeCanBeDiscarded(t *testing.T) {
	s, plugin := newStage(t)
	heard := hear(s)
	listen(s, plugin, 0, "q")
	s.Enqueue("q", []byte("x"))
	e := s.Pending()[0]
	require.Equal(t, wasmtest.QueueReady, e.Kind)
	require.True(t, s.Discard(e))
	require.False(t, s.Deliver(e), "it is no longer pending")
	require.Zero(t, s.Drain())
	require.Empty(t, *heard)
}

func TestDrain_GivesUpOnEventsWithoutEnd(t *testing.T) {
	s, plugin := newStage(t, wasmtest.WithDrainLimit(50))
	id := listen(s, plugin, 0, "q")
	s.do("queue_ready", func(p *puppet) { p.must(opEnqueue, id, "") })
	s.Enqueue("q", nil)
	require.Equal(t, 50, s.Drain())
	require.Equal(t, wasmtest.EndlessEvents, s.Violations()[0].Kind)
	s.ForgetViolations()
}
