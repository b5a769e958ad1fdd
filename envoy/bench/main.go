// Command bench measures on this machine what Headgate costs an Envoy: processor time for each request and memory for
// each worker, beside no filter at all, a filter that does nothing on Headgate's binding, and one on the stock Go SDK.
// And what queueing costs: the rate at which a limit of 8 is used with 64 and 512 clients, beside 8 clients that never
// queue, and beside HAProxy's queue (maxconn 8).
//
//	go run ./envoy/bench [-only cost|queued] [-rounds 7] [-requests 10000] [-connections 32] [-workers 2] [-seconds 1.5]
//
// Each variant has an Envoy process of its own; the rounds of the variants take turns, so that what else the machine
// does falls on all of them. What requests cost is measured with one worker, and an upstream that is another Envoy and
// answers by itself; the queue with more, and an upstream in this process that takes 5 ms. It needs build/headgate.wasm
// (`make build`), Linux, and for the comparison haproxy on PATH.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/headgate/headgate/envoy/rig"
)

func main() {
	var o options
	flag.StringVar(&o.only, "only", "", "cost or queued; without it both")
	flag.IntVar(&o.rounds, "rounds", 7, "rounds of each variant")
	flag.IntVar(&o.requests, "requests", 10_000, "requests in a round about the cost")
	flag.IntVar(&o.connections, "connections", 32, "keep-alive connections of the clients in a round about the cost")
	flag.IntVar(&o.workers, "workers", 2, "Envoy's workers and HAProxy's threads in a round about the queue")
	flag.Float64Var(&o.seconds, "seconds", 1.5, "seconds of a round about the queue")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type options struct {
	only                          string
	rounds, requests, connections int
	workers                       int
	seconds                       float64
}

func run(o options) (err error) {
	dir, err := os.MkdirTemp("", "headgate-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	switch o.only {
	case "cost":
		return runCost(o, dir)
	case "queued":
		return runQueued(o, dir)
	case "":
	default:
		return fmt.Errorf("-only %q: want cost or queued", o.only)
	}
	if _, err := findHAProxy(); err != nil { // rather now than after minutes
		return err
	}
	if err := runCost(o, dir); err != nil {
		return err
	}
	return runQueued(o, dir)
}

func runCost(o options, dir string) error {
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

func runQueued(o options, dir string) error {
	haproxy, err := findHAProxy()
	if err != nil {
		return err
	}
	module, err := rig.WasmPath()
	if err != nil {
		return err
	}
	contenders, err := measureQueued(o, dir, haproxy, module)
	if err != nil {
		return err
	}
	return reportQueued(os.Stdout, o, contenders)
}
