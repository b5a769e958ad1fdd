package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// A gateway is what run and render are told about the gateway to make. A flag of both is a field here, declared in flags.
type gateway struct {
	upstream     *upstream // nil: none was named
	bind         netip.AddrPort
	admin        netip.AddrPort // of Envoy's own admin interface
	limits       []pattern      // empty: the well-known model APIs, which share one limit
	concurrency  int            // of what has no limit of its own
	global       int            // of all routes together; 0: none
	queue        int
	queueTimeout time.Duration
	retries      retries
	shaping      shaping
	noKeepAlive  bool // a new connection for each try
	workers      int
	wasm         string
}

func defaultGateway() gateway {
	return gateway{
		bind:         netip.MustParseAddrPort("127.0.0.1:10000"),
		admin:        netip.MustParseAddrPort("127.0.0.1:9901"),
		concurrency:  4,
		queue:        100,
		queueTimeout: 30 * time.Second,
		retries:      defaultRetries(),
		shaping:      defaultShaping(),
		workers:      runtime.NumCPU(),
		wasm:         wasmBesideExecutable(),
	}
}

func (g *gateway) flags(f *flagSet) {
	value(f, &g.upstream, "upstream", "", "`URL` of the model API: http[s]://HOST[:PORT][/PATH]", parseUpstream)
	value(f, &g.bind, "bind", g.bind.String(), "`IP:PORT` where clients connect", parseBind)
	list(f, &g.limits, "limit", "`PATTERN` of governed requests, as often as there are: [METHOD ]/path[:N][@group]; without it, the well-known model APIs", parsePattern)
	value(f, &g.concurrency, "concurrency", strconv.Itoa(g.concurrency), "`N` requests run at once, of each pattern or group without :N", wholeNumber(1))
	value(f, &g.global, "global-concurrency", "off", "`N` requests run at once, of all patterns together; or off", parseGlobal)
	value(f, &g.queue, "queue", strconv.Itoa(g.queue), "`N` more wait; 0: none", wholeNumber(0))
	f.duration(&g.queueTimeout, "queue-timeout", time.Millisecond, maxQueueTimeout, "`DURATION` that each of them waits at most")
	g.retries.flags(f)
	g.shaping.flags(f)
	f.BoolVar(&g.noKeepAlive, "upstream-disable-keep-alives", false, "a new connection to the upstream for each request")
	value(f, &g.workers, "workers", "one per CPU", "`N` Envoy worker threads", wholeNumber(1))
	f.StringVar(&g.wasm, "wasm", g.wasm, "`PATH` of the module")
	f.Lookup("wasm").DefValue = "headgate.wasm beside this program"
}

// settle refuses flags that contradict each other, and lets defaults give way to what was given.
func (g *gateway) settle(f *flagSet) error {
	if err := g.retries.settle(f); err != nil {
		return err
	}
	return g.shaping.settle(f)
}

func parseGlobal(text string) (int, error) {
	if text == "off" {
		return 0, nil
	}
	n, err := wholeNumber(1)(text)
	if err != nil {
		return 0, fmt.Errorf("%w, or off", err)
	}
	return n, nil
}

// wasmBesideExecutable is where make build leaves the module.
func wasmBesideExecutable() string {
	return filepath.Join(executableDir(), "headgate.wasm")
}

// executableDir is the folder this program was started from, or the working directory where the system can't tell.
func executableDir() string {
	path, err := os.Executable()
	if err != nil {
		return "."
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	return filepath.Dir(path)
}

// parseBind takes an address with a port: Envoy resolves no names for a listener, so localhost is all there is of those.
func parseBind(text string) (netip.AddrPort, error) {
	if port, found := strings.CutPrefix(text, "localhost:"); found {
		text = "127.0.0.1:" + port
	}
	bind, err := netip.ParseAddrPort(text)
	if err != nil || bind.Addr().Zone() != "" {
		return bind, errors.New("want IP:PORT, e.g. 127.0.0.1:10000, or 0.0.0.0:10000 for all interfaces")
	}
	return bind, nil
}
