package admission_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/headgate/headgate/admission"
)

// casStore is shared data: a value and its version under one lock.
type casStore struct {
	sync.Mutex
	value   []byte
	version uint32
	blind   bool // a mutant
}

func (s *casStore) get() ([]byte, uint32) {
	s.Lock()
	defer s.Unlock()
	return slices.Clone(s.value), s.version
}

func (s *casStore) set(b []byte, version uint32) bool {
	s.Lock()
	defer s.Unlock()
	if version != s.version && !s.blind {
		return false
	}
	s.value, s.version = slices.Clone(b), s.version+1
	return true
}

// A lineOp is one operation of a client.
type lineOp struct {
	kind   admission.OpKind
	client int
	seq    uint32
	limit  int // retune
}

// A line is the pool as one thread would see it: the tickets that run and those that wait, oldest first.
type line struct {
	running, waiting string
	limit            int
}

const lineLimit, lineQueue = 2, 3

// lineModel is the sequential specification of a pool that is first come, first served.
var lineModel = porcupine.Model{
	Init: func() any { return line{limit: lineLimit} },
	Step: func(state, input, output any) (bool, any) {
		s, in := state.(line), input.(lineOp)
		name := fmt.Sprintf("%d/%d ", in.client, in.seq)
		verdict := admission.VerdictDone
		dispatch := func() {
			for strings.Count(s.running, " ") < s.limit {
				first, rest, ok := strings.Cut(s.waiting, " ")
				if !ok {
					return
				}
				s.running, s.waiting = s.running+first+" ", rest
			}
		}
		give := func() {
			s.running = strings.Replace(s.running, name, "", 1)
			dispatch()
		}
		switch in.kind {
		case admission.OpAcquire:
			switch {
			case strings.Count(s.running, " ") < s.limit:
				verdict, s.running = admission.VerdictGranted, s.running+name
			case strings.Count(s.waiting, " ") < lineQueue:
				verdict, s.waiting = admission.VerdictWaiting, s.waiting+name
			default:
				verdict = admission.VerdictFull
			}
		case admission.OpRetune:
			s.limit = in.limit
			dispatch()
		case admission.OpRelease:
			give()
		case admission.OpCancel:
			if strings.Contains(" "+s.waiting, " "+name) {
				s.waiting = strings.TrimPrefix(strings.Replace(" "+s.waiting, " "+name, " ", 1), " ")
			} else {
				verdict = admission.VerdictGranted
				give()
			}
		}
		return verdict == output.(admission.Verdict), s
	},
	Equal: func(a, b any) bool {
		x, y := a.(line), b.(line)
		return sorted(x.running) == sorted(y.running) && x.waiting == y.waiting && x.limit == y.limit
	},
}

func sorted(s string) string {
	words := strings.Fields(s)
	slices.Sort(words)
	return strings.Join(words, " ")
}

// A lineClient is one goroutine's use of the pool.
type lineClient struct {
	id     int
	store  *casStore
	clock  *atomic.Int64
	m      admission.Machine
	random *rand.Rand
	open   []lineOp // its acquires that got a permit or wait
	waits  []bool   // of each of them
	saw    []porcupine.Operation
}

func (c *lineClient) op(in lineOp) admission.Op {
	me := admission.Worker{Seat: uint16(c.id), Epoch: uint64(c.id+1) << 32}
	target := admission.Target{Now: ms, Me: me, Limit: lineLimit}
	switch in.kind {
	case admission.OpRetune:
		target.Me, target.Override = admission.Worker{}, admission.Override{Source: admission.FromKey, Limit: in.limit}
		return admission.Retune(target, true)
	case admission.OpRelease:
		return admission.Release(target, 0, in.seq, admission.Finish{})
	case admission.OpCancel:
		return admission.Cancel(target, 0, in.seq)
	}
	return admission.Acquire(target, admission.Request{Weight: 1, Seq: in.seq, Queue: lineQueue, Budget: admission.Hour})
}

// do carries an operation out until it is stored.
func (c *lineClient) do(in lineOp) admission.Verdict {
	op := c.op(in)
	call := c.clock.Add(1)
	for {
		b, version := c.store.get()
		runtime.Gosched() // so that others come in between, on one processor too
		next, e := c.m.Step(b, &op)
		verdict := e.Verdict
		if !e.Changed || c.store.set(next, version) {
			c.saw = append(c.saw, porcupine.Operation{ClientId: c.id, Input: in, Call: call, Output: verdict,
				Return: c.clock.Add(1)})
			return verdict
		}
	}
}

// turn ends one of the client's requests, or begins one.
func (c *lineClient) turn(seq uint32) {
	if n := len(c.open); n > 0 && c.random.IntN(3) > 0 {
		at := c.random.IntN(n)
		in := c.open[at]
		in.kind = admission.OpRelease
		if c.waits[at] {
			in.kind = admission.OpCancel
		}
		c.open, c.waits = slices.Delete(c.open, at, at+1), slices.Delete(c.waits, at, at+1)
		c.do(in)
		return
	}
	if c.random.IntN(6) == 0 {
		c.do(lineOp{kind: admission.OpRetune, client: c.id, limit: 1 + c.random.IntN(3)})
		return
	}
	in := lineOp{kind: admission.OpAcquire, client: c.id, seq: seq}
	if v := c.do(in); v != admission.VerdictFull {
		c.open, c.waits = append(c.open, in), append(c.waits, v == admission.VerdictWaiting)
	}
}

// history lets goroutines loose on one pool and returns what they saw.
func history(clients, each int, blind bool) (all []porcupine.Operation) {
	store, clock := &casStore{blind: blind}, &atomic.Int64{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for id := range clients {
		wg.Go(func() {
			c := &lineClient{id: id, store: store, clock: clock, random: rand.New(rand.NewPCG(uint64(id), 1))}
			for i := range each {
				c.turn(uint32(i + 1))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, c.saw...)
		})
	}
	wg.Wait()
	return all
}

// TestLinearizable: what goroutines do to a pool at once looks as if they had done it one after the other.
func TestLinearizable(t *testing.T) {
	operations := 0
	for round := range 20 {
		h := history(4, 40, false)
		operations += len(h)
		switch result := porcupine.CheckOperationsTimeout(lineModel, h, 20*time.Second); result {
		case porcupine.Illegal:
			t.Fatalf("round %d: not linearizable", round)
		case porcupine.Unknown:
			t.Fatalf("round %d: undecided", round)
		}
	}
	t.Logf("%d operations", operations)
}

// TestLinearizableMutant: without compare-and-swap the check fails.
func TestLinearizableMutant(t *testing.T) {
	for range 50 {
		if porcupine.CheckOperationsTimeout(lineModel, history(4, 40, true), 20*time.Second) == porcupine.Illegal {
			return
		}
	}
	t.Fatal("a blind set was not caught")
}
