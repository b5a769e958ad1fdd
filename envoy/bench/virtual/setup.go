package virtual

import (
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate/wasmtest"
)

// A Setup is one simulated load.
type Setup struct {
	Module        *wasmtest.Module
	Configuration string
	Record        string // a part of the shared data key whose swaps are counted
	Headers       wasmtest.Headers

	Workers int
	Clients int           // of each worker, each of which sends its next request when the last has ended
	Rate    float64       // requests a second that come to each worker, if there are no Clients
	Service time.Duration // the upstream's mean, exponentially distributed

	WarmUp  time.Duration
	Slices  int // that are measured, one after the other
	Slice   time.Duration
	Seed    uint64
	Costs   Costs
	MaxReal time.Duration // real time that the slices may take; then the rest is left out. 0: as long as they take
}

// A Slice is what happened in one slice of the measured time.
type Slice struct {
	Took    time.Duration
	Ended   int // requests that ran to their end
	Refused int

	Gets, Sets   int // of shared data, whatever the key, those of ticks included
	InTicks      int // gets and sets that ticks made
	Swaps, Lost  int // sets of the record that were stored, and that came too late
	PeakInFlight int
	Busy         float64 // share of the workers' time
}

// A Result is what a load showed.
type Result struct {
	Slices []Slice
	Window time.Duration // from the get to the set of the record, the set itself left out
}

var errNoSlice = errors.New("virtual: not one slice was measured")

// Run runs a load. It fails if the module can't be loaded or does what a real host punishes.
func Run(s Setup) (_ *Result, err error) {
	host, err := wasmtest.New(s.Module, wasmtest.WithWorkers(s.Workers), wasmtest.WithMainThread(),
		wasmtest.WithSeed(s.Seed))
	if err != nil {
		return nil, err
	}
	defer host.Close()
	plugin, err := host.Load(wasmtest.PluginConfig{Name: "headgate", RootID: "headgate",
		Configuration: []byte(s.Configuration), AllowOnHeadersStopIteration: true})
	if err != nil {
		return nil, fmt.Errorf("load the module: %w", err)
	}
	r := newRun(s, host, plugin)
	r.takeSeats()
	if err := r.play(); err != nil {
		return nil, err
	}
	if err := host.Verify(); err != nil {
		return nil, err
	}
	return &r.result, nil
}
