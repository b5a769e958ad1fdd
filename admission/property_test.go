package admission_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/admission"
)

// A player plays random actions against the core and the model.
type player struct {
	*rig
	rt *rapid.T
}

// playerActions are the actions by name. Those that happen more often are there more than once.
var playerActions = map[string]func(player){
	"arrive": player.arriveAny, "arrive again": player.arriveAny, "release": player.releaseAny, "release again": player.releaseAny,
	"release and hold": player.holdAny,
	"cancel":           func(p player) { w := p.pick(); p.cancel(w, p.index(len(w.waiting))) },
	"message":          func(p player) { w := p.pick(); p.look(w, p.index(len(w.waiting))) },
	"tick":             func(p player) { w := p.pick(); p.expire(w); p.reconcile(w) },
	"advance":          func(p player) { p.now += rapid.Int64Range(0, 20).Draw(p.rt, "ms") * ms },
	"late clock":       player.arriveLate,
	"die":              player.die,
	"false death":      player.dieByMistake,
	"revive":           player.revive,
	"lost record":      func(p player) { p.state, p.model = nil, model{} }, // the store is cleared; all count anew
	"lost release":     player.loseRelease,
	"lost cancel":      player.loseCancel,
	"limit":            player.changeLimit,
	"override":         player.retuneAny,
	"reload":           player.reload,
	"retire":           player.retire,
	"recall":           player.heedAny,
}

// play runs random actions, and then drains the pool.
func play(t *rapid.T, g *rig) {
	p := player{g, t}
	p.configure()
	g.fair, g.sparing = rapid.Bool().Draw(t, "fair"), rapid.Bool().Draw(t, "sparing")
	for range rapid.IntRange(1, 3).Draw(t, "workers") {
		g.add()
	}
	actions := map[string]func(*rapid.T){"": func(t *rapid.T) {
		if err := g.model.differs(g.state); err != nil {
			t.Fatal(err)
		}
	}}
	for name, act := range playerActions {
		actions[name] = func(t *rapid.T) { act(player{g, t}) }
	}
	t.Repeat(actions)
	g.drain()
}

func (p player) configure() {
	p.limit, p.queue = p.drawLimit(4), rapid.IntRange(0, 6).Draw(p.rt, "queue")
}

func (p player) pick() *rigWorker { return rapid.SampledFrom(p.workers).Draw(p.rt, "worker") }

// index chooses one of n; the action doesn't take place if n is 0.
func (p player) index(n int) int {
	if n == 0 {
		p.rt.Skip()
	}
	return rapid.IntRange(0, n-1).Draw(p.rt, "index")
}

func (p player) millis(label string, least, most int64) admission.Duration {
	return admission.Duration(rapid.Int64Range(least, most).Draw(p.rt, label)) * admission.Millisecond
}

func (p player) arriveAny() {
	p.arrive(p.pick(), rapid.Uint64Range(1, 4).Draw(p.rt, "tenant"), p.millis("budget", 0, 50))
}

// arriveLate is a step by a worker that read the clock earlier.
func (p player) arriveLate() {
	back := int64(p.millis("ms", 1, 5))
	p.now -= back
	p.arriveAny()
	p.now += back
}

func (p player) releaseAny() {
	w := p.pick()
	p.release(w, p.index(len(w.running)), 0, false, 0)
}

func (p player) holdAny() {
	w := p.pick()
	p.release(w, p.index(len(w.running)), p.millis("hold", 1, 40), rapid.Bool().Draw(p.rt, "charge"),
		rapid.IntRange(0, 2).Draw(p.rt, "min active"))
}

// die ends a worker for good. Another one takes its place in the table.
func (p player) die() {
	i := p.index(len(p.workers))
	p.workers = slices.Delete(p.workers, i, i+1)
	if rapid.Bool().Draw(p.rt, "reap first") {
		p.maintain(nil, false)
	}
	p.add()
}

func (p player) dieByMistake() {
	w := p.pick()
	w.alive = false
	p.maintain(nil, false)
	w.alive = true
}

// revive is a worker that finds out: it is a new incarnation in the same seat.
func (p player) revive() {
	w := p.pick()
	p.claims++
	w.Epoch = p.claims<<32 | 9
	p.reconcile(w)
}

// loseRelease is a release that found no free swap.
func (p player) loseRelease() {
	w := p.pick()
	i := p.index(len(w.running))
	w.running = slices.Delete(w.running, i, i+1)
}

func (p player) loseCancel() {
	w := p.pick()
	i := p.index(len(w.waiting))
	w.waiting = slices.Delete(w.waiting, i, i+1)
}

func (p player) changeLimit() {
	p.limit = p.drawLimit(5)
	p.maintain(nil, true)
}

func (p player) retuneAny() {
	switch rapid.IntRange(0, 4).Draw(p.rt, "override") {
	case 0, 1:
		p.override(p.drawLimit(5))
	case 2:
		p.inheritFrom(admission.Override{Source: admission.FromPool, Limit: p.drawLimit(5)})
	case 3:
		p.inheritFrom(admission.Override{})
	case 4:
		p.forgetOverrides(false)
	}
}

// drawLimit draws a limit. One that lets workers keep spares is larger.
func (p player) drawLimit(most int) int {
	limit := rapid.IntRange(0, most).Draw(p.rt, "limit")
	if p.sparing && rapid.Bool().Draw(p.rt, "roomy") {
		limit += 4
	}
	return limit
}

// heedAny is a recall that arrives.
func (p player) heedAny() {
	w := p.pick()
	if !w.recalled {
		p.rt.Skip()
	}
	p.heed(w)
}

// reload is another incarnation with another configuration, in the same process.
func (p player) reload() {
	if len(p.workers) > 4 {
		p.rt.Skip()
	}
	p.configure()
	p.add()
}

func (p player) retire() {
	if e := p.do(admission.Retire(p.now, p.gen)); e.Verdict == admission.VerdictBusy {
		return
	}
	if e := p.do(admission.Reconcile(p.target(p.workers[0]), admission.Truth{})); e.Verdict != admission.VerdictStale {
		p.rt.Fatalf("retired, and verdict %d", e.Verdict)
	}
	p.gen++
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { play(t, newRig(t)) })
}

// FuzzSteps plays operations read from bytes against the core and the model.
func FuzzSteps(f *testing.F) {
	f.Add([]byte("\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff"))
	f.Add([]byte{2, 4, 1, 0, 0, 0, 1, 0, 2, 0, 3, 1, 0, 4, 0, 1, 1, 0, 7, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 3 || len(b) > 200 {
			return
		}
		g := newRig(t)
		g.limit, g.queue, g.fair, g.sparing = int(b[0]%5), int(b[1]%6), b[2]%2 == 0, b[2]%4 > 1
		if g.sparing {
			g.limit += 4
		}
		g.add()
		g.add()
		for b = b[3:]; len(b) >= 2; b = b[2:] {
			playByte(g, b[0], int(b[1]))
		}
		g.drain()
	})
}

// playByte carries out one action.
func playByte(g *rig, what byte, arg int) {
	w := g.workers[int(what>>4)%len(g.workers)]
	some := func(n int) (int, bool) { return arg % max(n, 1), n > 0 }
	switch what % 13 {
	case 0, 1, 2:
		g.arrive(w, uint64(arg%4)+1, admission.Duration(arg/4)*admission.Millisecond)
	case 3, 4:
		if i, ok := some(len(w.running)); ok {
			g.release(w, i, admission.Duration(arg%3*arg/3)*admission.Millisecond, arg%2 == 0, arg%3)
		}
	case 5:
		if i, ok := some(len(w.waiting)); ok {
			g.cancel(w, i)
		}
	case 6:
		if i, ok := some(len(w.waiting)); ok {
			g.look(w, i)
		}
	case 7:
		g.expire(w)
		g.reconcile(w)
	case 8:
		g.now += int64(arg) * ms / 4
	case 9:
		if g.limit = arg % 6; g.sparing {
			g.limit = arg % 11
		}
		g.maintain(nil, true)
	case 10:
		w.alive = false
		g.maintain(nil, false)
		w.alive = true
	case 11:
		g.claims++
		w.Epoch = g.claims<<32 | uint64(arg)
		if arg%2 == 0 {
			g.reconcile(w)
		} else if e := g.do(admission.Retire(g.now, g.gen)); e.Verdict == admission.VerdictDone {
			g.gen++
		}
	case 12:
		switch limit := arg / 4 % 11; arg % 4 {
		case 0, 1:
			g.override(limit)
		case 2:
			g.inheritFrom(admission.Override{Source: admission.FromPool, Limit: limit})
		case 3:
			g.forgetOverrides(arg%8 == 3)
		}
	}
}
