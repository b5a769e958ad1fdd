package wasmtest

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
)

// Host is one proxy process: worker threads with their VMs, and what they share. It is not safe for concurrent use, and
// runs nothing by itself; the test is its only thread. Different hosts are independent and may run in parallel.
type Host struct {
	module   *Module
	options  options
	workers  []*Worker
	main     *Worker
	canary   *Worker
	plugins  []*Plugin
	refused  map[string]error // what the canary refused, by plugin key: the real host doesn't ask again
	requests uint64

	data    *SharedData
	queues  queues
	metrics metrics
	clock   clock
	events  events

	foreign    map[string]ForeignFunction
	intercept  func(*HostCall)
	callNumber int
	props      properties
	violations []Violation
	failures   []error
	logs       []LogLine
	onLog      func(LogLine)
	logLevel   LogLevel
	traceTo    io.Writer
	callouts   []*Callout
	vmsMade    uint64
	maxActions int
	closed     bool
}

// Option configures [New] and [Start].
type Option func(*options)

type options struct {
	workers         int
	mainThread      bool
	canary          bool
	seed            uint64
	seeded          bool
	choose          func([]Event) int
	vmID            string
	vmConfiguration []byte
	actionLimit     int
	drainLimit      int
	bodyLimit       int
	trace           io.Writer
	onLog           func(LogLine)
}

// WithWorkers sets the number of worker threads (default 1), each of which gets a VM.
func WithWorkers(n int) Option { return func(o *options) { o.workers = n } }

// WithMainThread adds the main thread's VM: Envoy with N workers runs N+1 VMs. It is configured and ticks, and gets no
// streams.
func WithMainThread() Option { return func(o *options) { o.mainThread = true } }

// WithCanary makes each new configuration go through a throw-away VM first, as Envoy does: created, started,
// configured, killed. If it refuses, no worker sees the configuration. What the canary wrote to shared data stays.
func WithCanary() Option { return func(o *options) { o.canary = true } }

// WithSeed makes the scheduler choose among pending events at random but reproducibly, and seeds the guests'
// random_get. Without it events are delivered first come, first served.
func WithSeed(seed uint64) Option {
	return func(o *options) { o.seed, o.seeded = seed, true }
}

// WithScheduler lets choose pick the next event to deliver: an index into pending, which is never empty and is reused
// after the call. It overrides the order of [WithSeed].
func WithScheduler(choose func(pending []Event) int) Option {
	return func(o *options) { o.choose = choose }
}

// WithVMID sets the vm_id (default ""), the namespace that proxy_resolve_shared_queue names.
func WithVMID(id string) Option { return func(o *options) { o.vmID = id } }

// WithVMConfiguration sets the vm_config that plugins get unless they bring their own (see [PluginConfig]).
func WithVMConfiguration(configuration []byte) Option {
	return func(o *options) { o.vmConfiguration = configuration }
}

// WithActionLimit sets how many continue, local-reply and close actions one callback may queue before the VM traps
// (default 300). Envoy runs them nested, one stack frame deeper each, and overflows somewhere from 300 to 400 on.
func WithActionLimit(n int) Option { return func(o *options) { o.actionLimit = n } }

// WithDrainLimit sets how many events [Host.Drain] delivers before it gives up (default 100,000).
func WithDrainLimit(n int) Option { return func(o *options) { o.drainLimit = n } }

// WithBodyLimit sets how many body bytes a stream buffers for a guest that answers StopIterationAndBuffer before the
// host replies 413 (request) or 500 (response). The default is Envoy's 1 MiB.
func WithBodyLimit(bytes int) Option { return func(o *options) { o.bodyLimit = bytes } }

// WithLog also gives each log line to f when it is logged.
func WithLog(f func(LogLine)) Option { return func(o *options) { o.onLog = f } }

// New makes a host for the module, with no plugin loaded yet: no VM exists until [Host.Load]. Close it after use. Tests
// more often use [Start].
func New(module *Module, opts ...Option) (*Host, error) {
	o := options{workers: 1, actionLimit: 300, drainLimit: 100_000, bodyLimit: 1 << 20}
	for _, option := range opts {
		option(&o)
	}
	if module == nil {
		return nil, errors.New("wasmtest: no module")
	}
	if o.workers < 1 {
		return nil, fmt.Errorf("wasmtest: %d workers: want at least 1", o.workers)
	}
	h := &Host{
		module: module, options: o, refused: map[string]error{}, data: newSharedData(), queues: newQueues(),
		metrics: newMetrics(), clock: newClock(), logLevel: LogInfo, foreign: map[string]ForeignFunction{},
		traceTo: o.trace, onLog: o.onLog,
	}
	h.events.choose = o.scheduler()
	for i := range o.workers {
		h.workers = append(h.workers, newWorker(h, i, fmt.Sprintf("w%d", i)))
	}
	h.canary = newWorker(h, CanaryThread, "canary")
	if o.mainThread {
		h.main = newWorker(h, MainThread, "main")
	}
	return h, nil
}

func (o options) scheduler() func([]Event) int {
	switch {
	case o.choose != nil:
		return o.choose
	case o.seeded:
		random := rand.New(rand.NewPCG(o.seed, 0x9e3779b97f4a7c15))
		return func(pending []Event) int { return random.IntN(len(pending)) }
	}
	return func([]Event) int { return 0 } // pending is in order of arrival
}

// TB is what [Start] needs of a *testing.T, *testing.B or *rapid.T with a Cleanup.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Start is [New] for a test: it fails the test when the host can't be made, and at the test's end closes the host and
// fails the test if [Host.Verify] has anything to say.
func Start(tb TB, module *Module, opts ...Option) *Host {
	tb.Helper()
	h, err := New(module, opts...)
	if err != nil {
		tb.Fatalf("%v", err)
		return nil
	}
	tb.Cleanup(func() {
		tb.Helper()
		if err := h.Verify(); err != nil {
			tb.Errorf("%v", err)
		}
		h.Close()
	})
	return h
}

// Worker returns worker i, counted from 0.
func (h *Host) Worker(i int) *Worker { return h.workers[i] }

// Workers returns all workers, without the main thread.
func (h *Host) Workers() []*Worker { return append([]*Worker(nil), h.workers...) }

// Main returns the main thread, nil without [WithMainThread].
func (h *Host) Main() *Worker { return h.main }

// threads are main, then the workers: the order in which a configuration reaches them.
func (h *Host) threads() []*Worker {
	if h.main == nil {
		return h.workers
	}
	return append([]*Worker{h.main}, h.workers...)
}

func (h *Host) allThreads() []*Worker { return append([]*Worker{h.canary}, h.threads()...) }

// SharedData returns the store that all VMs share, for a test to look into and to meddle with.
func (h *Host) SharedData() *SharedData { return h.data }

// Err returns the guests' failures so far, nil if no VM trapped. VMs that the test killed don't count.
func (h *Host) Err() error { return errors.Join(h.failures...) }

// ForgetFailures empties what [Host.Err] returns, for a test that provokes a trap on purpose.
func (h *Host) ForgetFailures() { h.failures = nil }

// Verify returns the failures and the violations so far as one error, nil if there are none. It doesn't say that the
// filter is right, only that it did nothing that a real host punishes.
func (h *Host) Verify() error {
	errs := append([]error(nil), h.failures...)
	for _, v := range h.violations {
		errs = append(errs, fmt.Errorf("violation: %s", v))
	}
	return errors.Join(errs...)
}

// MaxActions is the largest number of continue, local-reply and close actions any callback has queued so far. Keep it
// at 32 or less: a real host runs them nested on its stack.
func (h *Host) MaxActions() int { return h.maxActions }

// HostCalls counts the calls of an env import ("proxy_set_shared_data") by all VMs so far.
func (h *Host) HostCalls(name string) int {
	i, ok := hostCallIndex[name]
	if !ok {
		panic("wasmtest: no host call " + name)
	}
	total := 0
	for _, w := range h.allThreads() {
		total += w.calls[i]
	}
	return total
}

// Close frees all VMs without another callback. The host is unusable afterwards; closing it twice does nothing.
func (h *Host) Close() {
	if h.closed {
		return
	}
	h.closed = true
	for _, w := range h.allThreads() {
		for _, vm := range w.vms {
			vm.close()
		}
		w.vms = nil
	}
}
