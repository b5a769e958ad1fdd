package main

import (
	"fmt"
	"time"

	"github.com/headgate/headgate/envoy/bench/report"
)

func runCost(o options, dir string) (*report.Part, error) {
	variants, notes, err := makeVariants(dir)
	if err != nil {
		return nil, err
	}
	b, err := newBench(o)
	if err != nil {
		return nil, err
	}
	defer b.upstream.Stop()
	results, err := b.measure(variants)
	if err != nil {
		return nil, err
	}
	p := costPart(o, results)
	p.Notes = append(p.Notes, notes...)
	p.Pictures, err = costPictures(results)
	return p, err
}

func costPart(o options, results []result) *report.Part {
	p := &report.Part{Name: "cost", Lead: fmt.Sprintf("Processor time of Envoy for a request: medians of %d rounds of %d "+
		"requests over %d connections, one worker. The rounds of the rows take turns. What a filter adds is its "+
		"difference from no filter in the same round, with the least and the greatest of the rounds in brackets.",
		o.rounds, o.requests, o.connections)}
	p.Table.Header = []string{"filter", "us a request", "us added", "added, of Envoy's own", "times our empty filter",
		"resident", "a further worker"}
	for i, r := range results {
		row := []string{r.name, fmt.Sprintf("%.1f", micros(report.Median(r.cpu))), "", "", "", "", ""}
		if i != noFilter {
			over := report.SpreadOf(r.over(results[noFilter]))
			row[2] = fmt.Sprintf("%.1f (%.1f to %.1f)", over.Median/1e3, over.From/1e3, over.To/1e3)
			row[3] = fmt.Sprintf("%.0f %%", report.Median(r.shares(results[noFilter])))
			row[4] = r.timesEmpty(results)
		}
		if r.resident > 0 {
			row[5], row[6] = mebibytes(r.resident), mebibytes(r.perWorker)
		}
		p.Table.Add(row...)
	}
	return p
}

func costPictures(results []result) ([]report.Picture, error) {
	var bars []report.Bar
	for _, r := range results[noFilter+1:] {
		bars = append(bars, report.Bar{Name: r.name, Ours: r.ours, Spread: report.SpreadOf(r.shares(results[noFilter]))})
	}
	svg, err := report.Bars("Processor time that a filter adds to a request", "% of what Envoy itself needs", bars)
	return []report.Picture{{File: "performance-cost.svg", SVG: svg,
		Alt: "Bars: the processor time that each filter adds to a request, in percent of Envoy's own"}}, err
}

// over is what a filter adds to each request, by round.
func (r result) over(base result) []time.Duration {
	over := make([]time.Duration, len(r.cpu))
	for i := range over {
		over[i] = r.cpu[i] - base.cpu[i]
	}
	return over
}

// shares are what a filter adds in percent of what Envoy itself needs, by round.
func (r result) shares(base result) []float64 {
	shares := make([]float64, len(r.cpu))
	for i := range shares {
		shares[i] = 100 * float64(r.cpu[i]-base.cpu[i]) / float64(base.cpu[i])
	}
	return shares
}

// timesEmpty compares what a filter adds with what our empty one adds, if that is more than noise.
func (r result) timesEmpty(results []result) string {
	base := results[noFilter]
	empty := report.Median(results[emptyFilter].over(base))
	if empty < time.Microsecond {
		return "noise"
	}
	return fmt.Sprintf("%.1f", float64(report.Median(r.over(base)))/float64(empty))
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func mebibytes(bytes int64) string { return fmt.Sprintf("%d MiB", (bytes+1<<19)>>20) }
