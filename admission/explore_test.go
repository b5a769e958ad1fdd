package admission_test

import (
	"encoding/binary"
	"flag"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	exploreBig  = flag.Bool("explore", false, "explore the bigger scopes too")
	exploreOnly = flag.String("scope", "", "explore this scope only")
	exploreSeed = flag.Uint64("seed", 0, "seed of the random explorer; 0: a new one")
)

// A system is a small world that an explorer can drive through all its interleavings.
type system interface {
	actions(dst []action) []action // what can happen next
	do(action) error               // one of them happens; an error is a broken invariant
	checkAtRest() error            // checks what must hold once all have had time to act
	quiet() bool                   // no operation is under way
	clone() system
	key(dst []byte) []byte // what distinguishes this state from others
}

// An action is one thing that happens without interruption. Between two actions any other can happen.
type action struct {
	kind uint8
	who  uint8
	what uint8
}

// An exploration is the outcome of an exhaustive search.
type exploration struct {
	states int
	atRest int // states in which checkAtRest was asked
	err    error
	trace  []action
}

// A search is an exhaustive search under way, breadth first, so that the trace to a broken state is a shortest one.
type search struct {
	exploration
	nodes []searchNode
	seen  map[uint64]struct{}
	queue []openState
	key   []byte
	acts  []action
}

// A searchNode is a state that was reached, and how.
type searchNode struct {
	parent int32
	act    action
}

// An openState is a state whose actions have still to be tried.
type openState struct {
	s    system
	node int32
}

var hashSeed = maphash.MakeSeed()

// explore visits every state that can be reached.
func explore(start system, limit int) exploration {
	x := &search{seen: map[uint64]struct{}{}, nodes: []searchNode{{}}}
	x.visit(start, 0)
	for len(x.queue) > 0 && x.err == nil {
		at := x.queue[0]
		x.queue[0] = openState{} // for the collector
		x.queue = x.queue[1:]
		x.states++
		if x.checkAtRest(at); x.err == nil {
			x.expand(at)
		}
		if x.states >= limit && x.err == nil {
			x.err = fmt.Errorf("more than %d states", limit)
		}
	}
	return x.exploration
}

// visit opens a state that has not been seen.
func (x *search) visit(s system, node int32) {
	x.key = s.key(x.key[:0])
	h := maphash.Bytes(hashSeed, x.key)
	if _, ok := x.seen[h]; !ok {
		x.seen[h] = struct{}{}
		x.queue = append(x.queue, openState{s, node})
	}
}

// checkAtRest asks what holds once all have had time to act: in every quiet state, and now and then in others, which
// may go round in circles.
func (x *search) checkAtRest(at openState) {
	if !at.s.quiet() && x.states%16 != 0 {
		return
	}
	x.atRest++
	if err := at.s.checkAtRest(); err != nil {
		x.fail(fmt.Errorf("at rest: %w", err), at.node)
	}
}

// expand tries all actions of a state.
func (x *search) expand(at openState) {
	x.acts = at.s.actions(x.acts[:0])
	for i, a := range x.acts {
		next := at.s
		if i < len(x.acts)-1 {
			next = at.s.clone()
		}
		err := next.do(a)
		x.nodes = append(x.nodes, searchNode{at.node, a})
		node := int32(len(x.nodes) - 1)
		if err != nil {
			x.fail(err, node)
			return
		}
		open := len(x.queue)
		if x.visit(next, node); len(x.queue) == open {
			x.nodes = x.nodes[:node]
		}
	}
}

// fail ends the search with an error at a node.
func (x *search) fail(err error, node int32) {
	x.err = err
	for ; node > 0; node = x.nodes[node].parent {
		x.trace = append(x.trace, x.nodes[node].act)
	}
	slices.Reverse(x.trace)
}

// A scope is a system to explore, and how many states it is known to have. Fewer would mean that something is no longer
// looked at.
type scope struct {
	name   string
	start  func() system
	states int
	big    bool
}

func exploreScopes(t *testing.T, scopes []scope) {
	total := 0
	for _, sc := range scopes {
		if (sc.big && !*exploreBig) || (*exploreOnly != "" && *exploreOnly != sc.name) {
			continue
		}
		start := time.Now()
		limit := 400_000
		if sc.big {
			limit = 5_000_000
		}
		x := explore(sc.start(), limit)
		t.Logf("%-40s %8d states, %8d at rest, %v", sc.name, x.states, x.atRest, time.Since(start).Round(time.Millisecond))
		if x.err != nil {
			t.Errorf("%s: %v\n%s", sc.name, x.err, replay(sc.start(), x.trace))
		} else if x.states < sc.states {
			t.Errorf("%s: %d states, and %d are known", sc.name, x.states, sc.states)
		}
		total += x.states
	}
	t.Logf("%d states", total)
}

// replay prints a trace with the state after each action.
func replay(s system, trace []action) string {
	var b strings.Builder
	for _, a := range trace {
		err := s.do(a)
		if p, ok := s.(interface {
			label(action) string
			String() string
		}); ok {
			fmt.Fprintf(&b, "  %s\n    %s\n", p.label(a), p)
		}
		if err != nil {
			fmt.Fprintf(&b, "  %v\n", err)
		}
	}
	return b.String()
}

// exploreRandomly takes random walks through a system that is too big for all of it.
func exploreRandomly(t *testing.T, name string, start func() system, seed uint64, walks int) {
	t.Helper()
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("%s: -seed=%d repeats", name, seed)
	steps := 0
	var acts []action
	for walk := range walks {
		random := rand.New(rand.NewPCG(seed, uint64(walk)))
		s := start()
		var trace []action
		for range 10_000 {
			if acts = s.actions(acts[:0]); len(acts) == 0 {
				break
			}
			a := acts[random.IntN(len(acts))]
			trace = append(trace, a)
			steps++
			if err := s.do(a); err != nil {
				t.Fatalf("%s, walk %d: %v\n%s", name, walk, err, replay(start(), trace))
			}
			if s.quiet() && random.IntN(4) == 0 {
				if err := s.checkAtRest(); err != nil {
					t.Fatalf("%s, walk %d: at rest: %v\n%s", name, walk, err, replay(start(), trace))
				}
			}
			if len(trace) > 400 {
				break
			}
		}
	}
	t.Logf("%s: %d walks, %d actions", name, walks, steps)
}

func put(dst []byte, vs ...uint64) []byte {
	for _, v := range vs {
		dst = binary.AppendUvarint(dst, v)
	}
	return dst
}

func putBytes(dst, b []byte) []byte { return append(put(dst, uint64(len(b))), b...) }

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
