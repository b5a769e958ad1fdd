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

// A gateway is what the flags of run and render say about the gateway to make. A flag that both commands have is a
// field here.
type gateway struct {
	upstream          *upstream // nil: no --upstream was given
	bind              netip.AddrPort
	admin             adminListener  // Headgate's
	envoyAdmin        netip.AddrPort // the address of Envoy's own admin interface
	limits            []pattern      // empty: the well-known model APIs, which share one limit
	concurrency       int            // the limit of each pattern or group that has none of its own
	global            int            // the limit of all patterns together; 0: none
	queue             int
	queueTimeout      time.Duration
	idleTimeout       time.Duration
	retries           retries
	shaping           shaping
	disableKeepAlives bool
	origins           []string // of pages in browsers that may read the answers
	logAccess         bool
	workers           int
	wasm              string
	configPath        string      // "": the flags make the plugin configuration
	file              *pluginFile // the one at configPath, once it is read
	mode              string      // "": enforce, or the file's mode
	version           bool        // only print the version
}

// The titles of the sections of flags that more than the usage speaks of.
const (
	sectionAddresses    = "Where it listens and sends"
	sectionLimits       = "Limits and queues"
	sectionAfterRequest = "After a request has ended"
	sectionBreaker      = "Circuit breaker"
	sectionRetries      = "Retries"
	sectionProcess      = "The process"
)

func defaultGateway() gateway {
	return gateway{
		bind:         netip.MustParseAddrPort("127.0.0.1:10000"),
		admin:        defaultAdmin(),
		envoyAdmin:   netip.MustParseAddrPort("127.0.0.1:9901"),
		concurrency:  4,
		queue:        100,
		queueTimeout: 30 * time.Second,
		idleTimeout:  30 * time.Minute,
		retries:      defaultRetries(),
		shaping:      defaultShaping(),
		workers:      runtime.NumCPU(),
		wasm:         wasmBesideExecutable(),
	}
}

func (g *gateway) addFlags(f *flagSet) {
	f.addSwitch(&g.version, "version", "Print the version, and end.")
	f.startSection(sectionAddresses)
	addFlag(f, &g.upstream, "upstream", "",
		"Send requests to the model API at `URL`: http[s]://HOST[:PORT][/PATH].", parseUpstream)
	addFlag(f, &g.bind, "bind", g.bind.String(), "Listen for clients at `IP:PORT`.", parseBind)
	f.addSwitch(&g.disableKeepAlives, "upstream-disable-keep-alives",
		"Open a new connection to the upstream for each try.")
	f.addDuration(&g.idleTimeout, "idle-timeout", shortest, maxSpan,
		"End a request when no byte has moved for `DURATION`, in either direction. Its longest wait in queues is added.")
	addFlag(f, &g.admin, "admin", g.admin.String(),
		"Have the admin page, live limits and the stats at `IP:PORT`. off: nowhere.", parseAdmin)
	addListFlag(f, &g.origins, "cors",
		"Let pages from `ORIGIN` read the answers in a browser, refusals too. Give the flag once for each origin. "+
			"*: any page.", parseOrigin)
	f.startSection("A configuration of your own")
	addFlag(f, &g.configPath, "config", "",
		"Use the plugin configuration in `FILE`, JSON or YAML, in place of what the flags for limits, holds and the "+
			"breaker make.", parsePath)
	addFlag(f, &g.mode, "mode", "",
		"Set the `MODE` of the plugin: enforce, shadow (only count) or disabled (do nothing).", parseMode)
	f.words["mode"] = modes
	f.startSection(sectionLimits)
	addListFlag(f, &g.limits, "limit",
		"Govern the requests that match `PATTERN`: [METHOD ]/path[:N][@group]. Give the flag once for each pattern. "+
			"Without it, Headgate governs the well-known model APIs.", parsePattern)
	addFlag(f, &g.concurrency, "concurrency", strconv.Itoa(g.concurrency),
		"Let at most `N` requests of a pattern or group run at once, where the pattern has no :N of its own.",
		wholeNumberFrom(1))
	addFlag(f, &g.global, "global-concurrency", "off",
		"Let at most `N` requests of all patterns together run at once. off: no such limit.", parseGlobal)
	addFlag(f, &g.queue, "queue", strconv.Itoa(g.queue),
		"Let at most `N` requests wait in a queue. 0: no request waits.", wholeNumberFrom(0))
	f.addDuration(&g.queueTimeout, "queue-timeout", shortest, maxQueueTimeout,
		"Let a request wait for at most `DURATION` in a queue.")
	g.retries.addFlags(f)
	g.shaping.addFlags(f)
	f.startSection(sectionProcess)
	f.addSwitch(&g.logAccess, "access-log",
		"Have Envoy write a JSON object for each request, in a line on standard output.")
	addFlag(f, &g.workers, "workers", "one per CPU", "Run Envoy with `N` worker threads.", wholeNumberFrom(1))
	addFlag(f, &g.wasm, "wasm", "headgate.wasm beside this program", "Load the module from the file at `PATH`.",
		parsePath)
}

// resolveConflicts changes a default that contradicts a given flag, and refuses given flags that contradict each other.
func (g *gateway) resolveConflicts(f *flagSet) error {
	if err := g.refuseReplacedFlags(f); err != nil {
		return err
	}
	if err := g.retries.resolveConflicts(f); err != nil {
		return err
	}
	return g.shaping.resolveConflicts(f)
}

func parsePath(text string) (string, error) {
	if text == "" {
		return "", errors.New("want the path of a file")
	}
	return text, nil
}

func parseGlobal(text string) (int, error) {
	if text == "off" {
		return 0, nil
	}
	n, err := wholeNumberFrom(1)(text)
	if err != nil {
		return 0, fmt.Errorf("%w, or off", err)
	}
	return n, nil
}

// wasmBesideExecutable is where make build leaves the module.
func wasmBesideExecutable() string {
	return filepath.Join(executableDir(), "headgate.wasm")
}

// executableDir is the folder that holds this program, or the working directory where the system can't tell.
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

// parseAddress reads an IP address with a port. Of names it takes localhost only, since Envoy resolves no names for a
// listener.
func parseAddress(text string) (netip.AddrPort, error) {
	if port, found := strings.CutPrefix(text, "localhost:"); found {
		text = "127.0.0.1:" + port
	}
	address, err := netip.ParseAddrPort(text)
	if err == nil && address.Addr().Zone() != "" {
		err = errors.New("a zone")
	}
	return address, err
}

func parseBind(text string) (netip.AddrPort, error) {
	bind, err := parseAddress(text)
	if err != nil {
		return bind, errors.New("want IP:PORT, e.g. 127.0.0.1:10000, or 0.0.0.0:10000 for all interfaces")
	}
	return bind, nil
}
