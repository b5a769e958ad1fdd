package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate/envoy/bench/report"
	"github.com/headgate/headgate/envoy/bench/virtual"
	"github.com/headgate/headgate/wasmtest"
)

// What the simulated loads have in common.
const (
	simulatedService = 10 * time.Millisecond
	sliceCount       = 3
	minSlice         = 20 * time.Millisecond
)

// hotPool is a pool of one record, which has this in its shared data key.
const hotPool = "hot"

// withModule does something with the built module.
func withModule(use func(*wasmtest.Module) (*report.Part, error)) (_ *report.Part, err error) {
	module, err := virtual.BuiltModule()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, module.Close()) }()
	return use(module)
}

// simulated is a load on one record.
func simulated(module *wasmtest.Module, workers, limit int) virtual.Setup {
	return virtual.Setup{
		Module:        module,
		Configuration: fmt.Sprintf(`{"pools":[{"name":%q,"limit":%d,"queue":10000,"max_wait":"60s"}]}`, hotPool, limit),
		Record:        "/" + hotPool + "/",
		Headers:       wasmtest.RequestHeaders("POST", governedPath),
		Workers:       workers,
		Service:       simulatedService,
		WarmUp:        200 * time.Millisecond,
		Slices:        sliceCount,
		Seed:          1,
		Costs:         virtual.DefaultCosts(),
		MaxReal:       8 * time.Second,
	}
}

// spread is what a figure was in each slice.
func spread(r *virtual.Result, figure func(virtual.Slice) float64) report.Spread {
	values := make([]float64, len(r.Slices))
	for i, s := range r.Slices {
		values[i] = figure(s)
	}
	return report.SpreadOf(values)
}

func perRequest(n func(virtual.Slice) int) func(virtual.Slice) float64 {
	return func(s virtual.Slice) float64 { return share(n(s), s.Ended) }
}

func share(n, of int) float64 { return float64(n) / float64(max(1, of)) }

func brackets(s report.Spread) string {
	return fmt.Sprintf("%.2f (%.2f to %.2f)", s.Median, s.From, s.To)
}
