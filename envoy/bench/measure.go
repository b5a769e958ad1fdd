package main

import (
	"fmt"
	"time"

	"github.com/headgate/headgate/envoy/bench/report"
	"github.com/headgate/headgate/envoy/rig"
)

// A bench has what all variants share.
type bench struct {
	options
	upstream     *rig.Envoy
	upstreamPort int
}

// A result is what one variant showed.
type result struct {
	variant
	cpu       []time.Duration // for each request, one value for each round
	resident  int64           // bytes with one worker, after some load
	perWorker int64           // bytes that a second worker adds
}

func newBench(o options) (*bench, error) {
	port, err := rig.FreePort()
	if err != nil {
		return nil, err
	}
	upstream, err := rig.Launch(rig.Options{Workers: 1})
	if err != nil {
		return nil, err
	}
	answer := []rig.Object{{"match": rig.Object{"prefix": "/"},
		"direct_response": rig.Object{"status": 200, "body": rig.Object{"inline_string": `{"choices":[]}`}}}}
	if err := upstream.SetListener(rig.HTTPListener("answer", port, nil, answer, nil)); err != nil {
		upstream.Stop()
		return nil, err
	}
	return &bench{options: o, upstream: upstream, upstreamPort: port}, nil
}

// A gateway is an Envoy with one variant's filter.
type gateway struct {
	*rig.Envoy
	port int
}

// launch starts an Envoy with the filter, if there is one, between its listener and the upstream.
func launch(filter rig.Object, workers, upstreamPort int) (*gateway, error) {
	port, err := rig.FreePort()
	if err != nil {
		return nil, err
	}
	envoy, err := rig.Launch(rig.Options{Workers: workers})
	if err != nil {
		return nil, err
	}
	var filters []rig.Object
	if filter != nil {
		filters = append(filters, filter)
	}
	err = envoy.SetCluster(rig.Cluster("upstream", upstreamPort))
	if err == nil {
		err = envoy.SetListener(rig.HTTPListener("bench", port, filters, []rig.Object{rig.Route("/", "upstream")}, nil))
	}
	if err != nil {
		log := envoy.Log()
		envoy.Stop()
		return nil, fmt.Errorf("%w\n%s", err, log)
	}
	return &gateway{Envoy: envoy, port: port}, nil
}

// measure runs the rounds in turns, then a second worker for each variant.
func (b *bench) measure(variants []variant) ([]result, error) {
	results := make([]result, len(variants))
	gateways := make([]*gateway, len(variants))
	for i, v := range variants {
		g, err := launch(v.filter, 1, b.upstreamPort)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.name, err)
		}
		defer g.Stop()
		results[i].variant, gateways[i] = v, g
	}
	for round := range b.rounds + 1 {
		for i, g := range gateways {
			cpu, err := b.round(g, variants[i].sent)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", variants[i].name, err)
			}
			if round > 0 { // the first one warms up
				results[i].cpu = append(results[i].cpu, cpu)
			}
		}
	}
	for i, g := range gateways {
		if err := b.check(g, variants[i]); err != nil {
			return nil, err
		}
	}
	return results, b.measureMemory(results)
}

// round returns Envoy's processor time for each request of a round.
func (b *bench) round(g *gateway, sent traffic) (time.Duration, error) {
	before, err := g.CPU()
	if err != nil {
		return 0, err
	}
	if err := load(g.port, sent, b.requests, b.connections); err != nil {
		return 0, err
	}
	after, err := g.CPU()
	return (after - before) / time.Duration(b.requests/b.connections*b.connections), err
}

// check makes sure that Headgate did with a variant's requests what its row says.
func (b *bench) check(g *gateway, v variant) error {
	if v.counter == "" {
		return nil
	}
	want := int64((b.rounds + 1) * (b.requests / b.connections * b.connections))
	var got int64
	if rig.Poll(5*time.Second, func() bool { // counters may be told some time later
		stats, err := g.AdminStats("headgate\\." + v.counter + "$")
		got = stats.Count("wasmcustom.headgate." + v.counter)
		return err == nil && got == want
	}) {
		return nil
	}
	return fmt.Errorf("%s: the stat %s is %d after %d requests: the row would show another thing", v.name, v.counter,
		got, want)
}

func (b *bench) measureMemory(results []result) error {
	if b.memoryRuns < 1 {
		return nil
	}
	for i := range results {
		one, err := b.residentBytes(results[i].variant, 1)
		if err != nil {
			return err
		}
		two, err := b.residentBytes(results[i].variant, 2)
		if err != nil {
			return err
		}
		results[i].resident, results[i].perWorker = one, two-one
	}
	return nil
}

// residentBytes is what fresh Envoys hold after one round for each worker.
func (b *bench) residentBytes(v variant, workers int) (int64, error) {
	var runs []int64
	for range b.memoryRuns {
		bytes, err := b.residentOnce(v, workers)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", v.name, err)
		}
		runs = append(runs, bytes)
	}
	return report.Median(runs), nil
}

func (b *bench) residentOnce(v variant, workers int) (int64, error) {
	g, err := launch(v.filter, workers, b.upstreamPort)
	if err != nil {
		return 0, err
	}
	defer g.Stop()
	if err := load(g.port, v.sent, b.requests*workers, b.connections*workers); err != nil {
		return 0, err
	}
	return g.ResidentBytes()
}
