package filter_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// A metric that the host doesn't define counts nowhere, and above all not as another one. Everything else goes on.
func TestAMetricThatIsNotDefinedCountsNowhere(t *testing.T) {
	const missing = "headgate.model.admitted"
	counts := func(define bool) map[string]uint64 {
		host := wasmtest.Start(t, module, wasmtest.WithWorkers(1), wasmtest.WithMainThread())
		g := &gateway{t: t, host: host}
		host.OnHostCall(func(c *wasmtest.HostCall) {
			if !define && c.Name() == "proxy_define_metric" && c.Text(1) == missing {
				c.Fail(wasmtest.StatusInternalFailure)
			}
		})
		g.load(config(pool("model", 1)))
		g.host.Run(20 * ms)
		s := g.sendModel(0, "m")
		g.requireRunning(s, "a request")
		s.Respond(200, "ok")
		values := map[string]uint64{}
		for _, m := range g.metrics() {
			values[m.Name] = m.Value
		}
		logged := 0
		for _, l := range host.Logs() {
			if strings.Contains(l.Message, missing) && l.Level == wasmtest.LogWarn {
				logged++
			}
		}
		require.Equal(t, !define, logged > 0)
		return values
	}
	want, got := counts(true), counts(false)
	require.Equal(t, uint64(1), want[missing])
	delete(want, missing)
	require.Equal(t, want, got)
}
