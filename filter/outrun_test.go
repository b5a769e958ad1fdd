package filter_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate/wasmtest"
)

// A worker that has lost a turn's swaps tries once in the next one. That it was declared dead meanwhile, and has to take a
// new seat and count anew what it has, is no such try: what it could not store is stored, and it goes on.
func TestAWorkerThatLostATurnAndWasTakenForDeadGoesOn(t *testing.T) {
	g := start(t, 2, with(config(pool("model", 3, "queue", 4, "max_wait", "60s")), "lease", "1s"))
	ended, runs := g.sendModel(0, "m"), g.sendModel(0, "m")
	other := g.sendModel(1, "m")
	g.failing(0, "/model/", wasmtest.StatusCasMismatch, func() bool { return true })
	ended.Respond(200, "ok")
	g.stall(0, 2*time.Second)
	g.host.OnHostCall(nil)
	g.host.Run(time.Second)
	g.requireRunning(g.sendModel(0, "m"), "a request on the worker, where two of three run")
	runs.Respond(200, "ok")
	other.Respond(200, "ok")
	g.host.Run(time.Second)
	g.requireCapacity("m", 2)
}
