// Command bench measures on this machine what Headgate costs an Envoy: processor time for each request and memory for each
// worker, beside no filter at all, a filter that does nothing on Headgate's binding, and one on the stock Go SDK.
//
//	go run ./envoy/bench [-rounds 7] [-requests 10000] [-connections 32]
//
// Each variant has an Envoy process of its own with one worker; the rounds of the variants take turns, so that what else
// the machine does falls on all of them. The upstream is another Envoy that answers by itself.
// It needs build/headgate.wasm (`make build`) and Linux.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 7, "rounds of each variant")
	flag.IntVar(&o.requests, "requests", 10_000, "requests in a round")
	flag.IntVar(&o.connections, "connections", 32, "keep-alive connections of the clients")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type options struct{ rounds, requests, connections int }

func run(o options) (err error) {
	dir, err := os.MkdirTemp("", "headgate-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	variants, err := makeVariants(dir)
	if err != nil {
		return err
	}
	b, err := newBench(o)
	if err != nil {
		return err
	}
	defer b.upstream.Stop()
	results, err := b.measure(variants)
	if err != nil {
		return err
	}
	return report(os.Stdout, o, results)
}
