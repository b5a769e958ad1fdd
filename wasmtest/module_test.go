package wasmtest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// section is a wasm section with its content.
func section(id byte, content ...byte) []byte {
	return append([]byte{id, byte(len(content))}, content...)
}

// export is an entry of the export section: function 0 under that name.
func export(name string, function byte) []byte {
	return append(append([]byte{byte(len(name))}, name...), 0, function)
}

// tiny is a module with one function of type () -> (), or an import of that type, exported under the given names.
func tiny(importModule, importName string, exports ...string) []byte {
	wasm := []byte("\x00asm\x01\x00\x00\x00")
	wasm = append(wasm, section(1, 1, 0x60, 0, 0)...)
	if importName != "" {
		entry := append([]byte{1, byte(len(importModule))}, importModule...)
		entry = append(append(append(entry, byte(len(importName))), importName...), 0, 0)
		wasm = append(wasm, section(2, entry...)...)
	} else {
		wasm = append(wasm, section(3, 1, 0)...)
	}
	all := []byte{byte(len(exports))}
	for _, name := range exports {
		all = append(all, export(name, 0)...)
	}
	wasm = append(wasm, section(7, all...)...)
	if importName == "" {
		wasm = append(wasm, section(10, 1, 2, 0, 0x0b)...)
	}
	return wasm
}

const abi, alloc = "proxy_abi_version_0_2_1", "malloc"

func TestCompile_RefusesWhatTheRealHostWouldRefuse(t *testing.T) {
	for want, wasm := range map[string][]byte{
		"invalid magic number":                           []byte("not wasm"),
		"export proxy_abi_version_0_2_1 is missing":      tiny("", "", alloc, "proxy_abi_version_0_2_0"),
		"neither malloc nor proxy_on_memory_allocate":    tiny("", "", abi),
		"export proxy_on_tick has signature () -> ()":    tiny("", "", abi, alloc, "proxy_on_tick"),
		"imports the host doesn't offer: env.proxy_nope": tiny("env", "proxy_nope", abi, alloc),
		"doesn't offer: gopher.wait":                     tiny("gopher", "wait", abi, alloc),
	} {
		_, err := wasmtest.Compile(wasm)
		require.ErrorIs(t, err, wasmtest.ErrModule)
		require.ErrorContains(t, err, want)
	}
}

func TestInitialize_MayNotCallTheHost(t *testing.T) {
	// _initialize calls proxy_done.
	wasm := []byte("\x00asm\x01\x00\x00\x00")
	wasm = append(wasm, section(1, 2, 0x60, 0, 0, 0x60, 0, 1, 0x7f)...)
	wasm = append(wasm, section(2, append([]byte("\x01\x03env\x0aproxy_done"), 0, 1)...)...)
	wasm = append(wasm, section(3, 1, 0)...)
	exports := []byte{3}
	for _, name := range []string{abi, alloc, "_initialize"} {
		exports = append(exports, export(name, 1)...)
	}
	wasm = append(wasm, section(7, exports...)...)
	wasm = append(wasm, section(10, 1, 5, 0, 0x10, 0, 0x1a, 0x0b)...)
	module, err := wasmtest.Compile(wasm)
	require.NoError(t, err)
	h := wasmtest.Start(t, module)
	_, err = h.Load(wasmtest.PluginConfig{})
	require.ErrorContains(t, err, "w0: _initialize: proxy_done: only logging is allowed")
}

func TestCompile_CallbacksNotExportedAreSkipped(t *testing.T) {
	for _, option := range [][]wasmtest.CompileOption{nil, {wasmtest.WithInterpreter()},
		{wasmtest.WithCacheDir(t.TempDir())}} {
		module, err := wasmtest.Compile(tiny("", "", abi, alloc, "_initialize"), option...)
		require.NoError(t, err)
		h := wasmtest.Start(t, module)
		p, err := h.Load(wasmtest.PluginConfig{})
		require.NoError(t, err, "no proxy_on_configure agrees")
		stream := p.Stream(0)
		require.Equal(t, wasmtest.Continue, stream.RequestHeaders(post, false))
		require.Equal(t, wasmtest.Continue, stream.RequestBody([]byte("a"), true))
		require.Equal(t, wasmtest.Continue, stream.Respond(200, "b"))
		require.Empty(t, stream.Callbacks())
		require.Equal(t, "a", string(stream.Forwarded().Body))
		p.Retire()
		h.Close()
		require.NoError(t, module.Close())
	}
}

func TestModule_TellsWhatItNeedsAndOffers(t *testing.T) {
	require.True(t, turnstileModule.Exports("proxy_on_queue_ready"))
	require.False(t, turnstileModule.Exports("proxy_on_tick"))
	require.Contains(t, turnstileModule.Imports(), "env.proxy_enqueue_shared_queue")
	require.Contains(t, turnstileModule.Imports(), "wasi_snapshot_preview1.clock_time_get")
}

func TestCompile_OneModuleServesManyHosts(t *testing.T) {
	for range 50 {
		h := wasmtest.Start(t, turnstileModule, wasmtest.WithWorkers(2))
		p := h.MustLoad(wasmtest.PluginConfig{Configuration: []byte("1")})
		a, b := p.Stream(0), p.Stream(1)
		require.Equal(t, wasmtest.Continue, a.RequestHeaders(get, true),
			"every host has its own data, and every VM fresh memory")
		require.NotEqual(t, wasmtest.Continue, b.RequestHeaders(get, true))
		h.Close()
	}
}
