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
	settled() error                // checks what must hold once everybody has had time to act
	quiet() bool                   // nobody is in the middle of anything
	clone() system
	key(dst []byte) []byte // what distinguishes this state from others
}

// An action is one thing that happens in one go: between two of them anything else can.
type action struct {
	kind uint8
	who  uint8
	what uint8
}

// exploration is the outcome of an exhaustive search.
type exploration struct {
	states  int
	settled int
	err     error
	trace   []action
}

var hashSeed = maphash.MakeSeed()

// explore visits every state that can be reached, breadth first, so that the trace to a broken one is a shortest.
func explore(start system, limit int) exploration {
	type node struct {
		parent int32
		act    action
	}
	type open struct {
		s  system
		id int32
	}
	var nodes []node
	seen := map[uint64]struct{}{}
	var buf []byte
	visited := func(s system) bool {
		buf = s.key(buf[:0])
		h := maphash.Bytes(hashSeed, buf)
		if _, ok := seen[h]; ok {
			return true
		}
		seen[h] = struct{}{}
		return false
	}
	var x exploration
	trace := func(id int32) (t []action) {
		for ; id > 0; id = nodes[id].parent {
			t = append(t, nodes[id].act)
		}
		slices.Reverse(t)
		return t
	}
	nodes = append(nodes, node{})
	visited(start)
	queue := []open{{start, 0}}
	var acts []action
	for len(queue) > 0 {
		n := queue[0]
		queue[0] = open{}
		queue = queue[1:]
		x.states++
		if n.s.quiet() || x.states%16 == 0 { // the others now and then, for who goes round in circles
			x.settled++
			if err := n.s.settled(); err != nil {
				x.err, x.trace = fmt.Errorf("once settled: %w", err), trace(n.id)
				return x
			}
		}
		acts = n.s.actions(acts[:0])
		for i, a := range acts {
			next := n.s
			if i < len(acts)-1 {
				next = n.s.clone()
			}
			err := next.do(a)
			if err != nil {
				nodes = append(nodes, node{n.id, a})
				x.err, x.trace = err, trace(int32(len(nodes)-1))
				return x
			}
			if !visited(next) {
				nodes = append(nodes, node{n.id, a})
				queue = append(queue, open{next, int32(len(nodes) - 1)})
			}
		}
		if x.states >= limit {
			x.err = fmt.Errorf("more than %d states", limit)
			return x
		}
	}
	return x
}

// A scope is a system to explore and how many states it is known to have: fewer would mean that something is no longer
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
		t.Logf("%-40s %8d states, %8d settled, %v", sc.name, x.states, x.settled, time.Since(start).Round(time.Millisecond))
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
				if err := s.settled(); err != nil {
					t.Fatalf("%s, walk %d: once settled: %v\n%s", name, walk, err, replay(start(), trace))
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
