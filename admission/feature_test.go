package admission

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConfigRefusesWhatIsNotBuilt(t *testing.T) {
	for _, c := range []struct{ config, field string }{
		{withJSON(`"stage": "admin"`), "stage"},
		{withJSON(`"routes": ["/a", "/b:5"]`), "routes[1]"},
		{withJSON(`"routes": ["/a@g"]`), "routes[0]"},
		{poolJSON(`"limit": 1, "min_active": 1`), "pools[0].min_active"},
		{poolJSON(`"limit": 1, "hold": {"failure": "1s"}`), "pools[0].hold"},
		{poolJSON(`"limit": 1, "breaker": {}`), "pools[0].breaker"},
		{poolJSON(`"limit": 1, "headroom": {}`), "pools[0].headroom"},
	} {
		_, err := parse([]byte(c.config))
		require.NoError(t, err, c.config)
		_, err = ParseConfig([]byte(c.config))
		require.EqualError(t, err, c.field+": is not built into this version yet", c.config)
	}
}
