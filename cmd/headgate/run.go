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

// The limits for the sample. They are low, so that a few requests show all three outcomes: admitted, waiting, refused.
const (
	sampleConcurrency = 2
	sampleQueue       = 3
)

// A runPlan is what the flags of run say.
type runPlan struct {
	gateway
	sample      bool
	verbose     bool
	printConfig bool
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
		return plan.writeConfig(term.out)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err = plan.run(ctx, term)
	if ctx.Err() != nil {
		return nil // a signal ended the run, and caused whatever failed on the way
	}
	return err
}

func parseRun(term terminal, args []string) (*runPlan, error) {
	plan := &runPlan{gateway: defaultGateway()}
	plan.admin = netip.MustParseAddrPort("127.0.0.1:0") // any free port: two gateways can run side by side
	flags := newFlagSet("run")
	plan.addFlags(flags)
	return plan, plan.parse(term, flags, args)
}

func (p *runPlan) addFlags(f *flagSet) {
	p.gateway.addFlags(f)
	f.addSwitch(&p.sample, "sample", "Use a sample model API instead of --upstream.")
	f.addSwitch(&p.verbose, "verbose", "Show Envoy's log.")
	f.addSwitch(&p.printConfig, "print-config", "Print what the flags become, and end.")
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
		p.useSampleLimits(flags)
	case p.upstream == nil:
		return errNoUpstream
	}
	return p.resolveConflicts(flags)
}

// useSampleLimits sets the limits that no flag has set to the sample's.
func (p *runPlan) useSampleLimits(flags *flagSet) {
	if !flags.isGiven("concurrency") {
		p.concurrency = sampleConcurrency
	}
	if !flags.isGiven("queue") {
		p.queue = sampleQueue
	}
}

// run starts the gateway, and the sample if asked. It returns when the gateway ends or ctx is done. Everything that it
// started has ended then.
func (p *runPlan) run(ctx context.Context, term terminal) error {
	if err := p.checkStart(); err != nil {
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

// checkStart looks for reasons why Envoy would not start. An error of its own says them more clearly than Envoy's log.
func (p *runPlan) checkStart() error {
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

// serve runs Envoy with the bootstrap in a temporary folder. It removes the folder, except after a failure: Envoy's log
// is in it.
func (p *runPlan) serve(ctx context.Context, term terminal, binary string, bootstrap []byte) error {
	dir, err := os.MkdirTemp("", "headgate-")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "envoy.yaml"), bootstrap, 0o600); err != nil {
		return err
	}
	proxy, err := startEnvoy(binary, dir, p.workers, p.shownLog(term))
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	err = p.announceAndWait(ctx, term, proxy)
	proxy.stop()
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("%w (Envoy's log: %s)", err, proxy.logPath())
	}
	return os.RemoveAll(dir)
}

// announceAndWait prints how to use the gateway once it is ready, then waits for its end.
func (p *runPlan) announceAndWait(ctx context.Context, term terminal, proxy *envoyProcess) error {
	address, err := proxy.ready(ctx)
	if err != nil {
		return err
	}
	p.announce(term.out, address, proxy.admin)
	return proxy.wait(ctx)
}
