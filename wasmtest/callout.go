package wasmtest

import "time"

// Callout is an HTTP call by a guest, which waits for the test's answer.
type Callout struct {
	Cluster  string
	Headers  Headers
	Body     []byte
	Trailers Headers
	Timeout  time.Duration // 0 = none; nothing times out by itself
	Token    uint32
	root     *Root
	answered bool
}

// Callouts returns the HTTP calls not answered yet, in order, of all VMs.
func (h *Host) Callouts() []*Callout { return append([]*Callout(nil), h.callouts...) }

// Answer delivers a response to the root context that made the call. It does nothing the second time, or when the VM or
// root is gone.
func (c *Callout) Answer(headers Headers, body []byte, trailers Headers) {
	c.deliver(Message{Headers: headers, Body: body, Trailers: trailers}, 0, "")
}

// Fail makes the call fail: the guest's callback gets zero headers, and proxy_get_status says why.
func (c *Callout) Fail() { c.deliver(Message{}, uint32(StatusBrokenConnection), "reset") }

// Root returns the root context that made the call.
func (c *Callout) Root() *Root { return c.root }

func (c *Callout) deliver(m Message, code uint32, message string) {
	r := c.root
	r.vm.worker.enter()
	defer r.vm.worker.leave()
	if c.answered {
		return
	}
	c.answered = true
	h := r.vm.host
	for i, other := range h.callouts {
		if other == c {
			h.callouts = append(h.callouts[:i:i], h.callouts[i+1:]...)
			break
		}
	}
	if r.state == rootGone {
		return
	}
	if m.Headers != nil {
		r.answer = &m
	}
	r.vm.status.code, r.vm.status.message = code, message
	r.vm.enterGuest(onHTTPCallResponse, r.context, c.Token,
		uint32(len(m.Headers)), uint32(len(m.Body)), uint32(len(m.Trailers)))
	r.vm.runActions()
	r.answer, r.vm.status.message = nil, ""
}

// httpCall checks what the real host checks, but knows no clusters: any name will do.
func (vm *VM) httpCall(cluster string, headers Headers, body []byte, trailers Headers, millis int32) (uint32, Status) {
	if millis < 0 || !headers.Has(":path") || !headers.Has(":method") || !headers.Has(":authority") {
		return 0, StatusBadArgument
	}
	root := vm.context().root
	if root == nil {
		return 0, StatusBadArgument
	}
	vm.lastCall++
	vm.host.callouts = append(vm.host.callouts, &Callout{
		Cluster: cluster, Headers: headers, Body: append([]byte(nil), body...), Trailers: trailers,
		Timeout: time.Duration(millis) * time.Millisecond, Token: vm.lastCall, root: root,
	})
	return vm.lastCall, StatusOk
}

// ForeignFunction is a function of the host that guests call through proxy_call_foreign_function. It runs while the
// guest vm waits, and owns argument.
type ForeignFunction func(vm *VM, argument []byte) (result []byte, status Status)

// SetForeignFunction makes f callable by name. Names not set answer [StatusNotFound].
func (h *Host) SetForeignFunction(name string, f ForeignFunction) { h.foreign[name] = f }
