package main

import (
	"fmt"
	"strconv"

	"github.com/headgate/headgate/envoy/bench/report"
	"github.com/headgate/headgate/envoy/rig"
)

func runQueued(o options, dir string) (*report.Part, error) {
	module, err := rig.WasmPath()
	if err != nil {
		return nil, err
	}
	haproxy := findHAProxy()
	contenders, err := measureQueued(o, dir, haproxy, module)
	if err != nil {
		return nil, err
	}
	p := queuedPart(o, contenders)
	if haproxy == "" {
		p.Notes = append(p.Notes, noHAProxy)
	}
	p.Pictures, err = queuedPictures(contenders)
	return p, err
}

func queuedPart(o options, contenders []*contender) *report.Part {
	p := &report.Part{Name: "queued", Lead: fmt.Sprintf("Clients send one request after the other, and %d may run at "+
		"once. Each takes the upstream %v, so %.0f requests a second are the most there can be. Medians of %d rounds of "+
		"%v s, with the least and the greatest in brackets; Envoy with %d workers, HAProxy with as many threads. Ratios "+
		"are medians of the ratios in the same round.", limit, service, ideal, o.rounds, o.seconds, o.workers)}
	p.Table.Header = []string{"gateway", "clients", "requests/s", "of the most", "of HAProxy's", "of Envoy's, no queue",
		"of the lower of both", "ran at once"}
	bare := contenders[0]
	for _, c := range contenders {
		rates := report.SpreadOf(c.rates)
		row := []string{c.name, strconv.Itoa(c.clients),
			fmt.Sprintf("%.0f (%.0f to %.0f)", rates.Median, rates.From, rates.To),
			fmt.Sprintf("%.3f", rates.Median/ideal), "", "", "", strconv.FormatInt(c.most, 10)}
		if c.name == headgateName {
			row[5] = ratio(c, bare)
			row[6] = row[5]
			if h := find(contenders, haproxyName, c.clients); h != nil {
				row[4], row[6] = ratio(c, h), ratio(c, h, bare)
			}
		}
		p.Table.Add(row...)
	}
	return p
}

func find(contenders []*contender, name string, clients int) *contender {
	for _, c := range contenders {
		if c.name == name && c.clients == clients {
			return c
		}
	}
	return nil
}

// ratio is how much of the lowest of the others' rates this one reached in the same round.
func ratio(c *contender, others ...*contender) string {
	ratios := make([]float64, len(c.rates))
	for i := range ratios {
		lowest := others[0].rates[i]
		for _, other := range others[1:] {
			lowest = min(lowest, other.rates[i])
		}
		ratios[i] = c.rates[i] / lowest
	}
	return fmt.Sprintf("%.3f", report.Median(ratios))
}

func queuedPictures(contenders []*contender) ([]report.Picture, error) {
	var bars []report.Bar
	for _, c := range contenders {
		bars = append(bars, report.Bar{Name: fmt.Sprintf("%s, %d clients", c.name, c.clients),
			Ours: c.name == headgateName, Spread: report.SpreadOf(c.rates)})
	}
	title := fmt.Sprintf("A limit of %d, and an upstream that takes %v", limit, service)
	svg, err := report.Bars(title, "requests/s", bars)
	return []report.Picture{{File: "performance-queued.svg", SVG: svg,
		Alt: "Bars: requests a second of each gateway by the number of clients"}}, err
}
