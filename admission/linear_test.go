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
}

// line is the pool as one thread would see it: who runs and who waits, oldest first.
type line struct{ running, waiting string }

const lineLimit, lineQueue = 2, 3

// lineModel is the sequential specification of a pool that is first come, first served.
var lineModel = porcupine.Model{
	Init: func() any { return line{} },
	Step: func(state, input, output any) (bool, any) {
		s, in := state.(line), input.(lineOp)
		name := fmt.Sprintf("%d/%d ", in.client, in.seq)
		verdict := admission.VerdictDone
		give := func() {
			if strings.Contains(s.running, name) {
				s.running = strings.Replace(s.running, name, "", 1)
				if first, rest, ok := strings.Cut(s.waiting, " "); ok {
					s.running, s.waiting = s.running+first+" ", rest
				}
			}
		}
		switch in.kind {
		case admission.OpAcquire:
			switch {
			case strings.Count(s.running, " ") < lineLimit:
				verdict, s.running = admission.VerdictGranted, s.running+name
			case strings.Count(s.waiting, " ") < lineQueue:
				verdict, s.waiting = admission.VerdictWaiting, s.waiting+name
			default:
				verdict = admission.VerdictFull
			}
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
		return sorted(x.running) == sorted(y.running) && x.waiting == y.waiting
	},
}

func sorted(s string) string {
	words := strings.Fields(s)
	slices.Sort(words)
	return strings.Join(words, " ")
}

// history lets goroutines loose on one pool and returns what they saw.
func history(clients, each int, blind bool) []porcupine.Operation {
	store := &casStore{blind: blind}
	var clock atomic.Int64
	var all []porcupine.Operation
	var mu sync.Mutex
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			var m admission.Machine
			random := rand.New(rand.NewPCG(uint64(c), 1))
			var mine []porcupine.Operation
			var open []lineOp
			var waits []bool
			do := func(in lineOp) admission.Verdict {
				op := &admission.Op{Kind: in.kind, Target: admission.Target{Now: ms, Me: admission.Worker{Seat: uint16(c), Epoch: uint64(c+1) << 32}, Limit: lineLimit}, Seq: in.seq, Queue: lineQueue, Budget: admission.Hour, Weight: 1, Assert: in.kind == admission.OpAcquire}
				call := clock.Add(1)
				for {
					b, version := store.get()
					runtime.Gosched() // so that others come in between, on one processor too
					next, e := m.Step(b, op)
					verdict := e.Verdict
					if !e.Changed || store.set(next, version) {
						mine = append(mine, porcupine.Operation{ClientId: c, Input: in, Call: call, Output: verdict, Return: clock.Add(1)})
						return verdict
					}
				}
			}
			for i := range each {
				if n := len(open); n > 0 && random.IntN(3) > 0 {
					at := random.IntN(n)
					in := open[at]
					in.kind = admission.OpRelease
					if waits[at] {
						in.kind = admission.OpCancel
					}
					open, waits = slices.Delete(open, at, at+1), slices.Delete(waits, at, at+1)
					do(in)
					continue
				}
				in := lineOp{admission.OpAcquire, c, uint32(i + 1)}
				if v := do(in); v != admission.VerdictFull {
					open, waits = append(open, in), append(waits, v == admission.VerdictWaiting)
				}
			}
			mu.Lock()
			all = append(all, mine...)
			mu.Unlock()
		})
	}
	wg.Wait()
	return all
}

// TestLinearizable: whatever goroutines do to a pool at once looks as if they had done it one after the other.
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
