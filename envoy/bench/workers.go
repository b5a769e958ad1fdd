package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/headgate/headgate/envoy/bench/report"
	"github.com/headgate/headgate/envoy/bench/virtual"
	"github.com/headgate/headgate/wasmtest"
)

var workerCounts = []int{1, 2, 4, 8, 16, 32, 64}

// limitPerWorker is the limit, divided by the number of workers.
const limitPerWorker = 32

// A crowd is how many clients the workers have.
type crowd struct {
	name    string
	clients int // of each worker
}

// At half use no permit is ever missed; when saturated, a third of the clients wait.
var crowds = []crowd{{"half used", limitPerWorker / 2}, {"saturated", limitPerWorker * 3 / 2}}

// ideal is the rate at which workers that take no time would serve these clients.
func (c crowd) ideal(workers int) float64 {
	return float64(min(c.clients, limitPerWorker)*workers) / simulatedService.Seconds()
}

func runWorkers(o options, _ string) (*report.Part, error) {
	return withModule(func(module *wasmtest.Module) (*report.Part, error) { return simulateWorkers(o, module) })
}

func simulateWorkers(o options, module *wasmtest.Module) (p *report.Part, err error) {
	results := make([][]*virtual.Result, len(crowds))
	for i, c := range crowds {
		for _, n := range workerCounts {
			s := simulated(module, n, limitPerWorker*n)
			s.Clients = c.clients
			s.Slice = max(minSlice, time.Duration(float64(o.sample)/sliceCount/c.ideal(n)*float64(time.Second)))
			r, err := virtual.Run(s)
			if err != nil {
				return nil, fmt.Errorf("%s, %d workers: %w", c.name, n, err)
			}
			results[i] = append(results[i], r)
		}
	}
	p = workersPart(results)
	p.Pictures, err = workersPictures(results)
	return p, err
}

func workersPart(results [][]*virtual.Result) *report.Part {
	p := &report.Part{Name: "workers", Lead: fmt.Sprintf("Workers on one record, in virtual time: the limit is %d for "+
		"each worker, requests take the upstream %v on average. Half used: %d clients for each worker, so that at most half "+
		"of the permits are in use. Saturated: %d, 1.5 times the limit, and a third of them waits. In brackets the least "+
		"and the greatest of up to %d slices of the run.", limitPerWorker, simulatedService, crowds[0].clients,
		crowds[1].clients, sliceCount)}
	p.Table.Header = []string{"load", "workers", "requests/s", "of what there can be", "swaps a request",
		"lost swaps a swap", "get to set, us", "worker busy", "ran at once", "refused"}
	for i, c := range crowds {
		for j, r := range results[i] {
			n := workerCounts[j]
			peak, refused := 0, 0
			for _, s := range r.Slices {
				peak, refused = max(peak, s.PeakInFlight), refused+s.Refused
			}
			p.Table.Add(c.name, strconv.Itoa(n), fmt.Sprintf("%.0f", spread(r, rate).Median), brackets(reached(c, n, r)),
				brackets(spread(r, swaps)), brackets(spread(r, lost)), fmt.Sprintf("%.1f", micros(r.Window)),
				fmt.Sprintf("%.0f %%", 100*spread(r, func(s virtual.Slice) float64 { return s.Busy }).Median),
				fmt.Sprintf("%d of %d", peak, n*limitPerWorker), strconv.Itoa(refused))
		}
	}
	return p
}

func rate(s virtual.Slice) float64 { return float64(s.Ended) / s.Took.Seconds() }

func swaps(s virtual.Slice) float64 { return share(s.Swaps, s.Ended) }

func lost(s virtual.Slice) float64 { return share(s.Lost, s.Swaps) }

// reached is the share of the ideal rate.
func reached(c crowd, workers int, r *virtual.Result) report.Spread {
	return spread(r, func(s virtual.Slice) float64 { return rate(s) / c.ideal(workers) })
}

func workersPictures(results [][]*virtual.Result) ([]report.Picture, error) {
	figures := []struct {
		file, title, unit string
		of                func(c crowd, workers int, r *virtual.Result) report.Spread
	}{
		{"performance-workers.svg", "Throughput of workers on one record", "of what there can be", reached},
		{"performance-swaps.svg", "Swaps that a request makes", "swaps a request",
			func(_ crowd, _ int, r *virtual.Result) report.Spread { return spread(r, swaps) }},
		{"performance-lost.svg", "Lost swaps for each that is stored", "lost swaps a swap",
			func(_ crowd, _ int, r *virtual.Result) report.Spread { return spread(r, lost) }},
	}
	var pictures []report.Picture
	for _, f := range figures {
		var lines []report.Line
		for i, c := range crowds {
			l := report.Line{Name: c.name, Dashed: i > 0}
			for j, r := range results[i] {
				l.X = append(l.X, float64(workerCounts[j]))
				l.Y = append(l.Y, f.of(c, workerCounts[j], r))
			}
			lines = append(lines, l)
		}
		svg, err := report.Lines(f.title, "workers", f.unit, true, lines)
		if err != nil {
			return nil, err
		}
		pictures = append(pictures, report.Picture{File: f.file, SVG: svg,
			Alt: fmt.Sprintf("Lines: %s by the number of workers, half used and saturated", f.unit)})
	}
	return pictures, nil
}
