package main

import (
	"errors"
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
	concurrency  int
	queue        int
	queueTimeout time.Duration
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
		workers:      runtime.NumCPU(),
		wasm:         wasmBesideExecutable(),
	}
}

func (g *gateway) flags(f *flagSet) {
	value(f, &g.upstream, "upstream", "", "`URL` of the model API: http[s]://HOST[:PORT][/PATH]", parseUpstream)
	value(f, &g.bind, "bind", g.bind.String(), "`IP:PORT` where clients connect", parseBind)
	value(f, &g.concurrency, "concurrency", strconv.Itoa(g.concurrency), "`N` requests run at once", wholeNumber(1))
	value(f, &g.queue, "queue", strconv.Itoa(g.queue), "`N` more wait; 0: none", wholeNumber(0))
	value(f, &g.queueTimeout, "queue-timeout", g.queueTimeout.String(), "`DURATION` that each of them waits at most", queueTimeout)
	value(f, &g.workers, "workers", "one per CPU", "`N` Envoy worker threads", wholeNumber(1))
	f.StringVar(&g.wasm, "wasm", g.wasm, "`PATH` of the module")
	f.Lookup("wasm").DefValue = "headgate.wasm beside this program"
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
