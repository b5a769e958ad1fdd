package admission_test

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/headgate/headgate/admission"
)

// spareLimit is a limit that lets three workers keep spares, and makes them meet at it.
const spareLimit = 12

// spareModel is a pool without a queue in which some permits may be spare: at any moment no more run than the limit. An
// acquire may be turned away although a permit is only spare.
var spareModel = porcupine.Model{
	Init: func() any { return 0 },
	Step: func(state, input, output any) (bool, any) {
		running := state.(int)
		switch {
		case input.(lineOp).kind == admission.OpRelease:
			return true, running - 1
		case output.(admission.Verdict) == admission.VerdictGranted:
			return running < spareLimit, running + 1
		}
		return true, running
	},
}

// A spareClient is one goroutine's use of the pool, as a worker that keeps spares.
type spareClient struct {
	lineClient
	recalled []atomic.Bool // by client
	running  []uint32
	spares   int
	ahead    bool
	ebb      bool // more requests end than come
	mutated  bool // a release makes two spares
	kept     *atomic.Int64
}

// step carries an operation out until it is stored.
func (c *spareClient) step(op admission.Op) admission.Verdict {
	for {
		b, version := c.store.get()
		runtime.Gosched()
		next, e := c.m.Step(b, &op)
		if e.Verdict == admission.VerdictFenced {
			panic("nobody declares a worker dead here")
		}
		if !e.Changed || c.store.set(next, version) {
			c.ahead = e.Ahead
			for _, w := range e.Recalls {
				c.recalled[w.Seat].Store(true)
			}
			return e.Verdict
		}
	}
}

func (c *spareClient) target() admission.Target {
	t := c.op(lineOp{}).Target
	t.Limit, t.Ahead = spareLimit, true
	return t
}

// giveBack makes the column what runs.
func (c *spareClient) giveBack() {
	target := c.target()
	target.Ahead = false
	n := uint32(len(c.running))
	c.spares = 0
	c.step(admission.Reconcile(target, admission.Truth{Inflight: []admission.TenantInflight{{Weight: 1, Inflight: n}}}))
}

func (c *spareClient) acquire(seq uint32) admission.Verdict {
	if c.ahead && c.spares > 0 {
		c.spares--
		c.kept.Add(1)
		return admission.VerdictGranted
	}
	return c.step(admission.Acquire(c.target(), admission.Request{Weight: 1, Seq: seq, Budget: 0}))
}

func (c *spareClient) release(seq uint32) {
	if c.ahead {
		if c.spares++; c.mutated {
			c.spares++
		}
		return
	}
	c.step(admission.Release(c.target(), 0, seq, admission.Finish{}))
}

// turn begins a request or ends one, and does what a recall asks for.
func (c *spareClient) turn(seq uint32) {
	if c.recalled[c.id].Swap(false) || !c.ahead && c.spares > 0 {
		c.giveBack()
	}
	in := lineOp{kind: admission.OpAcquire, client: c.id, seq: seq}
	verdict := admission.VerdictDone
	call := c.clock.Add(1)
	n := len(c.running)
	if c.ebb = n >= 6 || c.ebb && n > 0; n > 0 && (c.random.IntN(4) == 0) != c.ebb {
		in = lineOp{kind: admission.OpRelease, client: c.id, seq: c.running[n-1]}
		c.running = c.running[:n-1]
		c.release(in.seq)
	} else if verdict = c.acquire(seq); verdict == admission.VerdictGranted {
		c.running = append(c.running, seq)
	}
	c.saw = append(c.saw, porcupine.Operation{ClientId: c.id, Input: in, Call: call, Output: verdict, Return: c.clock.Add(1)})
}

// spareHistory lets goroutines loose on one pool and returns what they saw, and how many permits were taken without a
// step.
func spareHistory(each int, mutated bool) (all []porcupine.Operation, kept int64) {
	store, clock := &casStore{}, &atomic.Int64{}
	recalled := make([]atomic.Bool, 3)
	taken := &atomic.Int64{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for id := range recalled {
		wg.Go(func() {
			c := &spareClient{recalled: recalled, mutated: mutated, kept: taken,
				lineClient: lineClient{id: id, store: store, clock: clock, random: rand.New(rand.NewPCG(uint64(id), 2))}}
			for i := range each {
				c.turn(uint32(i + 1))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, c.saw...)
		})
	}
	wg.Wait()
	return all, taken.Load()
}

// TestLinearizableSpares: whatever goroutines keep for themselves, no more run at once than the limit.
func TestLinearizableSpares(t *testing.T) {
	total := int64(0)
	for round := range 20 {
		h, kept := spareHistory(60, false)
		total += kept
		switch porcupine.CheckOperationsTimeout(spareModel, h, 20*time.Second) {
		case porcupine.Illegal:
			t.Fatalf("round %d: more than %d run", round, spareLimit)
		case porcupine.Unknown:
			t.Fatalf("round %d: undecided", round)
		}
	}
	t.Logf("%d permits taken without a step", total)
	if total < 20 {
		t.Errorf("%d permits taken without a step: too few to say much", total)
	}
}

// TestLinearizableSparesMutant: spares that nobody counts are found out.
func TestLinearizableSparesMutant(t *testing.T) {
	for range 3000 {
		if h, _ := spareHistory(60, true); porcupine.CheckOperationsTimeout(spareModel, h, 20*time.Second) == porcupine.Illegal {
			return
		}
	}
	t.Fatal("not caught")
}
