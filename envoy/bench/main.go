// Command bench measures on this machine what Headgate costs and what it gives. Its parts are:
//
//   - cost: processor time for each request and memory for each worker, beside no filter, filters that do nothing, and
//     filters of Envoy's own. With a real Envoy, and another one as the upstream.
//   - queued: the rate at which a limit of 8 is used with 64 and 512 clients, beside HAProxy's queue (maxconn 8), and
//     beside 8 clients of an Envoy without a queue.
//   - store: how often a request reads or writes shared data, from a key that is seldom asked for to a hot one.
//   - workers: how 1 to 64 workers get along on one record.
//   - records: how long records are.
//
// The last three need no Envoy: they run the built module in wasmtest, in virtual time (see package virtual).
//
//	go run ./envoy/bench [-only cost|queued|store|workers|records] [-write] [flags]
//
// It needs build/headgate.wasm (`make build`) and Linux. The parts with Envoy leave out what isn't installed, and say
// so: HAProxy, and a Rust compiler with its library for wasm32-unknown-unknown. With -write the results go into
// docs/performance.md, as tables and pictures.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/headgate/headgate/envoy/bench/report"
	"github.com/headgate/headgate/envoy/rig"
)

// The parts, in the order in which they run.
var parts = []struct {
	name string
	run  func(o options, dir string) (*report.Part, error)
}{
	{"cost", runCost}, {"queued", runQueued}, {"store", runStore}, {"workers", runWorkers}, {"records", runRecords},
}

func main() {
	var o options
	flag.StringVar(&o.only, "only", "", "one of "+partNames()+"; without it all of them")
	flag.BoolVar(&o.write, "write", false, "write the results into docs/performance.md")
	flag.IntVar(&o.rounds, "rounds", 7, "rounds of each row of cost and queued")
	flag.IntVar(&o.requests, "requests", 10_000, "requests in a round of cost")
	flag.IntVar(&o.connections, "connections", 32, "keep-alive connections of the clients in a round of cost")
	flag.IntVar(&o.memoryRuns, "memory-runs", 3, "fresh Envoys whose memory's median a row of cost shows; 0: none")
	flag.IntVar(&o.workers, "workers", 2, "Envoy's workers and HAProxy's threads in a round of queued")
	flag.Float64Var(&o.seconds, "seconds", 1.5, "seconds of a round of queued")
	flag.IntVar(&o.sample, "sample", 4000, "requests of each figure of store and workers, about")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type options struct {
	only                          string
	write                         bool
	rounds, requests, connections int
	memoryRuns                    int
	workers                       int
	seconds                       float64
	sample                        int
}

func partNames() string {
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}

func run(o options) (err error) {
	if o.rounds < 1 || o.requests < o.connections || o.connections < 1 || o.workers < 1 || o.sample < 1 {
		return errors.New("want at least one round, connection and worker, and a request for each connection")
	}
	root, err := rig.RepositoryRoot()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "headgate-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	revision := report.Revision() // before -write changes a file
	done := 0
	for _, p := range parts {
		if o.only != "" && o.only != p.name {
			continue
		}
		done++
		origin := report.Origin(command(), revision, envoyVersion(root))
		found, err := p.run(o, dir)
		if err == nil {
			err = tell(o, found, origin, root)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	if done == 0 {
		return fmt.Errorf("-only %q: want one of %s", o.only, partNames())
	}
	return nil
}

// tell prints what a part found, and writes it into the document if that is wanted.
func tell(o options, p *report.Part, origin, root string) error {
	if _, err := fmt.Printf("## %s\n\n%s\n%s\n\n", p.Name, p.Text(), origin); err != nil {
		return err
	}
	if !o.write {
		return nil
	}
	return p.Write(filepath.Join(root, "docs", "performance.md"), origin)
}

// command is what the document says was run.
func command() string {
	var shown []string
	flag.Visit(func(f *flag.Flag) {
		if f.Name != "write" {
			shown = append(shown, fmt.Sprintf("-%s %s", f.Name, f.Value))
		}
	})
	if len(shown) == 0 {
		return "make bench"
	}
	return "go run ./envoy/bench " + strings.Join(slices.Sorted(slices.Values(shown)), " ")
}

// envoyVersion is that of the Envoy that the build fetches, or what $ENVOY names.
func envoyVersion(root string) string {
	if path := os.Getenv("ENVOY"); path != "" && !strings.HasPrefix(path, root) {
		return path
	}
	text, err := os.ReadFile(filepath.Join(root, "build", "envoy.version"))
	if err != nil {
		return "of unknown version"
	}
	return strings.TrimSpace(string(text))
}
