package filter_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A body that doesn't come is given up on time, and not a tick later.
func TestABodyIsGivenUpOnTime(t *testing.T) {
	for sent, gives := range map[string]time.Duration{"": 5 * second, `{"messages":["`: second} {
		g := start(t, 1, fromBody(pool("model", 1)))
		s := g.open(0)
		if sent != "" {
			s.RequestBody([]byte(sent), false)
		}
		require.Equal(t, gives, g.after("the request goes on", func() bool { return runs(s) }))
	}
}
