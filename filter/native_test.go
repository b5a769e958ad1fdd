package filter_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/proxytest"
	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/headgate/headgate/filter"
)

// The same filter natively, on the SDK's own test host: the binding's native twin works, and a debugger reaches the
// code.
func TestNativelyUnderTheSDKsTestHost(t *testing.T) {
	text := pluginConfig(config(pool("model", 1))).Configuration
	host, reset := proxytest.NewHostEmulator(proxytest.NewEmulatorOption().WithVMContext(filter.New()).WithPluginConfiguration(text))
	defer reset()
	require.Equal(t, types.OnVMStartStatusOK, host.StartVM())
	require.Equal(t, types.OnPluginStartStatusOK, host.StartPlugin())
	host.Tick()
	headers := [][2]string{{":method", "POST"}, {":path", "/v1/chat/completions"}, {"x-model", "m"}}
	first := host.InitializeHttpContext()
	require.Equal(t, types.ActionContinue, host.CallOnRequestHeaders(first, headers, true))
	second := host.InitializeHttpContext()
	require.Equal(t, types.ActionPause, host.CallOnRequestHeaders(second, headers, true))
	reply := host.GetSentLocalResponse(second)
	require.Equal(t, uint32(429), reply.StatusCode)
	require.Contains(t, reply.Headers, [2]string{"x-headgate-reason", noPermit})
	host.CompleteHttpContext(first)
	host.Tick() // its permit comes back later: it ended without an answer
	third := host.InitializeHttpContext()
	require.Equal(t, types.ActionContinue, host.CallOnRequestHeaders(third, headers, true))
	n, err := host.GetCounterMetric("headgate.model.admitted")
	require.NoError(t, err)
	require.Equal(t, uint64(2), n)
}

// A stream's memory is used again.
func TestAStreamIsUsedAgain(t *testing.T) {
	p := filter.New().NewPluginContext(1)
	first, second := p.NewHttpContext(2), p.NewHttpContext(3)
	require.NotSame(t, first, second)
	first.OnHttpStreamDone()
	require.Same(t, first, p.NewHttpContext(4))
	require.NotSame(t, second, p.NewHttpContext(5))
}
