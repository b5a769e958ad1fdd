package wasmtest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// errSleeps traps a guest that waits inside a callback. In a real proxy it would block the worker, or never come back.
var errSleeps = errors.New("the guest sleeps or waits in a callback: virtual time stands still meanwhile, " +
	"and a real worker would be blocked")

// maxPolls is how many poll_oneoff calls in one callback are taken for the runtime's own (the Go runtime makes a few).
const maxPolls = 10_000

// wasiCall is an import of wasi_snapshot_preview1. The real host has nothing behind most of them: those answer the same
// errno always.
type wasiCall struct {
	name   string
	params string
	errno  Errno
	run    func(vm *VM, a []uint64) Errno
}

var wasiCalls = []wasiCall{
	{"args_get", "ii", ErrnoSuccess, nil},
	{"args_sizes_get", "ii", 0, wasiNone},
	{"environ_get", "ii", ErrnoSuccess, nil},
	{"environ_sizes_get", "ii", 0, wasiNone},
	{"clock_res_get", "ii", 0, wasiClockResolution},
	{"clock_time_get", "iIi", 0, wasiClockTime},
	{"random_get", "ii", 0, wasiRandom},
	{"sched_yield", "", ErrnoSuccess, nil},
	{"poll_oneoff", "iiii", 0, wasiPoll},
	{"fd_write", "iiii", 0, wasiWrite},
	{"fd_fdstat_get", "ii", 0, wasiFdstat},
	{"fd_advise", "iIIi", ErrnoSuccess, nil},
	{"fd_allocate", "iII", ErrnoBadf, nil},
	{"fd_close", "i", ErrnoSuccess, nil},
	{"fd_datasync", "i", ErrnoBadf, nil},
	{"fd_fdstat_set_flags", "ii", ErrnoNosys, nil},
	{"fd_fdstat_set_rights", "iII", ErrnoBadf, nil},
	{"fd_filestat_get", "ii", ErrnoBadf, nil},
	{"fd_filestat_set_size", "iI", ErrnoBadf, nil},
	{"fd_filestat_set_times", "iIIi", ErrnoBadf, nil},
	{"fd_pread", "iiiIi", ErrnoNotsup, nil},
	{"fd_prestat_dir_name", "iii", ErrnoNosys, nil},
	{"fd_prestat_get", "ii", ErrnoBadf, nil},
	{"fd_pwrite", "iiiIi", ErrnoNotsup, nil},
	{"fd_read", "iiii", ErrnoNosys, nil},
	{"fd_readdir", "iiiIi", ErrnoNotsup, nil},
	{"fd_renumber", "ii", ErrnoNotsup, nil},
	{"fd_seek", "iIii", ErrnoSuccess, nil},
	{"fd_sync", "i", ErrnoBadf, nil},
	{"fd_tell", "ii", ErrnoBadf, nil},
	{"path_create_directory", "iii", ErrnoNotsup, nil},
	{"path_filestat_get", "iiiii", ErrnoNotsup, nil},
	{"path_filestat_set_times", "iiiiIIi", ErrnoNotsup, nil},
	{"path_link", "iiiiiii", ErrnoNotsup, nil},
	{"path_open", "iiiiiIIii", ErrnoNoent, nil},
	{"path_readlink", "iiiiii", ErrnoNotsup, nil},
	{"path_remove_directory", "iii", ErrnoNotsup, nil},
	{"path_rename", "iiiiii", ErrnoNotsup, nil},
	{"path_symlink", "iiiii", ErrnoNotsup, nil},
	{"path_unlink_file", "iii", ErrnoNotsup, nil},
	{"sock_accept", "iii", ErrnoNotsup, nil},
	{"sock_recv", "iiiiii", ErrnoNotsup, nil},
	{"sock_send", "iiiii", ErrnoNotsup, nil},
	{"sock_shutdown", "ii", ErrnoNotsup, nil},
}

// instantiateWASI offers the imports under both names that modules use.
func instantiateWASI(ctx context.Context, runtime wazero.Runtime) error {
	for _, module := range []string{"wasi_snapshot_preview1", "wasi_unstable"} {
		builder := runtime.NewHostModuleBuilder(module)
		for _, c := range wasiCalls {
			builder.NewFunctionBuilder().
				WithGoModuleFunction(api.GoModuleFunc(c.call), valueTypes(c.params), []api.ValueType{api.ValueTypeI32}).
				Export(c.name)
		}
		builder.NewFunctionBuilder().
			WithGoModuleFunction(api.GoModuleFunc(wasiExit), []api.ValueType{api.ValueTypeI32}, nil).
			Export("proc_exit")
		if _, err := builder.Instantiate(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c wasiCall) call(ctx context.Context, _ api.Module, stack []uint64) {
	errno := c.errno
	if c.run != nil {
		errno = c.run(ctx.(*vmContext).vm, arguments(stack, c.params))
	}
	stack[0] = uint64(errno)
}

// wasiExit ends the guest. (The real host only logs the call; a runtime that exits traps right after.)
func wasiExit(_ context.Context, _ api.Module, stack []uint64) {
	panic(fmt.Errorf("the guest exited with code %d", uint32(stack[0])))
}

func wasiNone(vm *VM, a []uint64) Errno {
	return errnoOf(vm.write(a[0], 0).then(vm.write(a[1], 0)))
}

func wasiClockResolution(vm *VM, a []uint64) Errno {
	if a[0] > uint64(ClockMonotonic) {
		return ErrnoNotsup
	}
	return errnoOf(vm.write64(a[1], 1))
}

func wasiClockTime(vm *VM, a []uint64) Errno {
	now, errno := vm.host.clock.read(ClockID(a[0]))
	if errno != ErrnoSuccess {
		return errno
	}
	return errnoOf(vm.write64(a[2], now))
}

func wasiRandom(vm *VM, a []uint64) Errno {
	if a[1] > 64<<10 {
		return ErrnoInval
	}
	buffer, ok := vm.read(a[0], a[1])
	if !ok {
		return ErrnoFault
	}
	_, _ = vm.random.Read(buffer)
	return ErrnoSuccess
}

func wasiPoll(vm *VM, a []uint64) Errno {
	if vm.polls++; vm.polls > maxPolls {
		panic(errSleeps)
	}
	return errnoOf(vm.write(a[3], 0))
}

// wasiWrite makes log lines of stdout and stderr.
func wasiWrite(vm *VM, a []uint64) Errno {
	level := LogInfo
	switch a[0] {
	case 1:
	case 2:
		level = LogError
	default:
		return ErrnoBadf
	}
	var text strings.Builder
	for i := range a[2] {
		pointer, ok1 := vm.memory.ReadUint32Le(uint32(a[1] + 8*i))
		size, ok2 := vm.memory.ReadUint32Le(uint32(a[1] + 8*i + 4))
		part, ok3 := vm.memory.Read(pointer, size)
		if !ok1 || !ok2 || !ok3 {
			return ErrnoFault
		}
		text.Write(part)
	}
	if text.Len() > 0 {
		vm.log(level, strings.TrimSuffix(text.String(), "\n"))
	}
	return errnoOf(vm.write(a[3], uint32(text.Len())))
}

// wasiFdstat knows stdout and stderr, and that they can be written.
func wasiFdstat(vm *VM, a []uint64) Errno {
	if a[0] != 1 && a[0] != 2 {
		return ErrnoBadf
	}
	return errnoOf(vm.write64(a[1], 0).then(vm.write64(a[1]+8, 64)).then(vm.write64(a[1]+16, 0)))
}

func errnoOf(s Status) Errno {
	if s != StatusOk {
		return ErrnoFault
	}
	return ErrnoSuccess
}
