package filter_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// allowedImports is all that the module may import from a host. Older hosts don't have more.
var allowedImports = []string{
	"env.proxy_continue_stream", "env.proxy_define_metric", "env.proxy_dequeue_shared_queue", "env.proxy_enqueue_shared_queue",
	"env.proxy_get_buffer_bytes", "env.proxy_get_header_map_pairs", "env.proxy_get_metric", "env.proxy_get_property", "env.proxy_get_shared_data",
	"env.proxy_increment_metric", "env.proxy_log", "env.proxy_record_metric", "env.proxy_register_shared_queue",
	"env.proxy_remove_header_map_value", "env.proxy_replace_header_map_value", "env.proxy_resolve_shared_queue",
	"env.proxy_send_local_response", "env.proxy_set_effective_context", "env.proxy_set_property", "env.proxy_set_shared_data",
	"env.proxy_set_tick_period_milliseconds",
	"wasi_snapshot_preview1.args_get", "wasi_snapshot_preview1.args_sizes_get", "wasi_snapshot_preview1.clock_time_get",
	"wasi_snapshot_preview1.environ_get", "wasi_snapshot_preview1.environ_sizes_get", "wasi_snapshot_preview1.fd_write",
	"wasi_snapshot_preview1.poll_oneoff", "wasi_snapshot_preview1.proc_exit", "wasi_snapshot_preview1.random_get",
	"wasi_snapshot_preview1.sched_yield",
}

func TestModuleImportsNothingElse(t *testing.T) {
	allowed := map[string]bool{}
	for _, i := range allowedImports {
		allowed[i] = true
	}
	for _, i := range module.Imports() {
		require.True(t, allowed[i], "the module imports %s: is it needed? Then it belongs into the list", i)
	}
}

// V8 compiles the module on Envoy's main thread, about two seconds a megabyte.
func TestModuleIsSmall(t *testing.T) {
	const limit = 2_500_000
	require.LessOrEqual(t, len(wasmBytes), limit)
}

func TestModuleIsBuiltByStandardGo(t *testing.T) {
	require.False(t, strings.Contains(strings.ToLower(string(wasmBytes)), "tinygo"))
	require.True(t, module.Exports("proxy_abi_version_0_2_1"))
	require.False(t, module.Exports("proxy_on_log"), "permits come back in on_done: upstream filters get no on_log")
}
