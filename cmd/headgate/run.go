package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
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
	tui         bool // the screen of headgate top is shown over the gateway
	printConfig bool
	drain       time.Duration // 0: a signal ends everything at once
	notes       *notes
	shadows     atomic.Bool // the plugin runs in the mode shadow
}

func runCommand(term terminal) *cobra.Command {
	c, flags, plan := newRun()
	c.RunE = func(*cobra.Command, []string) error {
		if plan.version {
			return printVersion(term)
		}
		if err := plan.resolve(flags); err != nil {
			return usageError{err}
		}
		plan.notes = newNotes(term.err)
		plan.notes.isLive = plan.notes.isLive && !plan.verbose // Envoy's log goes to the same place
		defer plan.notes.end()
		warnOfRepeated(plan.notes, flags)
		plan.warnOfIgnored(plan.notes, flags)
		if plan.printConfig {
			return plan.writeConfig(term.out)
		}
		if err := plan.checkTUI(term.out); err != nil {
			return usageError{err}
		}
		return plan.runUntilSignal(term)
	}
	return c
}

// newRun makes the command run without its action, its flags, and the plan that they fill.
func newRun() (*cobra.Command, *flagSet, *runPlan) {
	c := &cobra.Command{
		Use:     "run --upstream URL [FLAGS]",
		Short:   "Run Envoy as a governed gateway to the model API at URL.",
		Args:    noArguments,
		Example: runExamples,
	}
	plan := &runPlan{gateway: defaultGateway(), drain: 30 * time.Second}
	flags := newFlagSet(c)
	plan.addFlags(flags)
	return c, flags, plan
}

const runExamples = `  # A sample model API, to see what the limits do.
  headgate run --sample

  # Four requests to a provider at once. Fifty more wait for up to 20 seconds.
  headgate run --upstream https://api.example.com --concurrency 4 --queue 50 --queue-timeout 20s

  # Limits for each route, and one for both together.
  headgate run --upstream https://api.example.com --limit 'POST /chat/completions:8' \
    --limit 'POST /embeddings:32' --global-concurrency 36 --retry 3

  # A plugin configuration of your own, in shadow mode: every request passes, and the stats say what would happen.
  headgate run --upstream https://api.example.com --config plugin.yaml --mode shadow

  # What the flags become, without running it.
  headgate run --upstream http://127.0.0.1:8080 --print-config`

func (p *runPlan) addFlags(f *flagSet) {
	p.gateway.addFlags(f)
	f.startSection(sectionProcess)
	f.addDuration(&p.drain, "drain", 0, maxSpan,
		"After a SIGTERM or Ctrl-C, let requests that run or wait finish for up to `DURATION`. 0: end them at once.")
	f.startSection("Trying and looking")
	f.addSwitch(&p.sample, "sample", "Use a sample model API instead of --upstream.")
	f.addSwitch(&p.verbose, "verbose", "Show Envoy's log.")
	f.addSwitch(&p.tui, "tui", "Show the screen of headgate top over the running gateway. q asks whether to end it.")
	f.addSwitch(&p.printConfig, "print-config", "Print what the flags become, and end.")
}

// resolve completes the plan after its flags are read. It refuses flags that contradict each other.
func (p *runPlan) resolve(flags *flagSet) error {
	switch {
	case p.sample && p.upstream != nil:
		return errors.New("--sample brings its own model API: leave out --upstream or --sample")
	case p.sample:
		p.useSampleLimits(flags)
	case p.upstream == nil:
		return errNoUpstream
	}
	return p.resolveConflicts(flags)
}

// runUntilSignal runs the gateway until it ends or a signal comes.
func (p *runPlan) runUntilSignal(term terminal) error {
	asked := catchSignals(p.configPath != "")
	defer asked.stop()
	err := p.run(asked, term)
	if asked.end.Err() != nil {
		return nil // a signal ended the run, and caused whatever failed on the way
	}
	return err
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

// run starts the gateway, and the sample if asked. It returns when the gateway has ended, by itself or because it was
// asked. Everything that it started has ended then.
func (p *runPlan) run(asked *signals, term terminal) error {
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
	if _, err := p.renderBootstrap(); err != nil { // before an Envoy is fetched
		return err
	}
	binary, err := findEnvoy(asked.end, p.notes)
	if err != nil {
		return err
	}
	for range startTries {
		if err = p.serve(asked, term, binary); !errors.Is(err, errPortLost) {
			break
		}
	}
	return err
}

// checkStart looks for reasons why Envoy would not start. An error of its own says them more clearly than Envoy's log.
func (p *runPlan) checkStart() error {
	if _, err := os.Stat(p.wasm); err != nil {
		return fmt.Errorf("no wasm module at %s: make it with `make build`, or say where it is with --wasm", p.wasm)
	}
	if err := checkAddress(p.bind, "--bind"); err != nil {
		return err
	}
	if err := p.admin.settle(); err != nil {
		return err
	}
	if p.admin.isExposed() {
		p.notes.warn("--admin %s: other machines can reach the admin page. Whoever reaches it sees who asks for what, and "+
			"can change the limits", p.admin)
	}
	var err error
	p.envoyAdmin, err = freePort() // two gateways can run side by side
	return err
}

// checkAddress looks for reasons why Envoy could not listen on the address that the flag names.
func checkAddress(address netip.AddrPort, flag string) error {
	listener, err := net.Listen("tcp", address.String())
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s is taken: choose another with %s", address, flag)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("not allowed to listen on %s: choose a port above 1023 with %s", address, flag)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%s is no address of this machine: choose another with %s", address.Addr(), flag)
	case err != nil:
		return fmt.Errorf("can't listen on %s: %w", address, err)
	}
	return listener.Close()
}

// serve runs Envoy in a temporary folder. It removes the folder, except after a failure: Envoy's log is in it.
func (p *runPlan) serve(asked *signals, term terminal, binary string) error {
	bootstrap, err := p.renderBootstrap()
	if err != nil {
		return err
	}
	removeLeftFolders()
	dir, err := makeFolder()
	if err != nil {
		return err
	}
	changes, err := p.prepare(dir.path, bootstrap)
	if err != nil {
		return errors.Join(err, dir.remove())
	}
	done := p.notes.begin("starting Envoy")
	defer done()
	if !p.sample { // the sample ends with us, which is nothing to warn of
		go p.warnIfUnreachable(asked.end)
	}
	var requests io.Writer // none to be shown
	people := term.out
	if p.logAccess {
		requests, people = term.out, term.err // so that standard output is nothing but JSON
	}
	proxy, err := startEnvoy(binary, dir, p.workers, p.shownLog(), requests)
	if err != nil {
		return errors.Join(err, dir.remove())
	}
	address, err := proxy.ready(asked.end)
	if err != nil && p.replaceLost(proxy.log()) {
		proxy.stop()
		return errors.Join(errPortLost, dir.remove())
	}
	if err == nil && changes != nil {
		// Envoy is ready even when it has refused a part: it then answers 500 in its place.
		changes.proxy = proxy
		err = changes.taken(asked.end, 0)
	}
	done()
	if err == nil {
		done := p.present(asked, term, people, address, proxy)
		err = p.wait(asked, proxy, changes)
		done()
	}
	proxy.stop()
	if err != nil && asked.end.Err() == nil {
		dir.keep()
		return fmt.Errorf("%w (Envoy's log: %s)", err, proxy.logPath())
	}
	return dir.remove()
}

// prepare writes what Envoy reads at its start into its folder. With --config that is several files, so that what the
// configuration decides can change later: changes then hands the new values to Envoy. Otherwise changes is nil.
func (p *runPlan) prepare(dir string, bootstrap []byte) (changes *reload, err error) {
	if p.configPath != "" {
		if dir, err = filepath.Abs(dir); err != nil {
			return nil, err
		}
		files := &discovery{dir: dir}
		rest, parts, err := files.split(bootstrap, p.renderedStages())
		if err != nil {
			return nil, err
		}
		if err := files.write(parts); err != nil {
			return nil, err
		}
		changes = &reload{plan: p, discovery: files, rest: rest, judged: p.file.text}
		bootstrap = rest
	}
	if bootstrap, err = addLastAnswers(bootstrap, dir); err != nil {
		return nil, err
	}
	return changes, os.WriteFile(filepath.Join(dir, "envoy.yaml"), bootstrap, 0o600)
}

// wait follows the file of --config until Envoy ends or a signal asks to end. Then it lets requests finish.
func (p *runPlan) wait(asked *signals, proxy *envoyProcess, changes *reload) error {
	p.shadows.Store(p.modeInForce() == "shadow")
	stopWatching := p.watch(proxy)
	defer stopWatching()
	var looks <-chan time.Time // none without a file
	if changes != nil {
		ticker := time.NewTicker(watchEvery)
		defer ticker.Stop()
		looks = ticker.C
	}
	for {
		select {
		case <-asked.end.Done():
			p.letFinish(asked.atOnce, proxy)
			return nil
		case <-proxy.ended:
			return proxy.endError("ended")
		case <-asked.reread:
			changes.lookAtOnce(asked.end)
		case <-looks:
			changes.look(asked.end)
		}
	}
}

// watch tells what changes in the gateway, until stop is called.
func (p *runPlan) watch(proxy *envoyProcess) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() {
		newWatcher(p.notes, func() ([]byte, error) { return proxy.ask(watchedStats) }, p.shadows.Load).watch(ctx)
	})
	return func() {
		cancel()
		ended.Wait()
	}
}
