// Package wasmtest runs a proxy-wasm filter, given as the bytes of its .wasm file, the way a proxy with several worker
// threads runs it, inside a Go test. It guarantees:
//
//   - Every worker has its own VM; shared data, shared queues, metrics and the clock are common. The rules are those
//     of proxy-wasm-cpp-host in Envoy, the unpleasant ones included: one compare-and-swap counter for all keys, blind
//     overwrites with cas 0, queues whose last registration takes over, wakes that get lost with a VM, gauges that
//     wrap.
//   - Nothing sleeps and nothing runs by itself. Time passes when the test says so ([Host.Advance], [Host.Run]); a
//     queue-ready or a tick waits among the pending events until the test delivers it ([Host.Step], [Host.Drain],
//     [Host.Deliver]).
//   - The same module, inputs and seed give the same run: same order, same random bytes, same trace ([WithTrace]).
//   - Mistakes that do harm in a real proxy are noted, also those that no status tells the guest about: [Host.Verify]
//     returns traps and violations, and [Start] fails the test for them.
//
// It knows nothing of any particular filter and works for any language that compiles to wasm. It implements ABI 0.2.1
// for HTTP filters.
//
// # How a test looks
//
//	module, err := wasmtest.Compile(wasm)                                   // once per test binary
//	host := wasmtest.Start(t, module, wasmtest.WithWorkers(2))              // verified and closed by t
//	plugin := host.MustLoad(wasmtest.PluginConfig{Configuration: []byte(`{}`)})
//	stream := plugin.Stream(1)                                              // a stream on worker 1
//	stream.RequestHeaders(wasmtest.RequestHeaders("POST", "/chat"), false)
//	host.Run(time.Second)                                                   // ticks and messages at their times
//	stream.Respond(200, "hello")
//
// # What happens between two callbacks
//
// Continue, local reply and close are deferred, as in the real host: they happen when the callback that asked for them
// has returned, in order. A reply enters the guest again at once (response headers, body, log, done, delete), and the
// second action starts when the first callback of the first one returns: the actions of one callback run nested.
// Therefore more than some hundreds of them kill the VM ([WithActionLimit], [Host.MaxActions]).
//
// # Interleavings and faults
//
// [Host.Pending] lists what could come next; [WithScheduler] or [WithSeed] chooses. A hook ([Host.OnHostCall]) runs
// before each call the guest makes: there a test lets another worker run, fails or drops the call, or crashes the VM.
// [Explore] enumerates all choices of a small scenario. [Worker.Kill] and [Worker.Reload] do what a trap and
// FAIL_RELOAD do.
//
// # Where it departs from the real host
//
//   - Headers can't be reached in proxy_on_done and proxy_on_delete. Envoy gives those of a stream that ends while
//     paused; don't rely on it.
//   - Continuing a stream that isn't paused does nothing here and is a violation; there it is undefined.
//   - A proc_exit traps; there the call returns, and what follows it traps.
//   - The action limit is a fixed number; a real stack's depends on what else is on it.
//   - A header added with the name of another stays an entry of its own; Envoy joins those of some standard names.
//   - gRPC callouts and TCP filters answer Unimplemented or don't exist.
package wasmtest
