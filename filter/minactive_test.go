package filter_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Holds leave min_active permits alone.
func TestMinActive(t *testing.T) {
	for minActive, most := range map[int]int{0: 4, 1: 3, 2: 2, 3: 1, 4: 0} {
		t.Run(fmt.Sprint(minActive), func(t *testing.T) {
			g := start(t, 2, config(pool("model", 4, "min_active", minActive, "hold", object{"failure": "30s", "cancel": "30s"})))
			for i := range 12 {
				s := g.sendModel(i%2, "m")
				if i%2 == 0 {
					answer(503)(s)
				} else {
					s.ClientGone()
				}
				g.afterReset()
				require.Equal(t, min(i+1, most), g.gauge("model.on_hold"))
			}
			for i := range minActive {
				g.requireRunning(g.sendModel(i%2, "m"), "a request that holds must leave alone")
			}
			g.requireRefused(g.sendModel(0, "m"), noPermit, "model", "one more")
		})
	}
}
