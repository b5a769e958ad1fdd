package wasmtest

import "fmt"

// Explore calls run once for every sequence of choices run makes: choose(n) returns each number below n in some call of
// run. With the choices wired to a scheduler ([WithScheduler]) and to a hook ([Host.OnHostCall]) it enumerates all
// interleavings and fault positions of a small scenario. Each run must make its own hosts and depend on nothing but its
// choices; Explore panics when it finds a different number of alternatives the second time.
//
// It stops after maxRuns and then reports complete as false.
func Explore(maxRuns int, run func(choose func(n int) int)) (runs int, complete bool) {
	type branch struct{ taken, of int }
	var path []branch
	for runs < maxRuns {
		depth := 0
		run(func(n int) int {
			if depth == len(path) {
				if n < 1 {
					panic("wasmtest: a choice among no alternatives")
				}
				path = append(path, branch{0, n})
			}
			b := path[depth]
			if b.of != n {
				panic(fmt.Sprintf("wasmtest: choice %d had %d alternatives and now has %d: the run is not deterministic",
					depth, b.of, n))
			}
			depth++
			return b.taken
		})
		runs++
		path = path[:depth]
		for len(path) > 0 && path[len(path)-1].taken == path[len(path)-1].of-1 {
			path = path[:len(path)-1]
		}
		if len(path) == 0 {
			return runs, true
		}
		path[len(path)-1].taken++
	}
	return runs, false
}
