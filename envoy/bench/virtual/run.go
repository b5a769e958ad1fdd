package virtual

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/wasmtest"
)

// A run is a load while it runs.
type run struct {
	Setup
	host    *wasmtest.Host
	plugin  *wasmtest.Plugin
	random  *rand.Rand
	agenda  agenda
	workers []*worker
	posted  bool // somebody has sent a message since anybody looked

	window   time.Duration   // between the get and the set of a record
	measured []time.Duration // the same as it was here
	slice    Slice           // the one that is under way
	inFlight int
	result   Result
}

func newRun(s Setup, host *wasmtest.Host, plugin *wasmtest.Plugin) *run {
	r := &run{Setup: s, host: host, plugin: plugin, random: rand.New(rand.NewPCG(s.Seed, 17)), window: s.Costs.Window}
	for i := range s.Workers {
		r.workers = append(r.workers, newWorker(r, i))
	}
	return r
}

// takeSeats lets each worker serve a request while it is alone, so that what is done once isn't measured.
func (r *run) takeSeats() {
	for i := range r.workers {
		s := r.plugin.Stream(i)
		s.RequestHeaders(r.Headers, true)
		s.Respond(200, "ok")
	}
	r.host.Run(time.Second)
}

func (r *run) play() error {
	r.host.OnHostCall(r.onCall)
	defer r.stop()
	from := r.host.Elapsed()
	for _, w := range r.workers {
		r.send(w, from)
	}
	r.agenda.add(from, r.lookForTicks)
	r.until(from + r.WarmUp)
	if r.window == 0 {
		r.window = middle(r.measured)
	}
	r.busyShare()
	began := time.Now()
	for i := range r.Slices {
		r.slice = Slice{PeakInFlight: r.inFlight}
		r.until(from + r.WarmUp + time.Duration(i+1)*r.Slice)
		r.slice.Took, r.slice.Busy = r.Slice, r.busyShare()
		r.result.Slices = append(r.result.Slices, r.slice)
		if r.MaxReal > 0 && time.Since(began) > r.MaxReal {
			break
		}
	}
	r.result.Window = r.window
	if len(r.result.Slices) == 0 {
		return errNoSlice
	}
	return nil
}

// busyShare is the share of a slice in which the workers were busy, since it was last asked for.
func (r *run) busyShare() (share float64) {
	for _, w := range r.workers {
		share += w.takeBusy().Seconds() / r.Slice.Seconds() / float64(len(r.workers))
	}
	return share
}

// send brings the first requests to a worker: those of clients within the first 10 ms, or as they come.
func (r *run) send(w *worker, from time.Duration) {
	for range r.Clients {
		r.agenda.add(from+time.Duration(r.random.Int64N(int64(10*time.Millisecond))), func() { w.add(w.request) })
	}
	if r.Clients > 0 {
		return
	}
	at := from
	var arrive func()
	arrive = func() {
		w.add(w.request)
		at += r.exponential(time.Duration(float64(time.Second) / r.Rate))
		r.agenda.add(at, arrive)
	}
	at += r.exponential(time.Duration(float64(time.Second) / r.Rate))
	r.agenda.add(at, arrive)
}

func (r *run) exponential(mean time.Duration) time.Duration {
	return time.Duration(r.random.ExpFloat64() * float64(mean))
}

// until lets happen what happens until then.
func (r *run) until(end time.Duration) {
	r.agenda.add(end, func() {})
	for r.host.Elapsed() < end {
		e := r.agenda.next()
		r.host.Advance(max(0, e.at-r.host.Elapsed()))
		e.do()
		if r.posted {
			r.posted = false
			r.wakeReceivers()
		}
	}
}

// wakeReceivers lets idle workers that have a message see it, some time later.
func (r *run) wakeReceivers() {
	for _, e := range r.host.Pending() {
		if i := e.Worker.Index(); e.Kind == wasmtest.QueueReady && i >= 0 && r.workers[i].idle {
			r.agenda.add(r.host.Elapsed()+r.Costs.Wake, r.workers[i].wake)
		}
	}
}

// lookForTicks wakes workers whose tick is due, each millisecond: each at its own time within it, as each has its own
// timer. The main thread costs nobody time.
func (r *run) lookForTicks() {
	for _, e := range r.host.Pending() {
		switch i := e.Worker.Index(); {
		case i < 0:
			r.host.Deliver(e)
		case e.Kind == wasmtest.Tick:
			at := time.Duration(i) * time.Millisecond / time.Duration(len(r.workers))
			r.agenda.add(r.host.Elapsed()+at, r.workers[i].wake)
		}
	}
	r.agenda.add(r.host.Elapsed()+time.Millisecond, r.lookForTicks)
}

// onCall lets a call take its time, and counts it at the moment of its effect.
func (r *run) onCall(c *wasmtest.HostCall) {
	if c.Worker().Index() < 0 {
		r.count(c)
		return
	}
	w := r.workers[c.Worker().Index()]
	guest := r.Costs.Guest
	if c.Name() == "proxy_set_shared_data" && w.gotRecord {
		if r.WarmUp > 0 && r.window == 0 {
			r.measured = append(r.measured, time.Since(w.gotAt))
		} else {
			guest = r.window
		}
	}
	w.spend(guest + r.Costs.of(c.Name()))
	r.count(c)
	switch c.Name() {
	case "proxy_enqueue_shared_queue":
		r.posted = true
	case "proxy_get_shared_data":
		w.gotRecord, w.gotAt = strings.Contains(c.Text(0), r.Record), time.Now()
	default:
		w.gotRecord = false
	}
}

func (r *run) count(c *wasmtest.HostCall) {
	switch c.Name() {
	case "proxy_get_shared_data":
		r.slice.Gets++
	case "proxy_set_shared_data":
		r.slice.Sets++
		r.countSwap(c)
	default:
		return
	}
	if c.Callback() == "proxy_on_tick" {
		r.slice.InTicks++
	}
}

func (r *run) countSwap(c *wasmtest.HostCall) {
	key := c.Text(0)
	if !strings.Contains(key, r.Record) {
		return
	}
	if _, cas, ok := r.host.SharedData().Get(key); ok && c.Arg(4) != 0 && cas != uint32(c.Arg(4)) {
		r.slice.Lost++
		return
	}
	r.slice.Swaps++
}

// stop ends what is under way.
func (r *run) stop() {
	for _, w := range r.workers {
		w.abandon()
	}
	r.host.OnHostCall(nil)
}

// middle is the median.
func middle(values []time.Duration) time.Duration {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}
