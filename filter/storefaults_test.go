package filter_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// Whatever part of the store fails, a request follows on_error at once, and leaves no gauge behind. A failure is not
// taken for contention.
func TestEveryPartOfTheStoreMayFail(t *testing.T) {
	for _, part := range []string{"/workers", "/model/directory", "/model/0"} {
		for _, call := range []string{"proxy_get_shared_data", "proxy_set_shared_data"} {
			t.Run(part+" "+call, func(t *testing.T) {
				g := start(t, 1, with(config(pool("model", 1, "queue", 2, "max_wait", "5s")), "on_error", "closed"))
				g.host.OnHostCall(func(c *wasmtest.HostCall) {
					if c.Name() == call && strings.HasSuffix(c.Text(0), part) {
						c.Fail(wasmtest.StatusInternalFailure)
					}
				})
				g.requireRefused(g.sendModel(0, "m"), noPermit, "model", "a request while the store fails")
				require.NotZero(t, g.counter("model.store_error"))
				require.Zero(t, g.counter("model.contended"))
				require.Zero(t, g.counter("model.cas_retry"))
				g.host.OnHostCall(nil)
				g.host.Run(100 * ms)
				stored := 1
				if part != "/model/0" {
					stored = 0
				}
				require.Equal(t, stored, g.gauge("model.keys"))
				require.Zero(t, g.gauge("model.inflight"))
				g.requireCapacity("m", 1)
				require.Equal(t, 1, g.gauge("model.keys"))
				g.requireDrained("model")
			})
		}
	}
}
