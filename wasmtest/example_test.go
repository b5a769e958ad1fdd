package wasmtest_test

import (
	"fmt"

	"github.com/headgate/headgate/wasmtest"
)

// A filter that lets one request in at a time (testdata/guest/turnstile), on a proxy with two workers: the second
// request waits on the other worker until the first one's response is over, and is woken through a shared queue.
func Example() {
	module, err := wasmtest.Compile(turnstileWasm)
	if err != nil {
		panic(err)
	}
	defer module.Close()
	host, err := wasmtest.New(module, wasmtest.WithWorkers(2), wasmtest.WithMainThread(), wasmtest.WithCanary())
	if err != nil {
		panic(err)
	}
	defer host.Close()
	plugin := host.MustLoad(wasmtest.PluginConfig{Name: "turnstile", Configuration: []byte("1")})

	first, second := plugin.Stream(0), plugin.Stream(1)
	fmt.Println("first: ", first.RequestHeaders(wasmtest.RequestHeaders("POST", "/chat"), true))
	fmt.Println("second:", second.RequestHeaders(wasmtest.RequestHeaders("POST", "/chat"), true))

	first.ResponseHeaders(wasmtest.ResponseHeaders(200), false)
	first.ResponseBody([]byte("streaming..."), false)
	fmt.Println("while the first streams, the second is paused:", second.Paused())
	first.ResponseBody([]byte("done"), true)

	for _, event := range host.Pending() {
		fmt.Println("pending:", event)
	}
	host.Drain()
	fmt.Println("after the wake, the second is paused:", second.Paused())
	fmt.Println("verify:", host.Verify())
	// Output:
	// first:  Continue
	// second: Pause
	// while the first streams, the second is paused: true
	// pending: w0 queue-ready context=1 queue=1
	// pending: w1 queue-ready context=1 queue=2
	// after the wake, the second is paused: false
	// verify: <nil>
}

// A lost update, on purpose: between the first worker's read of the count and its write, the second worker comes in.
// The turnstile's compare-and-swap notices.
func ExampleHost_OnHostCall() {
	host, err := wasmtest.New(turnstileModule, wasmtest.WithWorkers(2))
	if err != nil {
		panic(err)
	}
	defer host.Close()
	plugin := host.MustLoad(wasmtest.PluginConfig{Configuration: []byte("1")})

	host.OnHostCall(func(call *wasmtest.HostCall) {
		if call.Name() == "proxy_set_shared_data" {
			host.OnHostCall(nil)
			fmt.Println("second:", plugin.Stream(1).RequestHeaders(wasmtest.RequestHeaders("GET", "/"), true))
		}
	})
	fmt.Println("first: ", plugin.Stream(0).RequestHeaders(wasmtest.RequestHeaders("GET", "/"), true))
	fmt.Println("writes:", host.HostCalls("proxy_set_shared_data"))
	// Output:
	// second: Continue
	// first:  Pause
	// writes: 2
}

// What a crash costs: the VM dies right after it has taken its place, and nobody gives that back.
func ExampleHostCall_Crash() {
	host, err := wasmtest.New(turnstileModule, wasmtest.WithWorkers(2))
	if err != nil {
		panic(err)
	}
	defer host.Close()
	plugin := host.MustLoad(wasmtest.PluginConfig{Configuration: []byte("1")})
	victim := plugin.Stream(0)
	victim.RequestHeaders(wasmtest.RequestHeaders("GET", "/"), true)

	host.OnHostCall(func(call *wasmtest.HostCall) { call.Crash() })
	victim.Complete()
	host.OnHostCall(nil)

	fmt.Println("worker 0:", host.Worker(0).Err())
	fmt.Println("reload:", host.Worker(0).Reload())
	fmt.Println("next:", plugin.Stream(0).RequestHeaders(wasmtest.RequestHeaders("GET", "/"), true))
	// Output:
	// worker 0: killed by the test
	// reload: <nil>
	// next: Pause
}

// Every order in which two workers can hear that a place is free, and none lets both in.
func ExampleExplore() {
	together := 0
	runs, complete := wasmtest.Explore(1000, func(choose func(int) int) {
		host, err := wasmtest.New(turnstileModule, wasmtest.WithWorkers(3),
			wasmtest.WithScheduler(func(pending []wasmtest.Event) int { return choose(len(pending)) }))
		if err != nil {
			panic(err)
		}
		defer host.Close()
		plugin := host.MustLoad(wasmtest.PluginConfig{Configuration: []byte("1")})
		var streams []*wasmtest.Stream
		for worker := range 3 {
			s := plugin.Stream(worker)
			s.RequestHeaders(wasmtest.RequestHeaders("GET", "/"), true)
			streams = append(streams, s)
		}
		streams[0].Complete()
		host.Drain()
		if streams[1].Paused() == streams[2].Paused() {
			together++
		}
	})
	fmt.Println(runs, complete, together)
	// Output:
	// 6 true 0
}
