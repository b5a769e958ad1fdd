package filter_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/wasmtest"
)

// stall lets time pass in which a worker gets no event.
func (g *gateway) stall(worker int, d time.Duration) {
	for end := g.host.Elapsed() + d; g.host.Elapsed() < end; {
		g.host.Advance(10 * ms)
		for _, e := range g.host.Pending() {
			if e.Worker.Index() != worker {
				g.host.Deliver(e)
			}
		}
	}
}

const workerTable = "headgate/3/default/workers"

func (g *gateway) workers() *admission.WorkerTable {
	var t admission.WorkerTable
	b, _, _ := g.host.SharedData().Get(workerTable)
	t.Decode(b)
	return &t
}

// A worker that was taken for dead takes a new seat before it admits anybody: what it admitted under the old one would be
// taken back with the dead worker's next sweep, while it runs.
func TestAWorkerThatWasTakenForDeadAdmitsUnderANewSeat(t *testing.T) {
	g := start(t, 2, with(config(pool("model", 1)), "lease", "1s"))
	g.sendModel(0, "mine")
	g.sendModel(1, "other") // so that worker 1 looks after the others
	g.stall(0, 1300*ms)
	require.Equal(t, 1, g.counter("model.reaped"), "the worker is taken for dead")
	require.Len(t, g.workers().AppendDead(nil), 1)
	g.requireRunning(g.sendModel(0, "m"), "a request on the worker that was taken for dead")
	require.Empty(t, g.workers().AppendDead(nil), "it has a new seat")
	g.stall(0, 950*ms) // the next sweep, and less than the new seat's lease
	g.requireRefused(g.sendModel(1, "m"), noPermit, "model", "a second request at a limit of one")
}

// A seat is kept while a record says something of it that isn't true any more. If another worker took it, nobody would
// put that right.
func TestASeatIsKeptUntilTheRecordsAreRight(t *testing.T) {
	g := start(t, 2, config(pool("model", 1, "queue", 1)))
	s := g.sendModel(0, "m")
	failing := true
	g.host.OnHostCall(func(c *wasmtest.HostCall) {
		if failing && c.Name() == "proxy_set_shared_data" && strings.Contains(c.Text(0), "/model/") && c.Worker().Index() == 0 {
			c.Fail(wasmtest.StatusInternalFailure)
		}
	})
	s.Respond(200, "ok")
	g.host.Run(10 * second) // two leases
	require.False(t, g.workers().Full())
	b, _, ok := g.host.SharedData().Get(workerTable)
	require.True(t, ok)
	require.Len(t, b, 5+24, "the worker has its seat yet")
	require.Zero(t, g.counter("model.reaped"))
	other := g.sendModel(1, "n")
	g.requireRunning(other, "a request on another worker")
	failing = false
	g.host.Run(100 * ms)
	require.Equal(t, 1, g.gauge("model.inflight"), "the other worker's")
	g.requireCapacity("m", 1)
	other.Respond(200, "ok")
	g.host.Run(100 * ms)
	g.requireDrained("model")
	g.requireQuiet()
}

// fillTable gives the seats that are left to workers that live for an hour.
func (g *gateway) fillTable() {
	table := g.workers()
	for !table.Full() {
		_, ok := table.Claim(7, g.host.Monotonic(), admission.Hour)
		require.True(g.t, ok)
	}
	g.host.SharedData().Set(workerTable, table.Append(nil))
}

// In a full table a newcomer gets the seat of a dead worker. Nobody can see any more that it died, so the newcomer takes
// back what it held.
func TestWhoDisplacesADeadWorkerTakesBackWhatItHeld(t *testing.T) {
	g := start(t, 3, with(config(pool("model", 1)), "lease", "1s"))
	g.sendModel(0, "m")
	g.fillTable()
	g.host.Worker(0).Kill()
	g.host.Run(3 * second)
	require.Equal(t, 1, g.gauge("model.inflight"), "nobody has looked yet")
	g.requireRunning(g.sendModel(1, "n"), "a request on a worker that displaces the dead one")
	require.Equal(t, 1, g.counter("model.reaped"))
	g.requireRunning(g.sendModel(1, "m"), "a request for the dead worker's permit")
}

// Where living workers have all seats, a request follows on_error. The log says why, and not once for each request.
func TestARequestWithoutASeatFollowsOnError(t *testing.T) {
	for _, onError := range []string{"open", "closed"} {
		g := start(t, 1, with(config(pool("model", 1)), "on_error", onError))
		g.fillTable()
		for range 3 {
			s := g.sendModel(0, "m")
			if onError == "open" {
				g.requireRunning(s, "a request without a seat")
				s.Respond(200, "ok")
			} else {
				g.requireRefused(s, noPermit, "model", "a request without a seat")
			}
		}
		require.Len(t, g.host.Logs(), 1)
		require.Equal(t, "no seat left in the worker table of domain default", g.host.Logs()[0].Message)
		require.Equal(t, 3, g.counter("model.store_error"))
		require.Zero(t, g.gauge("model.inflight"))
	}
}
