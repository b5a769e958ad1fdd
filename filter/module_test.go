package filter_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
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

// Envoy is not ready before V8 has compiled the module: docs/rationale.md says what a megabyte costs. This is the bound
// for everything that is planned: what there is, and the fleet.
func TestModuleIsSmall(t *testing.T) {
	const limit = 2_750_000
	require.LessOrEqual(t, len(wasmBytes), limit)
}

func TestModuleIsBuiltByStandardGo(t *testing.T) {
	require.False(t, strings.Contains(strings.ToLower(string(wasmBytes)), "tinygo"))
	require.True(t, module.Exports("proxy_abi_version_0_2_1"))
	require.False(t, module.Exports("proxy_on_log"), "permits come back in on_done: upstream filters get no on_log")
}

// BenchmarkRequest is one request through two pools, from its headers to its end, while as many others wait as the name
// says. $HEADGATE_WASM measures another build of the module.
func BenchmarkRequest(b *testing.B) {
	for _, waiting := range []int{0, 300} {
		b.Run(fmt.Sprintf("waiting=%d", waiting), func(b *testing.B) {
			tenants := object{"name": "tenant", "limit": 1000, "key": []string{"tenant"}}
			g := start(b, 1, config(tenants, pool("model", 8, "queue", 1000, "max_wait", "1h")))
			tenant := 0
			send := func() *wasmtest.Stream {
				tenant = (tenant + 1) % 50
				return g.send(0, "x-tenant", strconv.Itoa(tenant), "x-model", "m")
			}
			var queue []*wasmtest.Stream
			if waiting > 0 {
				for range 8 + waiting {
					queue = append(queue, send())
				}
			}
			for b.Loop() {
				queue = append(queue, send())
				queue[0].Respond(200, "ok")
				queue = queue[1:]
				g.host.Drain()
			}
		})
	}
}
