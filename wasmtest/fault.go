package wasmtest

import "errors"

// errCrash unwinds a guest that a hook killed.
var errCrash = errors.New("the VM is dead")

// HostCall is a call of an env import, about to be made, as a hook sees it. It is valid until the hook returns.
type HostCall struct {
	vm       *VM
	def      *hostCall
	args     []uint64
	number   int
	answered bool
	status   Status
}

// OnHostCall sets a hook that runs before each call of an env import by any guest, nil for none. The guest is stopped
// in the middle of its callback, so this is the place to let another worker do something between two of its calls, to
// fail or drop the call, or to let the VM crash. Events on the same worker are impossible meanwhile: its thread is
// busy.
//
// Calls that the hook itself causes on other workers run it too.
func (h *Host) OnHostCall(hook func(*HostCall)) { h.intercept = hook }

// Name is the import's name: "proxy_set_shared_data".
func (c *HostCall) Name() string { return c.def.name }

// Number counts the host calls of all VMs from 1, this one included: a fault at "call 17" is the same in every run.
func (c *HostCall) Number() int { return c.number }

// VM returns the VM that calls, and Worker its thread.
func (c *HostCall) VM() *VM { return c.vm }

// Worker returns the thread that calls.
func (c *HostCall) Worker() *Worker { return c.vm.worker }

// Callback is the guest's callback that makes the call, "proxy_on_tick", or "" while the VM starts.
func (c *HostCall) Callback() string { return c.vm.callback.String() }

// ContextID is the effective context.
func (c *HostCall) ContextID() uint32 { return c.vm.context().id }

// Arg returns argument i as it was passed, 0 if there is none.
func (c *HostCall) Arg(i int) uint64 {
	if i >= len(c.args) {
		return 0
	}
	return c.args[i]
}

// Text reads the string whose address is argument i and whose size is argument i+1: the key of a shared-data call is
// Text(0), its value Text(2).
func (c *HostCall) Text(i int) string {
	b, _ := c.vm.read(c.Arg(i), c.Arg(i+1))
	return string(b)
}

// Fail makes the call answer status and do nothing else.
func (c *HostCall) Fail(status Status) { c.answered, c.status = true, status }

// Drop makes the call answer Ok and do nothing: a message that gets lost. Results of the call, if it has any, aren't
// written.
func (c *HostCall) Drop() { c.Fail(StatusOk) }

// Crash kills the VM here, as a trap at this point would, except that [Host.Err] doesn't count it. The call doesn't
// happen.
func (c *HostCall) Crash() { c.vm.kill() }

// ask runs the hook for a call. It reports whether the hook has answered it.
func (vm *VM) ask(def *hostCall, args []uint64) (status Status, answered bool) {
	c := &vm.call
	*c = HostCall{vm: vm, def: def, args: args, number: vm.host.callNumber}
	defer func() {
		if p := recover(); p != nil {
			vm.panics = p // run passes it on; wazero would return an error
			panic(p)
		}
	}()
	vm.host.intercept(c)
	return c.status, c.answered
}
