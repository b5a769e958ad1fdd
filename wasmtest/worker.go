package wasmtest

import (
	"errors"
	"fmt"
)

// The indexes of the threads that aren't workers.
const (
	MainThread   = -1
	CanaryThread = -2
)

// Worker is one thread of the proxy. Like the thread, it does one thing at a time: while one of its callbacks runs
// (which a test can notice only inside a [Host.OnHostCall] hook), it takes no other event, and trying to panics.
type Worker struct {
	host  *Host
	index int
	name  string
	vms   []*VM // live ones, and failed ones until Reload
	posts []Event
	depth int // of public methods on this worker
	ended []*guestContext
	calls []int // by index of the host call
}

func newWorker(h *Host, index int, name string) *Worker {
	return &Worker{host: h, index: index, name: name, calls: make([]int, len(hostCallIndex))}
}

// Index is 0 for the first worker, [MainThread] or [CanaryThread].
func (w *Worker) Index() int { return w.index }

// Name is "w0" for the first worker, "main" or "canary".
func (w *Worker) Name() string { return w.name }

// VMs returns the VMs on this thread: usually one, two while code or vm_config change, with failed ones until
// [Worker.Reload].
func (w *Worker) VMs() []*VM { return append([]*VM(nil), w.vms...) }

// Err returns why a VM on this thread no longer runs: a trap, or [ErrKilled]. It is nil while all is well.
func (w *Worker) Err() error {
	for _, vm := range w.vms {
		if vm.failed != nil {
			return vm.failed
		}
	}
	return nil
}

// Kill ends every VM on this thread as a trap would, between callbacks or, from a hook, in the middle of one. Its
// streams never get another callback: a paused one stays paused, a streaming one is cut at its next piece. What it
// wrote to shared data, queues and metrics stays. [Host.Err] doesn't count it.
func (w *Worker) Kill() {
	for _, vm := range w.vms {
		vm.kill()
	}
	w.collect()
}

// Reload replaces the failed VMs of this thread as FAIL_RELOAD does at the next new stream: each plugin not retired
// gets a new VM, in the order they were loaded, with create, start and configure. Context ids start anew. It returns an
// error if no VM has failed or a plugin doesn't start.
func (w *Worker) Reload() error {
	if w.Err() == nil {
		return fmt.Errorf("reload %s: no VM of it has failed", w.name)
	}
	w.enter()
	defer w.leave()
	var dead []*VM
	for _, vm := range w.vms {
		if vm.failed != nil {
			dead = append(dead, vm)
		}
	}
	w.removeFailed()
	var errs []error
	for _, p := range w.host.plugins {
		for _, vm := range dead {
			root := p.roots[w]
			if root == nil || root.vm != vm {
				continue
			}
			delete(p.roots, w) // so that a retired plugin that is loaded again gets a root in the new VM
			if !p.retired {
				errs = append(errs, p.start(w))
			}
		}
	}
	return errors.Join(errs...)
}

func (w *Worker) removeFailed() {
	kept := w.vms[:0]
	for _, vm := range w.vms {
		if vm.failed == nil {
			kept = append(kept, vm)
		} else {
			vm.close()
		}
	}
	w.vms = kept
}

// enter begins an event on this thread. Inside another one it panics: the thread is busy.
func (w *Worker) enter() {
	if w.depth > 0 {
		panic(fmt.Sprintf("wasmtest: %s is in the middle of a callback: one thread runs one callback at a time", w.name))
	}
	if w.host.closed {
		panic("wasmtest: the host is closed")
	}
	w.depth++
}

// leave ends an event: what the proxy deletes later (contexts of ended streams, roots and VMs without users) goes now.
func (w *Worker) leave() {
	w.depth--
	w.collect()
}

func (w *Worker) collect() {
	if w.depth > 0 {
		return
	}
	for len(w.ended) > 0 {
		c := w.ended[0]
		w.ended = w.ended[1:]
		delete(c.vm.contexts, c.id)
		if c.stream != nil {
			w.depth++ // a retired root's last callbacks are an event too
			c.root.streamGone()
			w.depth--
		}
	}
	kept := w.vms[:0]
	for _, vm := range w.vms {
		if vm.failed != nil || vm.inUse() {
			kept = append(kept, vm)
		} else {
			vm.close()
		}
	}
	w.vms = kept
	w.host.dropDataOfNobody()
}

// vmFor returns the thread's live VM for that code and configuration, making one if there is none.
func (w *Worker) vmFor(module *Module, configuration []byte) (*VM, error) {
	for _, vm := range w.vms {
		if vm.failed == nil && vm.module == module && string(vm.configuration) == string(configuration) {
			return vm, nil
		}
	}
	vm, err := newVM(w, module, configuration)
	if err != nil {
		return nil, err
	}
	w.vms = append(w.vms, vm)
	return vm, nil
}
