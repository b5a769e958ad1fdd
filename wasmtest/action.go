package wasmtest

import "fmt"

// action is what a guest asked for in a callback and the host does after it: continue, reply or close.
type action struct {
	stream    *Stream
	kind      actionKind
	direction direction
	reply     *LocalReply
}

type actionKind int

const (
	continueAction actionKind = iota
	replyAction
	closeAction
	rootDoneAction
)

// queueAction defers a stream action of the current callback.
func (vm *VM) queueAction(a action) {
	vm.actions = append(vm.actions, a)
	vm.actionsQueued++
	vm.host.maxActions = max(vm.host.maxActions, vm.actionsQueued)
}

// judgeActions traps the VM when its callback queued more than a real stack has room for.
func (vm *VM) judgeActions() {
	if limit := vm.host.options.actionLimit; vm.failed == nil && vm.actionsQueued > limit {
		vm.violate(TooManyActions, "%d in one %s, the limit is %d", vm.actionsQueued, vm.callback, limit)
		vm.fail(fmt.Errorf("%d stream actions in one callback overflow the host's stack", vm.actionsQueued))
	}
}

func (vm *VM) dropActions() { vm.actions = vm.actions[:0] }

// runActions does what was deferred, in order. An action may call into the guest. The end of that callback comes here
// again, and does the rest of the list before the first action has returned. So the actions of one callback run nested,
// as they do on a real stack.
func (vm *VM) runActions() {
	vm.stopIteration = false
	for len(vm.actions) > 0 && vm.failed == nil {
		if vm.nested++; vm.nested > vm.host.options.actionLimit {
			vm.violate(TooManyActions, "nested %d deep", vm.nested)
			vm.fail(fmt.Errorf("stream actions nested %d deep overflow the host's stack", vm.nested))
		} else {
			a := vm.actions[0]
			vm.actions = vm.actions[1:]
			a.do(vm)
		}
		vm.nested--
	}
}

func (a action) do(vm *VM) {
	if a.kind == rootDoneAction {
		vm.finishRoots()
		return
	}
	if a.stream.ended != nil {
		return
	}
	switch a.kind {
	case continueAction:
		a.stream.resume(a.direction)
	case replyAction:
		a.stream.reply(a.reply)
	case closeAction:
		a.stream.end(End{Cause: Closed, Details: "wasm_close_stream", Flags: a.closeFlag()})
	}
}

func (a action) closeFlag() ResponseFlags {
	if a.stream.upstream || a.direction == response {
		return FlagLocalReset
	}
	return 0
}
