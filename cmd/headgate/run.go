package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// The sample's limits, so low that a handful of requests shows all three outcomes.
const (
	sampleConcurrency = 2
	sampleQueue       = 3
)

// A runPlan is what run is told: the gateway, and how to show it.
type runPlan struct {
	gateway
	sample      bool
	verbose     bool
	printConfig bool
	version     bool
}

func runRun(term terminal, args []string) error {
	plan, err := parseRun(term, args)
	if err != nil {
		return err
	}
	switch {
	case plan.version:
		return printVersion(term)
	case plan.printConfig:
		return plan.showConfig(term.out)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err = plan.run(ctx, term)
	if ctx.Err() != nil {
		return nil // told to end, and ended: whatever failed on the way did so because of that
	}
	return err
}

func parseRun(term terminal, args []string) (*runPlan, error) {
	plan := &runPlan{gateway: defaultGateway()}
	plan.admin = netip.MustParseAddrPort("127.0.0.1:0") // any free port: two gateways can run side by side
	flags := newFlagSet("run")
	plan.flags(flags)
	flags.BoolVar(&plan.sample, "sample", false, "bring a sample model API instead of --upstream")
	flags.BoolVar(&plan.verbose, "verbose", false, "show Envoy's log")
	flags.BoolVar(&plan.printConfig, "print-config", false, "print what the flags become, and end")
	flags.BoolVar(&plan.version, "version", false, "print the version, and end")
	return plan, plan.parse(term, flags, args)
}

func (p *runPlan) parse(term terminal, flags *flagSet, args []string) error {
	if err := flags.parseAll(term, args); err != nil {
		return err
	}
	switch {
	case p.version:
		return nil
	case p.sample && p.upstream != nil:
		return errors.New("--sample brings its own model API: leave out --upstream or --sample")
	case p.sample:
		p.sampleLimits(flags)
	case p.upstream == nil:
		return errNoUpstream
	}
	return p.settle(flags)
}

// sampleLimits lowers the limits that no flag has set.
func (p *runPlan) sampleLimits(flags *flagSet) {
	if !flags.given("concurrency") {
		p.concurrency = sampleConcurrency
	}
	if !flags.given("queue") {
		p.queue = sampleQueue
	}
}

// run starts what the plan says and returns when it ends or ctx is done; everything it started has ended then.
func (p *runPlan) run(ctx context.Context, term terminal) error {
	if err := p.check(); err != nil {
		return err
	}
	if p.sample {
		api, err := startSample()
		if err != nil {
			return err
		}
		defer api.stop()
		p.upstream = api.upstream()
	}
	bootstrap, err := p.renderBootstrap()
	if err != nil {
		return err
	}
	binary, err := findEnvoy(ctx, term.err)
	if err != nil {
		return err
	}
	return p.serve(ctx, term, binary, bootstrap)
}

// check finds what would make Envoy refuse to start, since it can be said more clearly before.
func (p *runPlan) check() error {
	if _, err := os.Stat(p.wasm); err != nil {
		return fmt.Errorf("no wasm module at %s: make it with `make build`, or say where it is with --wasm", p.wasm)
	}
	listener, err := net.Listen("tcp", p.bind.String())
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s is taken: choose another with --bind", p.bind)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("not allowed to listen on %s: choose a port above 1023 with --bind", p.bind)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%s is no address of this machine: choose another with --bind", p.bind.Addr())
	case err != nil:
		return fmt.Errorf("can't listen on %s: %w", p.bind, err)
	}
	return listener.Close()
}

// serve runs Envoy on the bootstrap in a folder of its own, which stays only if Envoy's log is of use in it.
func (p *runPlan) serve(ctx context.Context, term terminal, binary string, bootstrap []byte) error {
	dir, err := os.MkdirTemp("", "headgate-")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "envoy.yaml"), bootstrap, 0o600); err != nil {
		return err
	}
	proxy, err := startEnvoy(binary, dir, p.workers, p.logTo(term))
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	err = p.untilEnd(ctx, term, proxy)
	proxy.stop()
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("%w (Envoy's log: %s)", err, proxy.logPath())
	}
	return os.RemoveAll(dir)
}

// untilEnd says how to use the gateway once it is ready, then waits for its end.
func (p *runPlan) untilEnd(ctx context.Context, term terminal, proxy *envoyProcess) error {
	address, err := proxy.ready(ctx)
	if err != nil {
		return err
	}
	p.announce(term.out, address, proxy.admin)
	return proxy.wait(ctx)
}
