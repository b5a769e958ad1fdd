package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// report prints the table. The first result is the one without a filter. What a filter adds is the median of its
// differences from no filter in the same round: from round to round the machine itself changes by more than a filter
// costs.
func report(w io.Writer, o options, results []result) error {
	fmt.Fprintf(w, "Medians of %d interleaved rounds of %d requests over %d connections; Envoy with 1 worker.\n\n",
		o.rounds, o.requests, o.connections)
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "filter\tCPU/request\tover no filter\tfrom\tto\tresident\ta further worker\t")
	base := results[0]
	for _, r := range results {
		over := r.over(base)
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", r.name, micros(median(r.cpu)), micros(median(over)),
			micros(slices.Min(over)), micros(slices.Max(over)), mebibytes(r.resident), mebibytes(r.perWorker))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	ours, stock, headgate := median(results[1].over(base)), median(results[2].over(base)), median(results[3].over(base))
	_, err := fmt.Fprintf(w,
		"Over no filter: our binding costs %.2f of the stock SDK's, Headgate %.2f of it and %.2f of our binding's.\n",
		share(ours, stock), share(headgate, stock), share(headgate, ours))
	return err
}

// reportQueued prints what rate each contender reached. Ratios are medians of the ratios in the same round. The first
// two contenders are those whose clients never queue; after them each of Headgate's is followed by HAProxy's.
func reportQueued(w io.Writer, o options, contenders []*contender) error {
	fmt.Fprintf(w, "\nQueued load: limit %d, %v for each request, so %.0f requests/s at best. "+
		"Medians of %d interleaved rounds of %v s; Envoy with %d workers, HAProxy with as many threads.\n\n",
		limit, service, ideal, o.rounds, o.seconds, o.workers)
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "gateway\tclients\trequests/s\tfrom\tto\tof the ideal\tof 8 clients, no queue\tof HAProxy\t")
	for i, c := range contenders {
		ofHAProxy := ""
		if i >= 2 && i%2 == 0 {
			ofHAProxy = fmt.Sprintf("%.3f", c.ratio(contenders[i+1]))
		}
		fmt.Fprintf(table, "%s\t%d\t%.0f\t%.0f\t%.0f\t%.3f\t%.3f\t%s\t\n", c.name, c.clients, median(c.rates),
			slices.Min(c.rates), slices.Max(c.rates),
			median(c.rates)/ideal, c.ratio(contenders[1]), ofHAProxy)
	}
	return table.Flush()
}

// ratio is how much of another contender's rate this one reached in the same round.
func (c *contender) ratio(other *contender) float64 {
	ratios := make([]float64, len(c.rates))
	for i := range ratios {
		ratios[i] = c.rates[i] / other.rates[i]
	}
	return median(ratios)
}

// over is what a filter adds to each request, by round.
func (r result) over(base result) []time.Duration {
	over := make([]time.Duration, len(r.cpu))
	for i := range over {
		over[i] = r.cpu[i] - base.cpu[i]
	}
	return over
}

func median[N cmp.Ordered](values []N) N {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func share(a, b time.Duration) float64 { return float64(a) / float64(b) }

func micros(d time.Duration) string {
	return fmt.Sprintf("%.1f us", float64(d)/float64(time.Microsecond))
}

func mebibytes(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }
