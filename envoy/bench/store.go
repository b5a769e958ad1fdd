package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/headgate/headgate/envoy/bench/report"
	"github.com/headgate/headgate/envoy/bench/virtual"
	"github.com/headgate/headgate/wasmtest"
)

// storeRates are requests a second on one key, for each of storeWorkers workers.
var storeRates = []float64{1, 10, 100, 1000, 5000}

const (
	storeWorkers = 2
	storeLimit   = 1000
)

func runStore(o options, _ string) (*report.Part, error) {
	return withModule(func(module *wasmtest.Module) (*report.Part, error) { return simulateStore(o, module) })
}

func simulateStore(o options, module *wasmtest.Module) (p *report.Part, err error) {
	var results []*virtual.Result
	for _, rate := range storeRates {
		s := simulated(module, storeWorkers, storeLimit)
		s.Rate = rate
		s.WarmUp = max(s.WarmUp, time.Second)
		n := min(float64(o.sample), 400*rate) // so that the coldest doesn't take hours
		s.Slice = max(minSlice, time.Duration(n/rate/storeWorkers/sliceCount*float64(time.Second)))
		r, err := virtual.Run(s)
		if err != nil {
			return nil, fmt.Errorf("%.0f requests a second: %w", rate, err)
		}
		results = append(results, r)
	}
	p = storePart(results)
	p.Pictures, err = storePictures(results)
	return p, err
}

func storePart(results []*virtual.Result) *report.Part {
	p := &report.Part{Name: "store", Lead: fmt.Sprintf("How often a request reads (get) or writes (set) shared data, by "+
		"how hot its key is: one pool, one key, a limit of %d, %d workers, requests of %v on average, in virtual time. All "+
		"calls count, those of ticks and for the seat of a worker too. In brackets the least and the greatest of %d "+
		"slices of the run.", storeLimit, storeWorkers, simulatedService, sliceCount)}
	p.Table.Header = []string{"requests/s a worker", "gets a request", "sets a request", "both", "of these in ticks",
		"requests"}
	for i, r := range results {
		requests := 0
		for _, s := range r.Slices {
			requests += s.Ended
		}
		p.Table.Add(strconv.FormatFloat(storeRates[i], 'f', -1, 64),
			brackets(spread(r, perRequest(func(s virtual.Slice) int { return s.Gets }))),
			brackets(spread(r, perRequest(func(s virtual.Slice) int { return s.Sets }))),
			fmt.Sprintf("%.2f", storeOperations(r).Median),
			fmt.Sprintf("%.2f", spread(r, perRequest(func(s virtual.Slice) int { return s.InTicks })).Median),
			strconv.Itoa(requests))
	}
	return p
}

func storeOperations(r *virtual.Result) report.Spread {
	return spread(r, perRequest(func(s virtual.Slice) int { return s.Gets + s.Sets }))
}

func storePictures(results []*virtual.Result) ([]report.Picture, error) {
	l := report.Line{Name: "gets and sets", X: storeRates}
	for _, r := range results {
		l.Y = append(l.Y, storeOperations(r))
	}
	svg, err := report.Lines("Operations of the store that a request makes", "requests/s on one key, for each worker",
		"gets and sets a request", true, []report.Line{l})
	return []report.Picture{{File: "performance-store.svg", SVG: svg,
		Alt: "A line: gets and sets a request by the rate of requests on a key"}}, err
}
