package wasmtest

import (
	"errors"
	"fmt"
)

// ErrRefused is wrapped by the error of [Host.Load] when the guest's proxy_on_vm_start or proxy_on_configure answered
// false.
var ErrRefused = errors.New("configuration refused")

// PluginConfig is one use of a module in the proxy's configuration.
type PluginConfig struct {
	Name   string // the property plugin_name
	RootID string // the property plugin_root_id
	// Configuration is what the guest reads in proxy_on_configure.
	Configuration []byte
	// Module and VMConfiguration are those of the host when nil. Plugins that agree in both share one VM per thread; with
	// other code or another VM configuration they get VMs of their own, and shared data is common to all.
	Module          *Module
	VMConfiguration []byte
	// AllowOnHeadersStopIteration is Envoy's allow_on_headers_stop_iteration: a guest that answers 1 to headers then sees
	// the body while the headers wait. Without it the body waits too.
	AllowOnHeadersStopIteration bool
	// FailOpen lets streams pass when the VM has failed, instead of 503.
	FailOpen bool
}

// Plugin is a loaded [PluginConfig]: one root context on each thread.
type Plugin struct {
	host    *Host
	config  PluginConfig
	roots   map[*Worker]*Root
	retired bool
}

func (c PluginConfig) key() string {
	return fmt.Sprintf("%q %q %q %p %q %t %t", c.Name, c.RootID, c.Configuration, c.Module, c.VMConfiguration,
		c.AllowOnHeadersStopIteration, c.FailOpen)
}

// Load brings a plugin configuration to the main thread and every worker, in that order and at once: a new root context
// in the VM that fits, made if there is none, with proxy_on_context_create, proxy_on_vm_start and proxy_on_configure.
// (The real host calls vm_start for each root, whatever its name suggests.) Other plugins go on as before: to replace
// one, load the new and [Plugin.Retire] the old.
//
// If the same configuration is still loaded, or retired but alive on a thread, that root is used again without any
// callback, as the real host does.
//
// It fails with [ErrRefused] if the guest answers false and with the trap if it traps. With [WithCanary] no worker has
// seen a configuration refused; without, the refusing worker answers 503 to the plugin's streams.
func (h *Host) Load(config PluginConfig) (*Plugin, error) {
	p, err := h.admit(config)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, w := range h.threads() {
		if p.at(w) == nil {
			w.enter()
			errs = append(errs, p.start(w))
			w.leave()
		}
	}
	return p, errors.Join(errs...)
}

// MustLoad is [Host.Load] that panics on error.
func (h *Host) MustLoad(config PluginConfig) *Plugin {
	p, err := h.Load(config)
	if err != nil {
		panic(err)
	}
	return p
}

// Announce is [Host.Load] that leaves the threads' part as pending [Configure] events, so that workers get the
// configuration at different moments. A failure on a thread shows in [Host.Err].
func (h *Host) Announce(config PluginConfig) (*Plugin, error) {
	p, err := h.admit(config)
	if err != nil {
		return nil, err
	}
	for _, w := range h.threads() {
		h.post(Event{Kind: Configure, Worker: w, Plugin: p})
	}
	return p, nil
}

// admit finds or makes the plugin, and asks the canary about a new one.
func (h *Host) admit(config PluginConfig) (*Plugin, error) {
	if config.Module == nil {
		config.Module = h.module
	}
	if config.VMConfiguration == nil {
		config.VMConfiguration = h.options.vmConfiguration
	}
	key := config.key()
	for _, p := range h.plugins {
		if p.config.key() == key {
			p.revive()
			return p, nil
		}
	}
	p := &Plugin{host: h, config: config, roots: map[*Worker]*Root{}}
	if h.options.canary {
		if err := p.askCanary(key); err != nil {
			return nil, err
		}
	}
	h.plugins = append(h.plugins, p)
	return p, nil
}

func (p *Plugin) revive() {
	p.retired = false
	for _, r := range p.roots {
		r.retired = false
	}
}

// askCanary tries the configuration in a VM of its own, which gets no on_done. The answer is kept for the next time.
func (p *Plugin) askCanary(key string) error {
	if err := p.host.refused[key]; err != nil {
		return err
	}
	w := p.host.canary
	w.enter()
	defer w.leave()
	vm, err := newVM(w, p.config.Module, p.config.VMConfiguration)
	if err != nil {
		return err
	}
	w.vms = []*VM{vm}
	err = p.newRoot(vm).configure()
	vm.close()
	w.vms = nil
	p.host.trace(w.name, "> killed")
	if errors.Is(err, ErrRefused) {
		p.host.refused[key] = err
	}
	return err
}

// at is the plugin's root on that thread if new streams can use it, nil otherwise.
func (p *Plugin) at(w *Worker) *Root {
	if r := p.roots[w]; r != nil && (r.state == rootLive || r.state == rootRefused) {
		return r
	}
	return nil
}

func (p *Plugin) arrive(w *Worker) {
	if p.at(w) != nil || p.retired {
		return
	}
	if err := p.start(w); err != nil {
		p.host.failures = append(p.host.failures, err)
	}
}

// start makes the plugin's root on that thread.
func (p *Plugin) start(w *Worker) error {
	vm, err := w.vmFor(p.config.Module, p.config.VMConfiguration)
	if err != nil {
		return err
	}
	r := p.newRoot(vm)
	p.roots[w] = r
	return r.configure()
}

// Config returns the configuration the plugin was loaded with.
func (p *Plugin) Config() PluginConfig { return p.config }

// Root returns the plugin's root context on worker i or, with [MainThread], on the main thread. It is nil when the
// configuration hasn't come there or the root is gone.
func (p *Plugin) Root(i int) *Root {
	for _, w := range p.host.threads() {
		if w.index == i {
			return p.at(w)
		}
	}
	return nil
}

// Stream begins a stream on worker i: see [Root.Stream]. It panics if the plugin has no root there.
func (p *Plugin) Stream(i int, options ...StreamOption) *Stream {
	r := p.Root(i)
	if r == nil {
		panic(fmt.Sprintf("wasmtest: plugin %q isn't loaded on worker %d", p.config.Name, i))
	}
	return r.Stream(options...)
}

// Retire takes the plugin out of the configuration. On each thread its root lives on, and ticks, until its last stream
// has ended; then proxy_on_done and proxy_on_delete end it and its queues wake no one any more. When no plugin and no
// VM is left, shared data and queues are gone.
func (p *Plugin) Retire() {
	p.retired = true
	for _, w := range p.host.threads() {
		if r := p.roots[w]; r != nil {
			r.Retire()
		}
	}
}

// dropDataOfNobody removes shared data and queues when the last plugin and VM are gone.
func (h *Host) dropDataOfNobody() {
	if len(h.plugins) == 0 {
		return
	}
	for _, p := range h.plugins {
		if !p.gone() {
			return
		}
	}
	h.plugins = nil
	h.data.Clear()
	h.queues.clear()
	h.trace("", "the last VM is gone: shared data and queues are too")
}

func (p *Plugin) gone() bool {
	if !p.retired {
		return false
	}
	for _, r := range p.roots {
		if r.state != rootGone {
			return false
		}
	}
	return true
}
