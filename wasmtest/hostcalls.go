package wasmtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// hostCall is an import of module "env".
type hostCall struct {
	name   string
	params string // i = i32, I = i64
	text   int    // where the name or key is among the arguments, for the trace; -1: the call has none
	run    func(vm *VM, a []uint64) Status
	index  int
}

// errRestricted traps a guest that calls the host while it starts or while it allocates for the host.
var errRestricted = errors.New("only logging is allowed during _initialize and memory allocation")

var hostCalls = []*hostCall{
	{"proxy_log", "iii", 1, callLog, 0},
	{"proxy_get_log_level", "i", -1, callGetLogLevel, 0},
	{"proxy_get_status", "iii", -1, callGetStatus, 0},
	{"proxy_get_property", "iiii", 0, callGetProperty, 0},
	{"proxy_set_property", "iiii", 0, callSetProperty, 0},
	{"proxy_get_header_map_value", "iiiii", 1, callGetHeader, 0},
	{"proxy_add_header_map_value", "iiiii", 1, callAddHeader, 0},
	{"proxy_replace_header_map_value", "iiiii", 1, callReplaceHeader, 0},
	{"proxy_remove_header_map_value", "iii", 1, callRemoveHeader, 0},
	{"proxy_get_header_map_pairs", "iii", -1, callGetHeaderPairs, 0},
	{"proxy_set_header_map_pairs", "iii", -1, callSetHeaderPairs, 0},
	{"proxy_get_header_map_size", "ii", -1, callGetHeaderSize, 0},
	{"proxy_get_buffer_bytes", "iiiii", -1, callGetBuffer, 0},
	{"proxy_get_buffer_status", "iii", -1, callGetBufferStatus, 0},
	{"proxy_set_buffer_bytes", "iiiii", -1, callSetBuffer, 0},
	{"proxy_continue_stream", "i", -1, callContinue, 0},
	{"proxy_close_stream", "i", -1, callClose, 0},
	{"proxy_send_local_response", "iiiiiiii", 1, callLocalResponse, 0},
	{"proxy_get_shared_data", "iiiii", 0, callGetSharedData, 0},
	{"proxy_set_shared_data", "iiiii", 0, callSetSharedData, 0},
	{"proxy_register_shared_queue", "iii", 0, callRegisterQueue, 0},
	{"proxy_resolve_shared_queue", "iiiii", 2, callResolveQueue, 0},
	{"proxy_enqueue_shared_queue", "iii", 1, callEnqueue, 0},
	{"proxy_dequeue_shared_queue", "iii", -1, callDequeue, 0},
	{"proxy_set_tick_period_milliseconds", "i", -1, callSetTick, 0},
	{"proxy_get_current_time_nanoseconds", "i", -1, callCurrentTime, 0},
	{"proxy_set_effective_context", "i", -1, callSetEffectiveContext, 0},
	{"proxy_done", "", -1, func(vm *VM, _ []uint64) Status { return vm.done(vm.context()) }, 0},
	{"proxy_define_metric", "iiii", 1, callDefineMetric, 0},
	{"proxy_increment_metric", "iI", -1, func(vm *VM, a []uint64) Status {
		return vm.incrementMetric(uint32(a[0]), int64(a[1]))
	}, 0},
	{"proxy_record_metric", "iI", -1, func(vm *VM, a []uint64) Status { return vm.recordMetric(uint32(a[0]), a[1]) }, 0},
	{"proxy_get_metric", "ii", -1, callGetMetric, 0},
	{"proxy_http_call", "iiiiiiiiii", 0, callHTTP, 0},
	{"proxy_call_foreign_function", "iiiiii", 0, callForeign, 0},
	{"proxy_grpc_call", "iiiiiiiiiiii", -1, unimplemented, 0},
	{"proxy_grpc_stream", "iiiiiiiii", -1, unimplemented, 0},
	{"proxy_grpc_send", "iiii", -1, unimplemented, 0},
	{"proxy_grpc_cancel", "i", -1, unimplemented, 0},
	{"proxy_grpc_close", "i", -1, unimplemented, 0},
}

var hostCallIndex = func() map[string]int {
	index := make(map[string]int, len(hostCalls))
	for i, c := range hostCalls {
		c.index = i
		index[c.name] = i
	}
	return index
}()

func instantiateEnv(ctx context.Context, runtime wazero.Runtime) error {
	builder := runtime.NewHostModuleBuilder("env")
	for _, c := range hostCalls {
		builder.NewFunctionBuilder().
			WithGoModuleFunction(api.GoModuleFunc(c.call), valueTypes(c.params), []api.ValueType{api.ValueTypeI32}).
			Export(c.name)
	}
	_, err := builder.Instantiate(ctx)
	return err
}

// arguments clears what an engine may leave in the upper half of a 32-bit argument.
func arguments(stack []uint64, letters string) []uint64 {
	for i := range letters {
		if letters[i] == 'i' {
			stack[i] = uint64(uint32(stack[i]))
		}
	}
	return stack[:len(letters)]
}

func valueTypes(letters string) []api.ValueType {
	types := make([]api.ValueType, len(letters))
	for i, l := range letters {
		types[i] = api.ValueTypeI32
		if l == 'I' {
			types[i] = api.ValueTypeI64
		}
	}
	return types
}

// call is what the guest enters: the rules common to all imports.
func (c *hostCall) call(ctx context.Context, _ api.Module, stack []uint64) {
	vm := ctx.(*vmContext).vm
	if vm.restricted && c.name != "proxy_log" {
		panic(fmt.Errorf("%s: %w", c.name, errRestricted))
	}
	vm.worker.calls[c.index]++
	vm.host.callNumber++
	args := arguments(stack, c.params)
	var status Status
	answered := false
	if vm.host.intercept != nil {
		status, answered = vm.ask(c, args)
	}
	switch {
	case answered:
		vm.host.trace(vm.name(), "  %s = %s, says the hook", c.name, status)
	case vm.failed == nil:
		status = c.answer(vm, args)
	}
	if vm.failed != nil {
		panic(errCrash)
	}
	stack[0] = uint64(status)
}

func (c *hostCall) answer(vm *VM, args []uint64) Status {
	if vm.host.traceTo == nil || c.name == "proxy_log" { // log traces itself
		return c.run(vm, args)
	}
	what := traceCall(vm, c, args)
	status := c.run(vm, args)
	vm.host.trace(vm.name(), "  %s = %s", what, status)
	return status
}

func traceCall(vm *VM, c *hostCall, args []uint64) string {
	name := strings.TrimPrefix(c.name, "proxy_")
	if c.text >= 0 {
		text, _ := vm.read(args[c.text], args[c.text+1])
		return fmt.Sprintf("%s %q", name, text)
	}
	if len(args) > 0 {
		return fmt.Sprintf("%s %d", name, args[0])
	}
	return name
}

func traceArgs(args []uint32) string {
	return "(" + strings.Trim(strings.ReplaceAll(fmt.Sprint(args), " ", ", "), "[]") + ")"
}

func unimplemented(*VM, []uint64) Status { return StatusUnimplemented }

func callLog(vm *VM, a []uint64) Status {
	message, ok := vm.read(a[1], a[2])
	switch {
	case a[0] > uint64(LogCritical):
		return StatusBadArgument
	case !ok:
		return StatusInvalidMemoryAccess
	}
	vm.log(LogLevel(a[0]), string(message))
	return StatusOk
}

func callGetLogLevel(vm *VM, a []uint64) Status { return vm.write(a[0], uint32(vm.host.logLevel)) }

func callGetStatus(vm *VM, a []uint64) Status {
	return vm.write(a[0], vm.status.code).then(vm.give([]byte(vm.status.message), a[1], a[2]))
}

func callGetProperty(vm *VM, a []uint64) Status {
	path, ok := vm.read(a[0], a[1])
	if !ok {
		return StatusInvalidMemoryAccess
	}
	value, ok := vm.context().property(path)
	if !ok {
		return StatusNotFound
	}
	return vm.give(value, a[2], a[3])
}

func callSetProperty(vm *VM, a []uint64) Status {
	key, ok1 := vm.read(a[0], a[1])
	value, ok2 := vm.read(a[2], a[3])
	if !ok1 || !ok2 {
		return StatusInvalidMemoryAccess
	}
	return vm.context().setProperty(key, value)
}

func callSetTick(vm *VM, a []uint64) Status {
	if root := vm.context().root; root != nil {
		root.setTick(time.Duration(uint32(a[0])) * time.Millisecond)
	}
	return StatusOk
}

func callCurrentTime(vm *VM, a []uint64) Status { return vm.write64(a[0], uint64(vm.host.clock.wall)) }

func callHTTP(vm *VM, a []uint64) Status {
	cluster, ok1 := vm.read(a[0], a[1])
	headers, ok2 := vm.readPairs(a[2], a[3])
	body, ok3 := vm.read(a[4], a[5])
	trailers, ok4 := vm.readPairs(a[6], a[7])
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return StatusInvalidMemoryAccess
	}
	token, status := vm.httpCall(string(cluster), headers, body, trailers, int32(a[8]))
	return vm.write(a[9], token).then(status)
}

func callForeign(vm *VM, a []uint64) Status {
	name, ok1 := vm.read(a[0], a[1])
	argument, ok2 := vm.read(a[2], a[3])
	if !ok1 || !ok2 {
		return StatusInvalidMemoryAccess
	}
	f := vm.host.foreign[string(name)]
	if f == nil {
		return StatusNotFound
	}
	result, status := f(vm, append([]byte(nil), argument...))
	if a[4] == 0 || a[5] == 0 {
		return status
	}
	return vm.give(result, a[4], a[5]).then(status)
}
