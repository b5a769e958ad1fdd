package wasmtest

import "fmt"

type rootState int

const (
	rootLive     rootState = iota
	rootRefused            // start or configure answered false: its streams fail
	rootEnding             // on_done answered false: waits for proxy_done
	rootDeleting           // proxy_done came
	rootGone
)

// Root is a plugin's root context on one thread.
type Root struct {
	plugin  *Plugin
	vm      *VM
	context *guestContext
	state   rootState
	retired bool
	streams int
	timer   timer
	answer  *Message // to its HTTP call, while it is delivered
}

func (p *Plugin) newRoot(vm *VM) *Root {
	r := &Root{plugin: p, vm: vm}
	r.context = vm.newContext(r, nil)
	vm.roots = append(vm.roots, r)
	return r
}

// configure runs the root's first three callbacks.
func (r *Root) configure() error {
	vm, p := r.vm, r.plugin
	vm.configuring = p
	vm.enterGuest(onContextCreate, r.context, 0)
	vm.configuring = nil
	started := vm.agrees(onVMStart, r.context, uint32(len(vm.configuration)))
	vm.runActions()
	if started && vm.failed == nil {
		vm.configuring = p
		started = vm.agrees(onConfigure, r.context, uint32(len(p.config.Configuration)))
		vm.configuring = nil
		vm.runActions()
	}
	if vm.failed != nil {
		return vm.failed
	}
	if !started {
		r.state = rootRefused
		return fmt.Errorf("plugin %q on %s: %w", p.config.Name, vm.name(), ErrRefused)
	}
	return nil
}

// agrees calls a callback that answers yes or no; one that isn't exported says yes.
func (vm *VM) agrees(cb callback, c *guestContext, args ...uint32) bool {
	if vm.callbacks[cb] == nil {
		return true
	}
	result, ok := vm.enterGuest(cb, c, args...)
	return ok && result != 0
}

// Retire is [Plugin.Retire] on one thread.
func (r *Root) Retire() {
	w := r.vm.worker
	w.enter()
	defer w.leave()
	r.retired = true
	r.endIfUnused()
}

// VM returns the VM the root lives in.
func (r *Root) VM() *VM { return r.vm }

// ContextID is the root's context id in its VM.
func (r *Root) ContextID() uint32 { return r.context.id }

// Gone reports whether the root has ended.
func (r *Root) Gone() bool { return r.state == rootGone }

// Streams is the number of the root's streams that haven't ended.
func (r *Root) Streams() int { return r.streams }

func (r *Root) streamGone() {
	r.streams--
	r.endIfUnused()
}

func (r *Root) endIfUnused() {
	if !r.retired || r.streams > 0 {
		return
	}
	switch {
	case r.state == rootRefused || r.vm.failed != nil:
		r.remove()
	case r.state == rootLive:
		done := r.vm.agrees(onDone, r.context)
		r.vm.runActions()
		if done || r.vm.failed != nil {
			r.delete()
		} else {
			r.state = rootEnding
		}
	}
}

func (r *Root) delete() {
	r.vm.enterGuest(onDelete, r.context)
	r.vm.runActions()
	r.remove()
}

func (r *Root) remove() {
	r.state = rootGone
	r.timer.armed = false
	delete(r.vm.contexts, r.context.id)
	for i, other := range r.vm.roots {
		if other == r {
			r.vm.roots = append(r.vm.roots[:i:i], r.vm.roots[i+1:]...)
		}
	}
}

// done is proxy_done: the root that delayed its end may end now.
func (vm *VM) done(c *guestContext) Status {
	if c.root == nil || c.root.state != rootEnding {
		return StatusNotFound
	}
	c.root.state = rootDeleting
	vm.actions = append(vm.actions, action{kind: rootDoneAction})
	return StatusOk
}

func (vm *VM) finishRoots() {
	for _, r := range append([]*Root(nil), vm.roots...) {
		if r.state == rootDeleting {
			r.delete()
		}
	}
}
